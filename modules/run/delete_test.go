package run_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/modules/run"
)

// A run goes with all of its versions when it has ended, and its calls lose what
// was said in them.
func TestDelete(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := newService(t, db)
		ctx := t.Context()
		other := create(t, s, anna, run.CreateParams{Title: "another"})
		first := create(t, s, anna, run.CreateParams{Title: "hers"})
		insert := func(callID, resultID, status string) {
			t.Helper()
			require.NoError(t, db.InTx(ctx, func(tx database.Tx) error {
				return database.Unscoped(tx.Handle).Exec(`INSERT INTO tool_call_results (result_id, call_id, uid, toolset_id, tool_name, input, output, status, idempotency_key)
					VALUES (?, ?, 'u-anna', 'demo', 'x', '{"secret":1}', '{"secret":2}', ?, ?)`, resultID, callID, status, callID).Error
			}))
		}
		change := func(sql string) {
			t.Helper()
			require.NoError(t, db.InTx(ctx, func(tx database.Tx) error { return database.Unscoped(tx.Handle).Exec(sql).Error }))
		}
		insert("call-1", first.ResultID, "executing")
		insert("call-2", other.ResultID, "completed")
		require.ErrorIs(t, s.Delete(ctx, anna, first.ResultID), run.ErrRunning)
		require.NoError(t, finish(t, db, s, first, run.Finish{Status: run.Done}))
		require.ErrorIs(t, s.Delete(ctx, anna, first.ResultID), run.ErrRunning, "a call of it executes")
		change("UPDATE tool_call_results SET status = 'completed' WHERE call_id = 'call-1'")
		second := create(t, s, anna, run.CreateParams{ResultID: first.ResultID})
		require.ErrorIs(t, s.Delete(ctx, anna, first.ResultID), run.ErrRunning, "its second version runs")
		require.NoError(t, finish(t, db, s, second, run.Finish{Status: run.Aborted}))

		held, err := s.Holdings(ctx, anna, first.ResultID)
		require.NoError(t, err)
		require.Equal(t, run.Holdings{Versions: 2, Events: 4, Calls: []string{"call-1"}}, held)
		require.NoError(t, s.Delete(ctx, anna, first.ResultID))
		_, err = s.Get(ctx, anna, first.ResultID, nil)
		require.ErrorIs(t, err, run.ErrMissing)
		_, err = s.Owner(ctx, first.ResultID)
		require.ErrorIs(t, err, run.ErrMissing)
		require.ErrorIs(t, s.Delete(ctx, anna, first.ResultID), run.ErrMissing)

		count := func(sql string) (n int) {
			t.Helper()
			require.NoError(t, database.Unscoped(db.Read(ctx)).Raw(sql).Scan(&n).Error)
			return n
		}
		require.Equal(t, 1, count("SELECT count(*) FROM tool_call_results WHERE call_id = 'call-1' AND input = '{}' AND output = '{}' AND deleted_at IS NOT NULL AND idempotency_key IS NULL"))
		require.Equal(t, 1, count("SELECT count(*) FROM tool_call_results WHERE input LIKE '%secret%'"), "calls of another run stay")
		require.Equal(t, 1, count("SELECT count(*) FROM run_events"))
		owner, err := s.Owner(ctx, other.ResultID)
		require.NoError(t, err)
		require.Equal(t, anna.UID, owner)
	})
}
