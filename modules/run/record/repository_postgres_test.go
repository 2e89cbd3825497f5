package record_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/modules/billing"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
)

// state is what one call of one user finds. Users are told apart by n.
type state struct {
	n         int
	lots      []lot
	plus      string // lookup key of a subscription; empty for none
	plusSince time.Duration
	runStatus string // empty for a call outside a run
	parent    string // status of the program that makes the call; empty for none
	owner     string // of the program's lease
	ownerEnds time.Duration
	key       string // idempotency key
	seen      string // status of the call that used it before; empty for none
	shown     int64
	charge    billing.Charge
	answer    record.Answer
	origin    ids.Origin
	meanwhile string // what happens between the beginning and the end
}

type lot struct {
	balance money.Amount
	enabled bool
	left    time.Duration
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func randomState(r *rand.Rand, n int) state {
	s := state{
		n: n, plus: pick(r, "", "", "", "", "refly_plus_monthly", "refly_pro_monthly"), plusSince: pick(r, time.Hour, 1000*time.Hour),
		runStatus: pick(r, "", "running", "running", "running", "waiting", "finish"),
		parent:    pick(r, "", "", "executing", "executing", "completed", "deleted", "missing"),
		owner:     pick(r, "pod", "pod", run.Outside, "outside, ending"), ownerEnds: pick(r, time.Hour, -time.Hour),
		key: pick(r, "", "", "key"), seen: pick(r, "", "", "completed", "executing"), shown: pick[int64](r, 0, 0, 1),
		answer:    pick(r, record.Answer{Status: record.Success, Data: json.RawMessage(`{"a":"é\u0000"}`)}, record.Answer{Status: record.Success}, record.Refuse("X", "it failed")),
		meanwhile: pick(r, "", "", "", "", "lost", "ended", "charged", "unshown"),
		origin:    pick(r, ids.Standalone, ids.Agent),
	}
	for range r.IntN(4) {
		s.lots = append(s.lots, lot{
			pick(r, 0, money.Credit/2, money.Credit, 5*money.Credit, 50*money.Credit), r.IntN(6) > 0, pick(r, time.Hour, 2*time.Hour, 3*time.Hour, -time.Hour),
		})
	}
	if r.IntN(2) == 0 { // as most are
		s.lots, s.plus, s.key, s.meanwhile, s.owner = nil, "", "", "", "pod"
		for range 1 + r.IntN(3) {
			s.lots = append(s.lots, lot{pick(r, 5*money.Credit, 50*money.Credit), true, pick(r, time.Hour, 2*time.Hour, 3*time.Hour)})
		}
		s.runStatus, s.parent = pick(r, "running", ""), pick(r, "", "executing")
	}
	s.charge = billing.Charge{
		CallID: fmt.Sprint("c-", n), UID: s.uid(), Toolset: pick(r, "demo", "demo", "gratis"), Tool: "t", Global: r.IntN(8) > 0,
		Price: pick(r, 0, 1, money.Credit, money.Credit, 3*money.Credit),
	}
	if s.runStatus != "" {
		s.charge.ResultID = s.result()
	}
	return s
}

func (s state) uid() string    { return fmt.Sprint("u-", s.n) }
func (s state) result() string { return fmt.Sprint("ar-", s.n) }

func (s state) call(now time.Time) record.Call {
	c := record.Call{
		CallID: s.charge.CallID, Origin: s.origin, UID: s.uid(), ResultID: run.NoResult, Toolset: s.charge.Toolset, Tool: "t",
		Input: json.RawMessage(`{"input":{}}`), Status: record.Executing, CreatedAt: now, ShownBy: s.shown,
		Line: s.n % 3,
	}
	if s.runStatus != "" {
		c.ResultID = s.result()
	}
	if s.parent != "" {
		c.ParentID, c.Origin, c.StepName = fmt.Sprint("p-", s.n), ids.PTC, "step"
	}
	return c
}

// world is one database with the services over it.
type world struct {
	db      *database.DB
	records *record.Service
	credits *billing.Service
	now     time.Time
	whole   atomic.Int64 // ends of calls that were sent as a whole
}

func newWorld(t *testing.T, d database.Dialect, now time.Time) *world {
	t.Helper()
	return worldOver(databasetest.Open(t, d, nil), now)
}

// oneByOne is a world in which one statement follows the other.
func oneByOne(t *testing.T, now time.Time) *world {
	t.Helper()
	db, err := database.Open(t.Context(), database.Config{URL: databasetest.URL(t, database.SQLite), MaxConnections: 4, OneByOne: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return worldOver(db, now)
}

func worldOver(db *database.DB, now time.Time) *world {
	clock := func() time.Time { return now }
	runs := run.New(run.Deps{DB: db, Owner: "pod", Now: clock}).Service
	return &world{
		db: db, now: now, credits: billing.New(billing.Deps{DB: db, FreeToolsets: []string{"gratis"}, Now: clock}).Service,
		records: record.New(record.Deps{DB: db, Runs: runs, Now: clock, Settings: record.Settings{Owner: "pod", Lease: time.Minute, OutputCap: 1 << 20}}).Service,
	}
}

func (w *world) exec(ctx context.Context, sql string, args ...any) error {
	return w.db.InTx(ctx, func(tx database.Tx) error { return database.Unscoped(tx.Handle).Exec(sql, args...).Error })
}

// prepare writes what the call finds.
func (w *world) prepare(t *testing.T, states []state) {
	t.Helper()
	var tables []string // in the order in which they are filled
	rows := map[string][]any{}
	places := map[string][]string{}
	insert := func(into string, args ...any) {
		if rows[into] == nil {
			tables = append(tables, into)
		}
		rows[into] = append(rows[into], args...)
		places[into] = append(places[into], "(?"+strings.Repeat(", ?", len(args)-1)+")")
	}
	const call = "tool_call_results (call_id, uid, result_id, toolset_id, tool_name, input, output, status, lease_owner, lease_expires_at, deleted_at, idempotency_key, request_hash, created_at, updated_at)"
	for _, s := range states {
		insert("users (uid, name)", s.uid(), s.uid())
		for i, l := range s.lots {
			insert("credit_recharges (recharge_id, uid, amount, balance, enabled, expires_at, updated_at)",
				fmt.Sprint("r-", s.n, "-", i), s.uid(), 50*money.Credit, l.balance, l.enabled, w.now.Add(l.left), w.now)
		}
		if s.plus != "" {
			insert("subscriptions (subscription_id, lookup_key, plan_type, uid, status, created_at)", s.uid(), s.plus, "plus", s.uid(), "active", w.now.Add(-s.plusSince))
		}
		if s.runStatus != "" {
			insert("action_results (result_id, uid, status, event_seq)", s.result(), s.uid(), s.runStatus, 7)
		}
		if s.parent != "" && s.parent != "missing" {
			status, deleted := s.parent, (*time.Time)(nil)
			if status == "deleted" {
				status, deleted = "executing", &w.now
			}
			insert(call, fmt.Sprint("p-", s.n), s.uid(), s.result(), "builtin", "execute_code", "{}", "{}", status, s.owner, w.now.Add(s.ownerEnds), deleted, nil, nil, w.now, w.now)
		}
		if s.seen != "" && s.key != "" {
			insert(call, fmt.Sprint("seen-", s.n), s.uid(), run.NoResult, "demo", "t", "{}", `{"status":"success"}`, s.seen, nil, nil, nil, s.key, "hash", w.now, w.now)
		}
	}
	require.NoError(t, w.db.InTx(t.Context(), func(tx database.Tx) error {
		for _, into := range tables {
			if err := database.Unscoped(tx.Handle).Exec("INSERT INTO "+into+" VALUES "+strings.Join(places[into], ", "), rows[into]...).Error; err != nil {
				return err
			}
		}
		return nil
	}))
}

// live makes the call from its beginning to its end, and says what its caller
// was told.
func (w *world) live(ctx context.Context, s state) string {
	c := s.call(w.now)
	var once record.Once
	if s.key != "" {
		once = record.Once{Key: s.key, Hash: "hash"}
	}
	begun, replayed, err := w.records.Begin(ctx, c, once)
	told := fmt.Sprintf("%s %+v %v", begun, replayed, err)
	if err != nil || begun != c.CallID {
		return told
	}
	if err := w.intervene(ctx, s); err != nil {
		return told + err.Error()
	}
	var way bool
	answer, err := w.records.Settle(ctx, c, s.answer, func(ctx context.Context, tx database.Tx) error {
		way = tx.Batch() != nil
		_, err := w.credits.Charge(ctx, tx, s.charge)
		return err
	})
	if way {
		w.whole.Add(1)
	}
	return told + fmt.Sprintf(" %+v %v", answer, err)
}

func (w *world) intervene(ctx context.Context, s state) error {
	switch s.meanwhile {
	case "lost":
		return w.exec(ctx, "UPDATE tool_call_results SET status = 'failed' WHERE call_id = ?", s.charge.CallID)
	case "ended":
		return w.exec(ctx, "UPDATE action_results SET status = 'finish' WHERE result_id = ?", s.result())
	case "unshown":
		return w.exec(ctx, "DELETE FROM action_messages WHERE result_id = ?", s.result())
	case "charged":
		return w.exec(ctx, "INSERT INTO credit_usages (usage_id, uid, amount, due_amount, tool_call_id, created_at) VALUES (?, ?, 9, 9, ?, ?)", s.uid(), s.uid(), s.charge.CallID, w.now)
	}
	return nil
}

// shown is all that the calls left.
func (w *world) shown(t *testing.T) []string {
	t.Helper()
	millionths := func(column string) string { return "CAST(ROUND(" + column + " * 1000000) AS bigint)" }
	var lines []string
	for _, query := range []string{
		"c.call_id, e.uid FROM executing_calls e JOIN tool_call_results c ON c.pk = e.call_pk ORDER BY c.call_id",
		"call_id, uid, result_id, version, toolset_id, tool_name, step_name, input, output, status, error, type, ptc_call_id, idempotency_key, request_hash, lease_owner, lease_expires_at, created_at, updated_at, deleted_at, line, result_bytes FROM tool_call_results ORDER BY call_id",
		"result_id, version, seq, type, call_id, payload, created_at FROM run_events ORDER BY result_id, seq",
		"message_id, result_id, version, seq, type, content, reasoning_content, usage_meta, tool_call_meta, tool_call_id, created_at, updated_at FROM action_messages ORDER BY message_id",
		"result_id, uid, status, event_seq FROM action_results ORDER BY result_id",
		"uid, " + millionths("amount") + ", " + millionths("due_amount") + ", usage_type, action_result_id, version, description, tool_call_id, tool_call_meta, created_at FROM credit_usages ORDER BY uid",
		"recharge_id, uid, " + millionths("balance") + ", updated_at FROM credit_recharges ORDER BY recharge_id",
		"uid, " + millionths("amount") + ", " + millionths("balance") + ", description, created_at FROM credit_debts ORDER BY uid",
	} {
		rows, err := database.Unscoped(w.db.Read(t.Context())).Raw("SELECT " + query).Rows()
		require.NoError(t, err)
		defer func() { require.NoError(t, rows.Close()) }()
		columns, err := rows.Columns()
		require.NoError(t, err)
		for rows.Next() {
			values, into := make([]any, len(columns)), make([]any, len(columns))
			for i := range values {
				into[i] = &values[i]
			}
			require.NoError(t, rows.Scan(into...))
			for i, v := range values {
				if at, ok := v.(time.Time); ok {
					values[i] = at.UTC()
				}
			}
			lines = append(lines, fmt.Sprint(values))
		}
		require.NoError(t, rows.Err())
	}
	slices.Sort(lines)
	return lines
}

// A call that is sent as a whole if it can be leaves what it leaves where one
// statement follows the other.
func TestCallsSentAsAWholeLeaveTheSame(t *testing.T) {
	t.Parallel()
	whole := leaveTheSame(t, 1, func(*world) {})
	require.Greater(t, whole, int64(statesAtOnce/4), "ends of calls that were sent as a whole")
}

// A charge is not sent as a whole where there are plans: they may give credits
// first.
func TestCallsWithPlansLeaveTheSame(t *testing.T) {
	t.Parallel()
	leaveTheSame(t, 1, func(w *world) {
		require.NoError(t, w.credits.SetPlan(t.Context(), billing.Plan{Type: billing.FreePlan, LookupKey: "free", Monthly: 2 * money.Credit}))
	})
}

const statesAtOnce = 500

// leaveTheSame returns how many ends of calls were sent as a whole, on each database
// at least.
func leaveTheSame(t *testing.T, rounds int, begin func(w *world)) (whole int64) {
	t.Helper()
	now := time.Date(2026, 7, 22, 12, 0, 0, 0, time.UTC)
	other := oneByOne(t, now)
	wholes := map[database.Dialect]*world{
		database.Postgres: newWorld(t, database.Postgres, now), database.SQLite: newWorld(t, database.SQLite, now),
	}
	begin(other)
	for _, w := range wholes {
		begin(w)
	}
	r := rand.New(rand.NewPCG(1, 2)) // the same states each time
	for round := range rounds {
		states := make([]state, statesAtOnce)
		for i := range states {
			states[i] = randomState(r, round*statesAtOnce+i)
		}
		worlds := []*world{other, wholes[database.Postgres], wholes[database.SQLite]}
		for _, w := range worlds {
			w.prepare(t, states)
		}
		told := make([][]string, len(worlds))
		inParallel(len(worlds), worlds, func(i int, w *world) { told[i] = w.liveAll(t.Context(), states) })
		for i, s := range states {
			require.Equal(t, told[0][i], told[1][i], "what the caller of %+v is told on PostgreSQL", s)
			require.Equal(t, told[0][i], told[2][i], "what the caller of %+v is told on SQLite", s)
		}
	}
	left := other.shown(t)
	require.Zero(t, other.whole.Load())
	for dialect, w := range wholes {
		require.Empty(t, cmp.Diff(left, w.shown(t)), dialect)
	}
	return min(wholes[database.Postgres].whole.Load(), wholes[database.SQLite].whole.Load())
}

// liveAll makes the calls of all states, and says what their callers were told.
func (w *world) liveAll(ctx context.Context, states []state) []string {
	told := make([]string, len(states))
	inParallel(4, states, func(i int, s state) { told[i] = w.live(ctx, s) })
	return told
}

func inParallel[T any](workers int, items []T, do func(i int, item T)) {
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := w; i < len(items); i += workers {
				do(i, items[i])
			}
		})
	}
	all.Wait()
}

