package retention_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/objectstore"
	"github.com/portico-run/portico/modules/billing/report"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/run/retention"
	"github.com/portico-run/portico/modules/run/retention/holdings"
)

const day = 24 * time.Hour

// fixture is a database with what a year has left.
type fixture struct {
	t       *testing.T
	db      *database.DB
	objects *storage
	now     time.Time

	mu   sync.Mutex
	gone map[string]int
	due  map[string]time.Duration
}

// storage may not delete.
type storage struct {
	objectstore.Store

	stuck bool
}

func (s *storage) Delete(ctx context.Context, key string) error {
	if s.stuck {
		return errors.New("the storage has gone")
	}
	return s.Store.Delete(ctx, key)
}

func each(t *testing.T, test func(f *fixture)) {
	t.Helper()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		folder, err := objectstore.NewFolder(t.TempDir())
		require.NoError(t, err)
		f := &fixture{t: t, db: db, objects: &storage{Store: folder}, now: db.Now(), gone: map[string]int{}, due: map[string]time.Duration{}}
		f.exec("INSERT INTO users (uid, name) VALUES ('u-anna', 'anna')")
		test(f)
	})
}

// Gone implements retention.Observer.
func (f *fixture) Gone(table string, rows int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gone[table] += rows
}

// Oldest implements retention.Observer.
func (f *fixture) Oldest(table string, _, due time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.due[table] = due.Round(day)
}

func (f *fixture) keeper(s retention.Settings) *retention.Keeper {
	return retention.New(retention.Deps{
		DB: f.db, Objects: f.objects, Output: record.OutputKey, Deleted: run.Deleted, Observer: f, Settings: s, Logger: slog.New(slog.DiscardHandler),
	})
}

func (f *fixture) exec(sql string, args ...any) {
	f.t.Helper()
	require.NoError(f.t, f.db.InTx(f.t.Context(), func(tx database.Tx) error { return database.Unscoped(tx.Handle).Exec(sql, args...).Error }), sql)
}

func (f *fixture) count(sql string, args ...any) (n int) {
	f.t.Helper()
	require.NoError(f.t, database.Unscoped(f.db.Read(f.t.Context())).Raw("SELECT count(*) FROM "+sql, args...).Scan(&n).Error)
	return n
}

// run makes a version of a run that changed so many days ago.
func (f *fixture) run(id string, version int, status string, ago, events int) {
	f.t.Helper()
	at := f.now.Add(-time.Duration(ago) * day)
	f.exec("INSERT INTO action_results (result_id, version, uid, status, event_seq, created_at, updated_at) VALUES (?, ?, 'u-anna', ?, ?, ?, ?)", id, version, status, events, at, at)
	f.exec(`INSERT INTO run_events (result_id, version, seq, type, created_at) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		SELECT ?, ?, i, 'x', ? FROM n`, events, id, version, at)
	f.exec("INSERT INTO action_messages (message_id, result_id, version, seq, type, content) VALUES (?, ?, ?, 1, 'ai', 'hello')", fmt.Sprintf("m-%s-%d", id, version), id, version)
}

// call makes a record of a call, what was charged for it, a decision about it, and the
// whole of its result.
func (f *fixture) call(id, resultID, parent, status string, ago int) {
	f.t.Helper()
	at := f.now.Add(-time.Duration(ago) * day)
	output := fmt.Sprintf(`{"status":"success","data":"…","truncated":{"bytes":5,"ref":"/v1/tool/call/output?toolCallId=%s"}}`, strings.ReplaceAll(id, ":", "%3A"))
	var by any
	if parent != "" {
		by = parent
	}
	f.exec(`INSERT INTO tool_call_results (call_id, result_id, uid, toolset_id, tool_name, input, output, status, ptc_call_id, type, created_at, updated_at)
		VALUES (?, ?, 'u-anna', 'demo', 'x', '{}', ?, ?, ?, 'ptc', ?, ?)`, id, resultID, output, status, by, at, at)
	f.exec("INSERT INTO credit_usages (usage_id, uid, amount, due_amount, tool_call_id, action_result_id, usage_type, created_at) VALUES (?, 'u-anna', 1, 1, ?, ?, 'tool_call', ?)", "cu-"+id, id, resultID, at)
	f.exec("INSERT INTO credit_holds (call_id, uid, amount, created_at) VALUES (?, 'u-anna', 1, ?)", id, at)
	f.exec(`INSERT INTO approvals (call_id, uid, result_id, version, toolset, tool, arguments, reason, state, created_at, expires_at)
		VALUES (?, 'u-anna', ?, 0, 'demo', 'x', '{}', 'because', 'allowed', ?, ?)`, id, resultID, at, at)
	require.NoError(f.t, f.objects.Put(f.t.Context(), record.OutputKey("u-anna", id), strings.NewReader("12345"), ""))
}

