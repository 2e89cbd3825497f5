package tool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/internal/wake"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/tool"
	"github.com/portico-run/portico/modules/tool/approval"
)

// waiting returns the approvals of anna's that wait, as soon as there are so many.
func (f *fixture) waiting(n int) (list []approval.Approval) {
	f.t.Helper()
	require.Eventually(f.t, func() bool {
		page, err := f.approvals.List(context.WithoutCancel(f.t.Context()), anna, false, httpapi.PageQuery{Limit: 200})
		require.NoError(f.t, err)
		list = page.Items
		return len(list) == n
	}, 30*time.Second, 2*time.Millisecond)
	return list
}

func (f *fixture) rule(level approval.Level) {
	f.t.Helper()
	require.NoError(f.t, f.approvals.SetRule(f.t.Context(), approval.Rule{Toolset: "weather", Level: level}))
	f.hub.Publish(wake.Topic("approval-rules", "")) // the database of a test tells nobody
}

// begin makes a call and answers once it has ended.
func (f *fixture) begin(ctx context.Context, req tool.Request) <-chan record.Answer {
	done := make(chan record.Answer, 1)
	go func() {
		answer, err := f.execute(ctx, anna, req)
		if err != nil {
			f.t.Error(err)
		}
		done <- answer
	}()
	return done
}

func decide(callID string, d approval.Decision) approval.Ruling {
	return approval.Ruling{CallID: callID, Decision: d}
}

// Nothing is sent and nothing held until somebody allows the call; of two who decide
// at once one does, and the other hears what was decided.
func TestCallWaitsAndOneDecides(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		f.grant(anna, 100)
		f.rule(approval.Always)
		done := f.begin(t.Context(), request(`{"city":"Oslo"}`))
		w := f.waiting(1)[0]
		require.Empty(t, f.upstream.seen())
		require.Zero(t, tool.Count(t, f.db, "SELECT count(*) FROM credit_holds"))
		require.Equal(t, record.Waiting, f.calls(anna)[0].Status)
		require.JSONEq(t, `{"city":"Oslo","days":3}`, string(w.Arguments))
		require.Equal(t, "weather.example.com", w.Host)
		require.Equal(t, "2", w.Price)

		_, err := f.approvals.Decide(t.Context(), ben, decide(w.CallID, approval.Allow))
		require.ErrorIs(t, err, approval.ErrMissing)
		var both sync.WaitGroup
		results := make([]error, 2)
		for i, d := range []approval.Decision{approval.Allow, approval.Refuse} {
			both.Go(func() { _, results[i] = f.approvals.Decide(t.Context(), anna, decide(w.CallID, d)) })
		}
		both.Wait()
		answer := <-done
		if results[0] == nil {
			require.Equal(t, errs.Settled, errs.CodeOf(results[1]))
			require.Contains(t, errs.Message(results[1]), "already settled: allowed")
			require.Equal(t, record.Success, answer.Status)
			require.Len(t, f.upstream.seen(), 1)
			require.Equal(t, "98", f.balance(anna))
		} else {
			require.NoError(t, results[1])
			require.Equal(t, errs.Settled, errs.CodeOf(results[0]))
			require.Equal(t, tool.CodeApprovalDenied, answer.ErrorCode)
			require.Empty(t, f.upstream.seen())
			require.Equal(t, "100", f.balance(anna))
		}
	})
}

// A standing permission lets calls through that it covers, and no others; taken
// back, it lets none.
func TestStandingPermissions(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		f.rule(approval.Always)
		ctx := t.Context()
		done := f.begin(ctx, request(`{"city":"Oslo"}`))
		w := f.waiting(1)[0]
		ruling := decide(w.CallID, approval.AllowAlways)
		ruling.Pattern = json.RawMessage(`{"city":"Rome"}`)
		_, err := f.approvals.Decide(ctx, anna, ruling)
		require.Equal(t, errs.Invalid, errs.CodeOf(err), "it does not cover the call")
		ruling.Pattern = json.RawMessage(`{"city":"Oslo","days":"*"}`)
		_, err = f.approvals.Decide(ctx, anna, ruling)
		require.NoError(t, err)
		require.Equal(t, record.Success, (<-done).Status)
		require.Equal(t, record.Success, (<-f.begin(ctx, request(`{"city":"Oslo","days":9}`))).Status)

		done = f.begin(ctx, request(`{"city":"Rome","days":9}`))
		_, err = f.approvals.Decide(ctx, anna, decide(f.waiting(1)[0].CallID, approval.AllowRun))
		require.Equal(t, errs.Conflict, errs.CodeOf(err), "it is in no run")
		_, err = f.approvals.Decide(ctx, anna, decide(f.waiting(1)[0].CallID, approval.Refuse))
		require.NoError(t, err)
		require.Equal(t, tool.CodeApprovalDenied, (<-done).ErrorCode)

		page, err := f.approvals.Permissions(ctx, anna, httpapi.PageQuery{Limit: 10})
		require.NoError(t, err)
		require.Len(t, page.Items, 1)
		require.ErrorIs(t, f.approvals.Withdraw(ctx, ben, page.Items[0].ID), approval.ErrNoPermission)
		require.NoError(t, f.approvals.Withdraw(ctx, anna, page.Items[0].ID))
		done = f.begin(ctx, request(`{"city":"Oslo"}`))
		_, err = f.approvals.Decide(ctx, anna, decide(f.waiting(1)[0].CallID, approval.Refuse))
		require.NoError(t, err)
		<-done
		require.Len(t, f.upstream.seen(), 2)
	})
}

