package tool

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/internal/database"
	"github.com/portico-run/portico/modules/internal/database/databasetest"
)

// Exec runs SQL for a test.
func Exec(t testing.TB, db *database.DB, sql string, args ...any) {
	t.Helper()
	require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error {
		return database.Unscoped(tx.Handle).Exec(sql, args...).Error
	}))
}

// Count runs a query for one number.
func Count(t testing.TB, db *database.DB, sql string, args ...any) (n int) {
	t.Helper()
	require.NoError(t, database.Unscoped(db.Read(t.Context())).Raw(sql, args...).Scan(&n).Error)
	return n
}

// CheckRows compares the row struct with the schema.
func CheckRows(t *testing.T, db *database.DB) {
	t.Helper()
	databasetest.CheckRow(t, db, callRow{})
}

// Shorten is shorten.
var Shorten = shorten

// Renew prolongs a keeper's leases once.
func Renew(ctx context.Context, k *Keeper) error { return k.renew(ctx) }
