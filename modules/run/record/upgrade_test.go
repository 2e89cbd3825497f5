package record_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
)

// The table of calls that execute is filled when it is made, so that a call whose
// process died before is found after; a migration that broke off starts over.
func TestUpgradeKnowsWhatExecutes(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		exec := func(sql string) {
			t.Helper()
			require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error { return database.Unscoped(tx.Handle).Exec(sql).Error }))
		}
		for range 2 {
			steps, err := db.Steps(t.Context())
			require.NoError(t, err)
			for i := len(steps); i > 12; i-- {
				_, err := db.MigrateDown(t.Context(), false)
				require.NoError(t, err)
			}
			exec("DELETE FROM tool_call_results")
			exec("DELETE FROM users")
			exec("INSERT INTO users (uid, name) VALUES ('u-1', 'anna')")
			for i, status := range []string{"completed", "executing", "failed", "executing"} {
				exec(fmt.Sprintf(`INSERT INTO tool_call_results (result_id, call_id, uid, toolset_id, tool_name, input, output, status, lease_expires_at)
					VALUES ('non-result-id', 'call-%d', 'u-1', 'demo', 't', '{}', '{}', '%s', '2026-01-01T00:00:00Z')`, i, status))
			}
			_, err = db.Migrate(t.Context())
			require.NoError(t, err)
		}
		w := worldOver(db, database.Now())
		dead, err := w.records.Expired(t.Context(), w.now, 10)
		require.NoError(t, err)
		require.Len(t, dead, 2)
		require.Equal(t, "call-3", dead[0].CallID, "the newest first")
		require.Equal(t, "call-1", dead[1].CallID)
		require.NoError(t, w.records.GiveUp(t.Context(), dead[0], w.now, func(database.Tx) error { return nil }))
		dead, err = w.records.Expired(t.Context(), w.now, 10)
		require.NoError(t, err)
		require.Len(t, dead, 1)
	})
}