// A tool that was allowed for a run does not wait there where it has to be allowed
// first; it does in other runs, and where each call has to be.
func TestAllowedForARun(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		f.rule(approval.First)
		ctx := t.Context()
		in := func(r run.Run) tool.Request {
			req := request(`{"city":"Oslo"}`)
			req.Context = tool.Context{ResultID: r.ResultID, Version: &r.Version}
			return req
		}
		r, other := f.startRun(anna), f.startRun(anna)
		done := f.begin(ctx, in(r))
		_, err := f.approvals.Decide(ctx, anna, decide(f.waiting(1)[0].CallID, approval.AllowRun))
		require.NoError(t, err)
		require.Equal(t, record.Success, (<-done).Status)
		require.Equal(t, record.Success, (<-f.begin(ctx, in(r))).Status)
		refuse := func(done <-chan record.Answer) {
			t.Helper()
			_, err := f.approvals.Decide(ctx, anna, decide(f.waiting(1)[0].CallID, approval.Refuse))
			require.NoError(t, err)
			require.Equal(t, tool.CodeApprovalDenied, (<-done).ErrorCode)
		}
		refuse(f.begin(ctx, in(other)))
		f.rule(approval.Always)
		refuse(f.begin(ctx, in(r)))
		require.Equal(t, []string{"start", "tool_call_start standalone", "tool_call_waiting standalone", "tool_call_decided standalone", "tool_call_end standalone"}, f.events(anna, r)[:5])
	})
}

// Another process decides; the caller leaves; the process dies. Only what was allowed
// is sent, and what waited for nobody is refused.
func TestWaitsEndWithTheirCallers(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		f.rule(approval.Always)
		other := f.again("process-2")
		done := f.begin(t.Context(), request(`{"city":"Oslo"}`))
		_, err := other.approvals.Decide(t.Context(), anna, decide(f.waiting(1)[0].CallID, approval.Allow))
		require.NoError(t, err)
		require.Equal(t, record.Success, (<-done).Status)

		ctx, leave := context.WithCancel(t.Context())
		done = f.begin(ctx, request(`{"city":"Rome"}`))
		w := f.waiting(1)[0]
		leave()
		require.Equal(t, tool.CodeApprovalTimeout, (<-done).ErrorCode)
		_, err = other.approvals.Decide(t.Context(), anna, decide(w.CallID, approval.Allow))
		require.Contains(t, errs.Message(err), "already settled: expired")

		// What the process that died left: a call that waits, and nobody who would take it.
		tool.Exec(t, f.db, `UPDATE tool_call_results SET status = 'waiting', lease_owner = 'dead', lease_expires_at = ? WHERE call_id = ?`, f.clock().Add(-time.Hour), w.CallID)
		tool.Exec(t, f.db, `UPDATE approvals SET state = 'waiting' WHERE call_id = ?`, w.CallID)
		tool.Exec(t, f.db, `INSERT INTO executing_calls (call_pk, uid) SELECT pk, uid FROM tool_call_results WHERE call_id = ?`, w.CallID)
		require.NoError(t, other.Keeper.Reap(t.Context()))
		_, err = other.approvals.Decide(t.Context(), anna, decide(w.CallID, approval.Allow))
		require.Contains(t, errs.Message(err), "already settled: expired")
		require.NoError(t, other.approvals.Tend(t.Context()))
		a, err := other.approvals.Get(t.Context(), anna, w.CallID)
		require.NoError(t, err)
		require.Equal(t, approval.Expired, a.State)
		c, err := f.records.Call(t.Context(), anna, w.CallID)
		require.NoError(t, err)
		require.Equal(t, record.Failed, c.Status)
		require.Contains(t, string(c.Output), "NOT_EXECUTED")
		require.Contains(t, c.Error, "Nothing was sent")
		require.Len(t, f.upstream.seen(), 1)
	})
}

// Whenever a caller goes away, also while it is noted that its call waits, nothing
// waits for ever.
func TestNothingWaitsWithoutItsCaller(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		f.rule(approval.Always)
		var callers sync.WaitGroup
		for i := range 200 {
			callers.Go(func() {
				ctx, leave := context.WithTimeout(t.Context(), time.Duration(i)*50*time.Microsecond)
				defer leave()
				_, _ = f.execute(ctx, anna, request(`{"city":"Rome"}`))
			})
			if i%8 == 7 {
				callers.Wait()
			}
		}
		callers.Wait()
		require.Zero(t, tool.Count(t, f.db, "SELECT count(*) FROM approvals WHERE state = 'waiting'"))
		require.Zero(t, tool.Count(t, f.db, "SELECT count(*) FROM tool_call_results WHERE status IN ('waiting', 'executing')"))
		require.Empty(t, f.upstream.seen())
	})
}