// agree requires that database and storage agree, and that the books balance.
func (f *fixture) agree(named int) {
	f.t.Helper()
	got, err := holdings.New(holdings.Deps{DB: f.db, Objects: f.objects}).Verify(f.t.Context())
	require.NoError(f.t, err)
	require.Equal(f.t, holdings.Report{Named: named}, got)
	_, wrong, err := report.New(f.db).Verify(f.t.Context())
	require.NoError(f.t, err)
	require.Empty(f.t, wrong)
}

// Every table of the database has one word about how long its rows are kept.
func TestEveryTableHasAWord(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		q := `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE 'knowledge_words_%'`
		if db.Dialect() == database.Postgres {
			q = `SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()`
		}
		var tables []string
		require.NoError(t, database.Unscoped(db.Read(t.Context())).Raw(q).Scan(&tables).Error)
		require.Greater(t, len(tables), 40)
		words := map[string]int{}
		for _, w := range retention.Words() {
			words[w.Table]++
			said := 0
			for _, text := range []string{w.Setting, w.With, w.Ends, w.Kept} {
				if text != "" {
					said++
				}
			}
			require.Equal(t, 1, said, "%s: one word", w.Table)
		}
		if db.Dialect() == database.Postgres {
			tables = append(tables, "knowledge_words") // is one of SQLite
		}
		for _, table := range tables {
			require.Equal(t, 1, words[table], "%s: say in plan.go how long its rows are kept", table)
			delete(words, table)
		}
		require.Empty(t, words, "there are no such tables")
	})
}

// A run that is kept no longer goes with all that is about it, in transactions of
// bounded size and however many keepers there are. What still happens stays, and so
// does what was charged.
func TestRunsGoWhole(t *testing.T) {
	t.Parallel()
	each(t, func(f *fixture) {
		f.run("old", 0, "finish", 40, 1100)
		f.run("old", 1, "aborted", 35, 3)
		f.exec("INSERT INTO agent_turns (uid, result_id, version, step, body, created_at) VALUES ('u-anna', 'old', 0, 0, '{}', ?)", f.now)
		f.exec("INSERT INTO approval_permissions (permission_id, uid, result_id, toolset, tool, created_at) VALUES ('p', 'u-anna', 'old', 'demo', 'x', ?)", f.now)
		f.call("ptc:p", "old", "", "completed", 40)
		f.call("ptc:1", "old", "ptc:p", "completed", 40)
		f.call("ptc:2", "old", "ptc:p", "failed", 40)
		f.run("newer", 0, "finish", 40, 3)
		f.run("newer", 1, "error", 10, 3)
		f.run("again", 0, "finish", 40, 3)
		f.run("again", 1, "running", 40, 3)
		f.run("waits", 0, "finish", 40, 3)
		f.call("ptc:w", "waits", "", "waiting", 40)
		f.exec("UPDATE tool_call_results SET output = '' WHERE call_id = 'ptc:w'")
		require.NoError(t, f.objects.Delete(f.t.Context(), record.OutputKey("u-anna", "ptc:w")))
		f.exec("INSERT INTO credit_recharges (recharge_id, uid, amount, balance, expires_at) VALUES ('r', 'u-anna', 9, 5, ?)", f.now)
		f.agree(3)

		require.NoError(f.t, f.keeper(retention.Settings{}).Round(f.t.Context()))
		require.Empty(f.t, f.gone, "by default, everything is kept")
		lines, err := f.keeper(retention.Settings{Runs: 30 * day}).Show(f.t.Context())
		require.NoError(f.t, err)
		for _, l := range lines {
			require.Equal(f.t, map[bool]int64{true: 2}[l.Table == "action_results"], l.Due, l.Table)
		}

		f.objects.stuck = true
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				err := f.keeper(retention.Settings{Runs: 30 * day}).Round(f.t.Context())
				if err != nil && !strings.Contains(err.Error(), "the storage has gone") {
					f.t.Error(err)
				}
			})
		}
		wg.Wait()
		require.NoError(f.t, f.keeper(retention.Settings{Runs: 30 * day}).Round(f.t.Context()))
		for _, table := range []string{"action_results", "run_events", "action_messages", "tool_call_results", "agent_turns", "approval_permissions", "approvals"} {
			require.Zero(f.t, f.count(table+" WHERE result_id = 'old'"), table)
		}
		require.Equal(f.t, 5, f.count("action_results"))
		require.Equal(f.t, 15, f.count("run_events"))
		require.Equal(f.t, 1, f.count("tool_call_results"))
		require.Equal(f.t, 4, f.count("credit_usages WHERE tool_call_id IS NOT NULL"))
		require.Equal(f.t, 1, f.count("credit_holds"))
		require.Equal(f.t, map[string]int{"action_results": 2, "run_events": 1103, "action_messages": 2, "tool_call_results": 3}, f.gone)
		require.Equal(f.t, map[string]time.Duration{"action_results": 0}, f.due)
		f.agree(0)

		// What the storage did not take back is due again a while later.
		f.objects.stuck = false
		f.exec("UPDATE object_deletions SET due_at = ?", f.now)
		require.NoError(f.t, f.keeper(retention.Settings{}).Round(f.t.Context()))
		keys, err := f.objects.List(f.t.Context(), "")
		require.NoError(f.t, err)
		require.Empty(f.t, keys)
		require.Zero(f.t, f.count("object_deletions"))
	})
}

