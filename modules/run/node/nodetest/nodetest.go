// Package nodetest lets processes of tests live, and end.
package nodetest

import (
	"testing"
	"time"

	"github.com/portico-run/portico/internal/database"
)

// Live has a process believed alive until a moment.
func Live(t testing.TB, db *database.DB, id string, until time.Time) {
	t.Helper()
	err := db.InTx(t.Context(), func(tx database.Tx) error {
		return database.Unscoped(tx.Handle).Exec(`INSERT INTO nodes (node_id, version, role, started_at, expires_at) VALUES (?, 'test', 'all', ?, ?)
			ON CONFLICT (node_id) DO UPDATE SET expires_at = excluded.expires_at`, id, until, until).Error
	})
	if err != nil {
		t.Fatal(err)
	}
}