// openRun adds a user with credits and a run, and returns the run.
func (w *world) openRun(t *testing.T) run.Run {
	t.Helper()
	s := state{lots: []lot{{40 * money.Credit, true, time.Hour}}, runStatus: "running"}
	w.prepare(t, []state{s})
	return run.Run{UID: s.uid(), ResultID: s.result()}
}

// Calls of one run, and of one user, wait for each other's commits; none of them
// is lost on another one's.
func TestCallsSentAsAWholeTakeTurns(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		w := worldOver(db, database.Now())
		w.openRun(t)
		const calls = 60
		inParallel(8, make([]struct{}, calls), func(i int, _ struct{}) {
			s := state{runStatus: "running", origin: ids.Standalone, answer: record.Answer{Status: record.Success}}
			s.charge = billing.Charge{CallID: fmt.Sprint("c-", i), UID: s.uid(), ResultID: s.result(), Toolset: "demo", Tool: "t", Global: true, Price: money.Credit / 2}
			if told := w.live(t.Context(), s); !strings.HasSuffix(told, "} <nil>") {
				t.Error(told)
			}
		})
		require.EqualValues(t, calls, w.whole.Load())
		b, err := w.credits.Balance(t.Context(), actor.Actor{UID: "u-0"})
		require.NoError(t, err)
		require.Equal(t, 10*money.Credit, b.Net)
		var numbers []int64
		require.NoError(t, database.Unscoped(w.db.Read(t.Context())).Raw("SELECT seq FROM run_events ORDER BY seq").Scan(&numbers).Error)
		require.Len(t, numbers, 2*calls)
		require.EqualValues(t, 8, numbers[0])
		require.EqualValues(t, 7+2*calls, numbers[len(numbers)-1])
	})
}