// Of events that are kept no longer, the last of each run stays: it says how the run
// ended, so that streams end, too.
func TestEventsGoButTheLast(t *testing.T) {
	t.Parallel()
	each(t, func(f *fixture) {
		f.run("old", 0, "finish", 40, 1100)
		f.run("old", 1, "finish", 40, 1)
		f.run("young", 0, "finish", 10, 3)
		f.run("live", 0, "running", 40, 3)
		k := f.keeper(retention.Settings{RunEvents: 30 * day})
		require.NoError(f.t, k.Round(f.t.Context()))
		require.Equal(f.t, 1, f.count("run_events WHERE result_id = 'old' AND version = 0 AND seq = 1100"))
		require.Equal(f.t, 2, f.count("run_events WHERE result_id = 'old'"))
		require.Equal(f.t, 8, f.count("run_events"))
		require.Equal(f.t, 4, f.count("action_messages"))
		require.Equal(f.t, 2, f.count("action_results WHERE events_gone AND updated_at < ?", f.now.Add(-30*day)))
		require.Equal(f.t, 1099, f.gone["run_events"])
		require.NoError(f.t, k.Round(f.t.Context()))
		require.Equal(f.t, 1099, f.gone["run_events"])
	})
}

// Records of calls outside of runs, and of runs that somebody deleted, go when they have
// ended, with their results; what they cost stays. So does the audit log's end.
func TestCallsAndTheAuditLogGo(t *testing.T) {
	t.Parallel()
	each(t, func(f *fixture) {
		f.run("kept", 0, "finish", 40, 1)
		f.call("ptc:p", run.NoResult, "", "completed", 40)
		f.call("ptc:1", run.NoResult, "ptc:p", "failed", 40)
		f.call("ptc:young", run.NoResult, "", "completed", 10)
		f.call("ptc:inside", "kept", "", "completed", 40)
		f.call("ptc:deleted", "gone", "", "completed", 40)
		f.exec("UPDATE tool_call_results SET deleted_at = updated_at WHERE call_id = 'ptc:deleted'")
		f.call("ptc:works", run.NoResult, "", "executing", 40)
		f.call("ptc:beneath", run.NoResult, "ptc:works", "completed", 40)
		for ago := range 3 {
			f.exec("INSERT INTO audit_events (uid, action, subject, created_at) VALUES ('u-anna', 'key.create', 'k', ?)", f.now.Add(-time.Duration(20*ago)*day))
		}
		f.exec("INSERT INTO credit_recharges (recharge_id, uid, amount, balance, expires_at) VALUES ('r', 'u-anna', 9, 2, ?)", f.now)
		require.NoError(f.t, f.keeper(retention.Settings{Calls: 30 * day, Audit: 30 * day}).Round(f.t.Context()))
		var left []string
		require.NoError(f.t, database.Unscoped(f.db.Read(f.t.Context())).Raw("SELECT call_id FROM tool_call_results ORDER BY call_id").Scan(&left).Error)
		require.Equal(f.t, []string{"ptc:inside", "ptc:works", "ptc:young"}, left)
		require.Equal(f.t, 7, f.count("credit_usages WHERE tool_call_id IS NOT NULL"))
		require.Equal(f.t, 2, f.count("audit_events"))
		require.Equal(f.t, map[string]int{"tool_call_results": 4, "audit_events": 1}, f.gone)
		keys, err := f.objects.List(f.t.Context(), "")
		require.NoError(f.t, err)
		require.Len(f.t, keys, 3)
	})
}

// Who does not keep up is told of: for how long the oldest has been due.
func TestWhatIsDueIsTold(t *testing.T) {
	t.Parallel()
	each(t, func(f *fixture) {
		f.run("old", 0, "finish", 40, 3)
		f.exec("ALTER TABLE action_messages RENAME TO hidden")
		require.Error(f.t, f.keeper(retention.Settings{Runs: 30 * day, Audit: 30 * day}).Round(f.t.Context()))
		require.Equal(f.t, map[string]time.Duration{"action_results": 10 * day, "audit_events": 0}, f.due)
		require.Equal(f.t, 1, f.count("action_results"))
		require.Equal(f.t, 3, f.count("run_events"), "a run goes whole, or stays")
	})
}