// mass is how many programs the test of random ones has.
const mass = 1000

// Of random programs under random policies, with random decisions, two at once, by
// another process, or none, exactly the calls reach the upstream that were allowed or
// did not need to be, each once.
func TestRandomProgramsSendWhatWasAllowed(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		programs := mass
		if !testenv.Thorough() || f.db.Dialect() == database.Postgres {
			programs = mass / 10
		}
		other := f.again("process-2")
		stop := make(chan struct{})
		var deciders sync.WaitGroup
		for i, by := range []*fixture{f, other} {
			deciders.Go(func() { decideAtRandom(by, uint64(i), stop) })
		}
		want := map[string]bool{}
		var mu sync.Mutex
		var work sync.WaitGroup
		at := make(chan int)
		for range 8 {
			work.Go(func() {
				for n := range at {
					for city, sent := range program(f, n) {
						mu.Lock()
						want[city] = sent
						mu.Unlock()
					}
				}
			})
		}
		for n := range programs {
			at <- n
		}
		close(at)
		work.Wait()
		close(stop)
		deciders.Wait()
		got := map[string]int{}
		for _, in := range f.upstream.seen() {
			got[fmt.Sprint(in.Arguments["city"])]++
		}
		sent := 0
		for city, was := range want {
			if was {
				sent++
				require.Equal(t, 1, got[city], city)
			} else {
				require.Zero(t, got[city], city)
			}
		}
		require.Len(t, got, sent)
		// The records of decisions say the same. Some callers left after theirs.
		allowed := tool.Count(t, f.db, "SELECT count(*) FROM approvals WHERE state = 'allowed'")
		ended := "SELECT count(*) FROM tool_call_results c JOIN approvals a ON a.call_id = c.call_id WHERE "
		require.Equal(t, allowed, tool.Count(t, f.db, ended+"c.status = 'completed' OR c.output LIKE '%NOT_EXECUTED%'"))
		require.Positive(t, allowed)
		require.Zero(t, tool.Count(t, f.db, "SELECT count(*) FROM approvals WHERE state = 'waiting'"))
	})
}

// program makes some calls at once and says which of them were made, by their cities.
func program(f *fixture, n int) map[string]bool {
	random := rand.New(rand.NewPCG(7, uint64(n)))
	r := f.startRun(anna)
	level := []string{"", "never", "first", "always"}[random.IntN(4)]
	c, err := f.records.OpenProgram(f.t.Context(), anna, r, record.ProgramInput{Code: "pass", Language: "python", Approval: level})
	if err != nil {
		f.t.Error(err)
		return nil
	}
	made := map[string]bool{}
	var mu sync.Mutex
	var calls sync.WaitGroup
	for i := range 1 + random.IntN(3) {
		city, leaves := fmt.Sprintf("city-%d-%d", n, i), random.IntN(10) == 0
		calls.Go(func() {
			ctx, leave := context.WithCancel(f.t.Context())
			defer leave()
			if leaves && (level == "first" || level == "always") {
				time.AfterFunc(5*time.Millisecond, leave)
			}
			req := request(`{"city":"` + city + `"}`)
			req.Context = tool.Context{ParentID: c.CallID}
			answer, err := f.execute(ctx, anna, req)
			if err != nil && ctx.Err() == nil {
				f.t.Error(err)
			}
			mu.Lock()
			made[city] = err == nil && answer.Status == record.Success
			mu.Unlock()
		})
	}
	calls.Wait()
	f.close(c)
	return made
}

// decideAtRandom settles what waits until it is stopped. Of calls that it leaves
// alone, the next look decides.
func decideAtRandom(f *fixture, seed uint64, stop <-chan struct{}) {
	random := rand.New(rand.NewPCG(seed, 1))
	decisions := []approval.Decision{approval.Allow, approval.Allow, approval.Refuse, approval.AllowRun, approval.AllowAlways}
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Millisecond):
		}
		page, err := f.approvals.List(context.Background(), anna, false, httpapi.PageQuery{Limit: 50})
		if err != nil {
			f.t.Error(err)
			return
		}
		for _, a := range page.Items {
			if random.IntN(4) == 0 {
				continue
			}
			r := decide(a.CallID, decisions[random.IntN(len(decisions))])
			if random.IntN(5) == 0 && r.Decision != approval.Refuse {
				r.Arguments = a.Arguments
			}
			_, err := f.approvals.Decide(context.Background(), anna, r)
			if err != nil && errs.CodeOf(err) != errs.Settled && errs.CodeOf(err) != errs.Conflict {
				f.t.Error(err)
			}
		}
	}
}
