package erase_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/accesstest"
	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/objectstore"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/erase"
)

var anna, ben = actor.Actor{UID: "u-anna"}, actor.Actor{UID: "u-ben"}

func objects(t *testing.T) objectstore.Store {
	t.Helper()
	folder, err := objectstore.NewFolder(t.TempDir())
	require.NoError(t, err)
	return folder
}

func services(t *testing.T, db *database.DB) (*run.Service, *erase.Service) {
	t.Helper()
	for _, a := range []actor.Actor{anna, ben} {
		require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error {
			return database.Unscoped(tx.Handle).Exec("INSERT INTO users (uid, name) VALUES (?, ?)", a.UID, a.UID).Error
		}))
	}
	return run.New(run.Deps{DB: db, Owner: "pod-1"}).Service, erase.New(erase.Deps{DB: db, Objects: objects(t)})
}

func create(t *testing.T, s *run.Service, a actor.Actor, p run.CreateParams) run.Run {
	t.Helper()
	r, err := s.Create(t.Context(), a, p)
	require.NoError(t, err)
	return r
}

func finish(t *testing.T, db *database.DB, s *run.Service, r run.Run, f run.Finish) error {
	t.Helper()
	return db.InTx(t.Context(), func(tx database.Tx) error { return s.Finish(t.Context(), tx, r.Ref(), f) })
}

// Another user's run is none, whatever is asked of it. Owner is for operators.
func TestNoMethodReachesAnotherUser(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		runs, s := services(t, db)
		r := create(t, runs, anna, run.CreateParams{Title: "hers"})
		require.NoError(t, finish(t, db, runs, r, run.Finish{Status: run.Done}))
		tries := map[string]func(t *testing.T){
			"Holdings": func(t *testing.T) {
				_, err := s.Holdings(t.Context(), ben, r.ResultID)
				require.ErrorIs(t, err, run.ErrMissing)
			},
			"Delete": func(t *testing.T) { require.ErrorIs(t, s.Delete(t.Context(), ben, r.ResultID), run.ErrMissing) },
		}
		accesstest.Each(t, reflect.TypeFor[*erase.Service](), tries, map[string]string{"Owner": "is for operators"})
		_, err := runs.Get(t.Context(), anna, r.ResultID, nil)
		require.NoError(t, err, "it is still there")
	})
}

// ofRuns are the tables of what belongs to a run, without those of which something
// stays: records of calls, files, and who did what.
func ofRuns(t *testing.T, db *database.DB) (tables []string) {
	t.Helper()
	q := `SELECT m.name FROM sqlite_schema m JOIN pragma_table_info(m.name) p WHERE m.type = 'table' AND p.name = 'result_id'`
	if db.Dialect() == database.Postgres {
		q = `SELECT table_name FROM information_schema.columns WHERE table_schema = current_schema() AND column_name = 'result_id'`
	}
	require.NoError(t, database.Unscoped(db.Read(t.Context())).Raw(q).Scan(&tables).Error)
	require.Greater(t, len(tables), 5)
	return slices.DeleteFunc(tables, func(table string) bool {
		return slices.Contains([]string{"tool_call_results", "drive_files", "audit_events"}, table)
	})
}

// A run goes with all of its versions when it has ended, and its calls lose what
// was said in them.
func TestDelete(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		runs, s := services(t, db)
		ctx := t.Context()
		other := create(t, runs, anna, run.CreateParams{Title: "another"})
		first := create(t, runs, anna, run.CreateParams{Title: "hers"})
		insert := func(callID, resultID, status string) {
			t.Helper()
			require.NoError(t, db.InTx(ctx, func(tx database.Tx) error {
				return database.Unscoped(tx.Handle).Exec(`INSERT INTO tool_call_results (result_id, call_id, uid, toolset_id, tool_name, input, output, status, idempotency_key)
					VALUES (?, ?, 'u-anna', 'demo', 'x', '{"secret":1}', '{"secret":2}', ?, ?)`, resultID, callID, status, callID).Error
			}))
		}
		change := func(sql string, args ...any) {
			t.Helper()
			require.NoError(t, db.InTx(ctx, func(tx database.Tx) error { return database.Unscoped(tx.Handle).Exec(sql, args...).Error }))
		}
		for _, r := range []run.Run{first, other} {
			change(`INSERT INTO approvals (call_id, uid, result_id, version, toolset, tool, arguments, changed_arguments, question, reason, state, created_at, expires_at)
				VALUES (?, 'u-anna', ?, 0, 'demo', 'x', '{"secret":1}', '{"secret":2}', '{}', '', 'allowed', ?, ?)`, "of "+r.ResultID, r.ResultID, db.Now(), db.Now())
			change(`INSERT INTO approval_permissions (permission_id, uid, result_id, toolset, tool, created_at) VALUES (?, 'u-anna', ?, 'demo', 'x', ?)`, "of "+r.ResultID, r.ResultID, db.Now())
			change(`INSERT INTO agent_turns (uid, result_id, version, step, body, created_at) VALUES ('u-anna', ?, 0, 0, '{"secret":3}', ?)`, r.ResultID, db.Now())
			change(`INSERT INTO action_messages (message_id, result_id, version, seq, type, content) VALUES (?, ?, 0, 90, 'ai', 'secret')`, "of "+r.ResultID, r.ResultID)
		}
		insert("call-1", first.ResultID, "executing")
		insert("call-2", other.ResultID, "completed")
		require.ErrorIs(t, s.Delete(ctx, anna, first.ResultID), erase.ErrRunning)
		require.NoError(t, finish(t, db, runs, first, run.Finish{Status: run.Done}))
		require.ErrorIs(t, s.Delete(ctx, anna, first.ResultID), erase.ErrRunning, "a call of it executes")
		change("UPDATE tool_call_results SET status = 'completed' WHERE call_id = 'call-1'")
		second := create(t, runs, anna, run.CreateParams{ResultID: first.ResultID})
		require.ErrorIs(t, s.Delete(ctx, anna, first.ResultID), erase.ErrRunning, "its second version runs")
		require.NoError(t, finish(t, db, runs, second, run.Finish{Status: run.Aborted}))

		held, err := s.Holdings(ctx, anna, first.ResultID)
		require.NoError(t, err)
		require.Equal(t, erase.Holdings{Versions: 2, Events: 4, Messages: 1, Calls: []string{"call-1"}}, held)
		require.NoError(t, s.Delete(ctx, anna, first.ResultID))
		_, err = runs.Get(ctx, anna, first.ResultID, nil)
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
		for _, table := range ofRuns(t, db) {
			require.Zero(t, count("SELECT count(*) FROM "+table+" WHERE result_id = '"+first.ResultID+"'"), table)
			require.Equal(t, 1, count("SELECT count(*) FROM "+table+" WHERE result_id = '"+other.ResultID+"'"), table)
		}
		owner, err := s.Owner(ctx, other.ResultID)
		require.NoError(t, err)
		require.Equal(t, anna.UID, owner)
	})
}