// A program does not end between the check of a call that it makes and the
// call's record.
// A caller that goes away while a program is recorded gets its record, or there is none:
// nobody would end it.
func TestAProgramIsRecordedOrItIsNot(t *testing.T) {
	t.Parallel()
	for _, d := range databasetest.Of(t) {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, d, database.Now())
			r := w.openRun(t)
			recorded := int64(0)
			for i := range 300 {
				ctx, leave := context.WithTimeout(t.Context(), time.Duration(i)*20*time.Microsecond)
				if _, err := w.records.OpenProgram(ctx, actor.Actor{UID: r.UID}, r, record.ProgramInput{Code: "x", Language: "python"}); err == nil {
					recorded++
				}
				leave()
			}
			var rows int64
			require.NoError(t, database.Unscoped(w.db.Read(t.Context())).Table("tool_call_results").Count(&rows).Error)
			require.Equal(t, recorded, rows)
			require.Positive(t, rows)
		})
	}
}

func TestProgramsEndAfterTheirCalls(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		w := worldOver(db, database.Now())
		r := w.openRun(t)
		for round := range 15 {
			program, err := w.records.OpenProgram(t.Context(), actor.Actor{UID: r.UID}, r, record.ProgramInput{Code: "x", Language: "python"})
			require.NoError(t, err)
			var all sync.WaitGroup
			for i := range 6 {
				all.Go(func() {
					for n := range 20 {
						c := record.Call{
							CallID: fmt.Sprint("c-", round, "-", i, "-", n), ParentID: program.CallID, Origin: ids.PTC, UID: r.UID, ResultID: r.ResultID,
							Toolset: "demo", Tool: "t", Input: json.RawMessage(`{}`), Status: record.Executing, CreatedAt: w.now,
						}
						_, _, err := w.records.Begin(t.Context(), c, record.Once{})
						if errors.Is(err, record.ErrParentEnded) {
							return
						}
						if err == nil {
							_, err = w.records.Settle(t.Context(), c, record.Refuse("X", "x"), nil)
						}
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
			err = record.ErrUnsettled
			for errors.Is(err, record.ErrUnsettled) {
				err = w.db.InTx(t.Context(), func(tx database.Tx) error {
					if _, err := w.records.LockForEnd(tx, r.UID, program.CallID); err != nil {
						return err
					}
					return w.records.EndProgram(t.Context(), tx, program, record.Answer{Status: record.Success}, false)
				})
			}
			require.NoError(t, err)
			all.Wait()
			var last string
			require.NoError(t, database.Unscoped(w.db.Read(t.Context())).Raw("SELECT call_id FROM run_events ORDER BY seq DESC LIMIT 1").Scan(&last).Error)
			require.Equal(t, program.CallID, last, "the end of the program is the last event")
		}
	})
}

// PostgreSQL plans the statements of a connection once, when a table may be empty:
// its plan must not read all calls of a user by the time there are many.
func TestACallIsFoundByItsIDBeforeTheTableIsAnalysed(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres, nil)
	err := db.InTx(t.Context(), func(tx database.Tx) error {
		h := database.Unscoped(tx.Handle)
		require.NoError(t, h.Exec("SET LOCAL plan_cache_mode = force_generic_plan").Error)
		// The database was lent before, and may have been analysed with what was in it then.
		require.NoError(t, h.Exec("TRUNCATE tool_call_results, executing_calls CASCADE").Error)
		n := 0
		for statement, arguments := range record.Statements() {
			n++
			name := fmt.Sprint("found_by_id_", n)
			require.NoError(t, h.Exec("PREPARE "+name+" AS "+statement+" SELECT count(*) FROM one").Error)
			var plan []string
			nulls := strings.TrimSuffix(strings.Repeat("NULL, ", arguments), ", ")
			require.NoError(t, h.Raw("EXPLAIN EXECUTE "+name+"("+nulls+")").Scan(&plan).Error)
			require.Regexp(t, "Index Scan (using|on) tool_call_results_call_id_key", strings.Join(plan, "\n"), statement)
			require.NotContains(t, strings.Join(plan, "\n"), "tool_call_results_pkey", statement)
			require.NoError(t, h.Exec("DEALLOCATE "+name).Error)
		}
		return nil
	})
	require.NoError(t, err)
}
