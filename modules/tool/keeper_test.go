package tool_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/node/nodetest"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/tool"
)

// abandon leaves a program with a call in the state in which a process that
// is killed leaves them, and returns what lets the call come back.
func abandon(t *testing.T, f *fixture) (r run.Run, p record.Call, back func() record.Answer) {
	t.Helper()
	r = f.startRun(anna)
	p = f.open(anna, r)
	began, finish, answers := make(chan struct{}), make(chan struct{}), make(chan record.Answer, 1)
	f.upstream.will(func(context.Context, tool.Invocation) (tool.Outcome, error) {
		close(began)
		<-finish
		return tool.Outcome{Data: json.RawMessage(`1`)}, nil
	})
	req := request(`{"city":"Rome"}`)
	req.Context.ParentID = p.CallID
	go func() {
		answer, err := f.execute(context.WithoutCancel(t.Context()), anna, req)
		if err != nil {
			t.Error(err)
		}
		answers <- answer
	}()
	<-began
	return r, p, sync.OnceValue(func() record.Answer {
		close(finish)
		return <-answers
	})
}

func TestReaperEndsWhatADeadProcessLeft(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		r, p, back := abandon(t, f)
		defer back()
		g := f.again("process-2")
		g.pass(leaseTime - time.Second)
		require.NoError(t, g.Keeper.Reap(t.Context()))
		require.Equal(t, record.Executing, f.calls(anna)[0].Status, "given up before its lease ended")

		g.pass(2 * time.Second)
		require.NoError(t, g.Keeper.Reap(t.Context()))
		for _, c := range f.calls(anna) {
			require.Equal(t, record.Failed, c.Status)
			require.Contains(t, c.Error, "interrupted")
			require.Contains(t, string(c.Output), `"errorCode":"INTERRUPTED"`)
		}
		require.Equal(t, []string{
			"start", "tool_call_start agent", "tool_call_start ptc", "tool_call_error ptc", "tool_call_error agent", "end",
		}, f.events(anna, r))
		got, err := f.runs.Get(t.Context(), anna, r.ResultID, nil)
		require.NoError(t, err)
		require.Equal(t, run.Failed, got.Status)
		require.NoError(t, g.Keeper.Reap(t.Context()), "a second round finds nothing")

		// The process was only asleep: its call is over, and not billed.
		answer := back()
		require.Equal(t, "INTERRUPTED", answer.ErrorCode)
		require.Equal(t, "0", f.balance(anna))
		require.ErrorIs(t, f.records.CloseProgram(t.Context(), p, record.Answer{Status: record.Success}, nil), record.ErrMissing)
		require.Len(t, f.events(anna, r), 6)
	})
}

// A program that another process gives up ends its run, whose lease its own
// process still keeps.
func TestReaperEndsTheRunOfAProgram(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		r, err := f.runs.Create(t.Context(), anna, run.CreateParams{Type: record.Program})
		require.NoError(t, err)
		f.open(anna, r)
		g := f.again("process-2")
		g.pass(2 * leaseTime)
		nodetest.Live(t, f.db, f.owner, g.clock().Add(leaseTime))
		tool.Exec(t, f.db, "UPDATE tool_call_results SET lease_expires_at = ?", f.clock())
		require.NoError(t, g.Keeper.Reap(t.Context()))
		require.Equal(t, []string{"start", "tool_call_start agent", "tool_call_error agent", "end"}, f.events(anna, r))
		got, err := f.runs.Get(t.Context(), anna, r.ResultID, nil)
		require.NoError(t, err)
		require.Equal(t, run.Failed, got.Status)
	})
}

// Leases end one by one: a program is not given up before its calls, nor a
// run before its program.
func TestReaperKeepsTheOrder(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		r, p, back := abandon(t, f)
		defer back()
		child := f.calls(anna)[1].CallID
		g := f.again("process-2")
		g.pass(2 * leaseTime)
		tool.Exec(t, f.db, `UPDATE tool_call_results SET lease_expires_at = ? WHERE call_id = ?`, g.clock().Add(time.Minute), child)
		require.NoError(t, g.Keeper.Reap(t.Context()))
		got, err := f.records.Call(t.Context(), anna, p.CallID)
		require.NoError(t, err)
		require.Equal(t, record.Executing, got.Status)
		require.Len(t, f.events(anna, r), 3)
		g.pass(2 * time.Minute)
		require.NoError(t, g.Keeper.Reap(t.Context()))
		require.Equal(t, []string{
			"start", "tool_call_start agent", "tool_call_start ptc", "tool_call_error ptc", "tool_call_error agent", "end",
		}, f.events(anna, r))
	})
}

func TestKeeperRenewsWhatItWorksOn(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		_, p, back := abandon(t, f)
		g := f.again("process-2")
		for range 3 {
			f.pass(leaseTime * 2 / 3)
			g.pass(leaseTime * 2 / 3)
			nodetest.Live(t, f.db, f.owner, f.clock().Add(leaseTime))
			require.NoError(t, g.Keeper.Reap(t.Context()))
		}
		require.Equal(t, record.Success, back().Status)
		f.close(p)
		require.Equal(t, "-2", f.balance(anna))
	})
}

func TestTwoReapersAtOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		r, _, back := abandon(t, f)
		defer back()
		var both sync.WaitGroup
		for _, name := range []string{"process-2", "process-3"} {
			g := f.again(name)
			g.pass(2 * leaseTime)
			both.Go(func() {
				if err := g.Keeper.Reap(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		require.Len(t, f.events(anna, r), 6)
	})
}

func TestKeeperStartsAndStops(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		_, _, back := abandon(t, f)
		defer back()
		g := f.again("process-2")
		require.NoError(t, g.Keeper.Stop(t.Context()), "stopped before it started")
		g.pass(2 * leaseTime)
		require.NoError(t, g.Keeper.Start(t.Context()))
		require.Equal(t, record.Failed, f.calls(anna)[0].Status, "Start gives up what is dead at once")
		require.NoError(t, g.Keeper.Stop(t.Context()))
		require.NoError(t, g.Keeper.Stop(t.Context()))
	})
}
