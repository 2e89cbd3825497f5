package tool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/outside"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/tool"
)

const outsideCall = "0b8f2f6e-6f0e-4c5e-9d2a-3d7f1c2b4a55" // a bare UUID

func registration(resultID, callID string) outside.Registration {
	p := outside.Registration{Run: run.OutsideParams{ResultID: resultID}, CallID: callID, Time: time.Hour}
	if callID != "" {
		p.Program = &record.ProgramInput{Language: "python"}
	}
	return p
}

func (f *fixture) register(a actor.Actor, p outside.Registration) (run.Run, record.Call) {
	f.t.Helper()
	r, c, err := f.outside.Register(f.t.Context(), a, p)
	require.NoError(f.t, err)
	if c == nil {
		c = &record.Call{}
	}
	return r, *c
}

// child makes a call as the program of that id.
func (f *fixture) child(a actor.Actor, callID string) (record.Answer, error) {
	req := request(`{"city":"Rome"}`)
	req.Context.ParentID = callID
	return f.execute(context.WithoutCancel(f.t.Context()), a, req)
}

// busy makes a call that executes until it is let go.
func (f *fixture) busy(a actor.Actor, callID string) (letGo func()) {
	f.t.Helper()
	began, finish, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	f.upstream.will(func(context.Context, tool.Invocation) (tool.Outcome, error) {
		close(began)
		<-finish
		return tool.Outcome{Data: json.RawMessage(`1`)}, nil
	})
	go func() {
		defer close(done)
		if _, err := f.child(a, callID); err != nil {
			f.t.Error(err)
		}
	}()
	<-began
	f.upstream.will(nil)
	return func() { close(finish); <-done }
}

func (f *fixture) finish(a actor.Actor, e outside.Ending) error {
	_, _, err := f.outside.Finish(f.t.Context(), a, e)
	return err
}

func TestProgramOutsideMakesCalls(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		r, c := f.register(anna, registration("", outsideCall))
		require.Regexp(t, `^ar-[0-9a-z]{24}$`, r.ResultID)
		require.Equal(t, f.clock().Add(time.Hour), c.ExpiresAt)
		answer, err := f.child(anna, outsideCall)
		require.NoError(t, err)
		require.Equal(t, record.Success, answer.Status)
		_, err = f.child(anna, "0b8f2f6e-6f0e-4c5e-9d2a-000000000000")
		require.ErrorIs(t, err, record.ErrParentForeign)

		require.NoError(t, f.finish(anna, outside.Ending{ResultID: r.ResultID, CallID: outsideCall, Status: run.Done, Output: json.RawMessage(`{"stdout":"hi"}`)}))
		got, err := f.records.Call(t.Context(), anna, outsideCall)
		require.NoError(t, err)
		require.Equal(t, record.Completed, got.Status)
		require.JSONEq(t, `{"status":"success","data":{"stdout":"hi"}}`, string(got.Output))
		_, err = f.child(anna, outsideCall)
		require.ErrorIs(t, err, record.ErrParentEnded)

		require.NoError(t, f.finish(anna, outside.Ending{ResultID: r.ResultID, Status: run.Done}))
		ended, err := f.runs.Get(t.Context(), anna, r.ResultID, nil)
		require.NoError(t, err)
		require.Equal(t, run.Done, ended.Status)
		require.True(t, ended.PTCEnabled)
		require.Len(t, f.events(anna, r), 6) // start, program, child, their ends, end
		require.Equal(t, "end", f.events(anna, r)[5])
	})
}

func TestRegistrationRepeated(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		p := registration("ar-one", outsideCall)
		p.Run.CanvasID, p.Run.Title, p.Run.Toolsets = "c-elsewhere", "Trip", []string{"weather"}
		r, c := f.register(anna, p)
		require.Equal(t, "c-elsewhere", c.CanvasID)
		f.pass(10 * time.Minute)
		again, same := f.register(anna, p)
		require.Equal(t, r.ResultID, again.ResultID)
		require.Equal(t, c.ExpiresAt, same.ExpiresAt, "repeating prolongs nothing")
		require.Equal(t, r.ExpiresAt, again.ExpiresAt)
		require.Len(t, f.calls(anna), 1)
		require.Len(t, f.events(anna, r), 2)

		unnamed := p
		unnamed.Run.ResultID = ""
		byCall, _ := f.register(anna, unnamed)
		require.Equal(t, "ar-one", byCall.ResultID, "the id of the program finds its run")

		for name, c := range map[string]struct {
			change func(p *outside.Registration)
			want   errs.Code
		}{
			"another program":      {func(p *outside.Registration) { p.Program = &record.ProgramInput{Language: "bash"} }, errs.Conflict},
			"another run":          {func(p *outside.Registration) { p.Run.ResultID = "ar-two" }, errs.Conflict},
			"another canvas":       {func(p *outside.Registration) { p.Run.CanvasID = "c-other" }, errs.Conflict},
			"an id of a child":     {func(p *outside.Registration) { p.CallID = "ptc:" + outsideCall }, errs.Invalid},
			"an id with a path":    {func(p *outside.Registration) { p.CallID = "../x" }, errs.Invalid},
			"a canvas with a path": {func(p *outside.Registration) { p.Run.ResultID, p.CallID, p.Run.CanvasID = "ar-3", "x", "../c" }, errs.Invalid},
			"a negative version":   {func(p *outside.Registration) { p.Run.Version = -1 }, errs.Invalid},
		} {
			changed := p
			c.change(&changed)
			_, _, err := f.outside.Register(t.Context(), anna, changed)
			require.Equal(t, c.want, errs.CodeOf(err), name)
		}
		require.Len(t, f.calls(anna), 1)

		// Another program of the run has the toolsets of the run, and prolongs it.
		second, other := f.register(anna, registration("ar-one", "second"))
		require.Equal(t, r.ResultID, second.ResultID)
		answer, err := f.child(anna, "second")
		require.NoError(t, err)
		require.Equal(t, record.Success, answer.Status)
		req := tool.Request{Toolset: "other", Tool: "go", Context: tool.Context{ParentID: "second"}}
		answer, err = f.execute(t.Context(), anna, req)
		require.NoError(t, err)
		require.Equal(t, "TOOLSET_NOT_ALLOWED", answer.ErrorCode)
		got, err := f.runs.Get(t.Context(), anna, "ar-one", nil)
		require.NoError(t, err)
		require.Equal(t, other.ExpiresAt, got.ExpiresAt)

		_, open := f.register(anna, registration("ar-free", "free"))
		req.Context.ParentID, req.Toolset = open.CallID, "blocked"
		answer, err = f.execute(t.Context(), anna, req)
		require.NoError(t, err)
		require.Equal(t, "TOOLSET_NOT_ALLOWED", answer.ErrorCode, "the administrator's list holds")
	})
}

// What nobody finishes fails at its moment, in whatever process, and not before:
// neither a restart nor the reapers of leases touch it.
func TestProgramOutsideExpires(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		r, _ := f.register(anna, registration("ar-one", outsideCall))
		g := f.again("process-2")
		g.pass(time.Hour - time.Second)
		require.NoError(t, g.Keeper.Reap(t.Context()))
		_, err := g.child(anna, outsideCall)
		require.NoError(t, err)

		g.pass(time.Second)
		_, err = g.child(anna, outsideCall)
		require.ErrorIs(t, err, record.ErrParentEnded, "over at its moment, before a reaper comes by")
		g.pass(time.Second)
		require.NoError(t, g.Keeper.Reap(t.Context()))
		got, err := f.runs.Get(t.Context(), anna, r.ResultID, nil)
		require.NoError(t, err)
		require.Equal(t, run.Failed, got.Status)
		require.Contains(t, strings.Join(got.Errors, " "), "not finished in time")
		c, err := f.records.Call(t.Context(), anna, outsideCall)
		require.NoError(t, err)
		require.Contains(t, c.Error, "not finished in time")
		require.Contains(t, string(c.Output), `"errorCode":"NOT_FINISHED"`)
		require.Equal(t, "end", f.events(anna, r)[5])
		require.ErrorIs(t, f.finish(anna, outside.Ending{ResultID: "ar-one", Status: run.Done}), run.ErrEnded)
		require.ErrorIs(t, f.finish(anna, outside.Ending{ResultID: "ar-one", CallID: outsideCall, Status: run.Done}), outside.ErrCallEnded)
		_, _, err = f.outside.Register(t.Context(), anna, registration("ar-one", "third"))
		require.ErrorIs(t, err, run.ErrEnded)
	})
}

// A call that executes when the time is over is recorded and charged; the
// program, and then its run, end after it.
func TestProgramOutsideExpiresAfterItsCalls(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		r, _ := f.register(anna, registration("ar-one", outsideCall))
		f.pass(time.Hour - time.Second)
		letGo := f.busy(anna, outsideCall)
		f.pass(2 * time.Second)
		require.NoError(t, f.Keeper.Reap(t.Context()))
		require.Len(t, f.events(anna, r), 3)
		letGo()
		require.NoError(t, f.Keeper.Reap(t.Context()))
		require.Equal(t, []string{"tool_call_end ptc", "tool_call_error 0b8f2f6e-6f0e-4c5e-9d2a-3d7f1c2b4a55", "end"}, f.events(anna, r)[3:])
		require.Equal(t, "-2", f.balance(anna))
	})
}

func TestEndOfAProgramOutsideWaitsForItsCalls(t *testing.T) {
	testenv.Slow(t, "it waits for calls")
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		for name, e := range map[string]outside.Ending{
			"a program": {CallID: outsideCall, Status: run.Failed, Error: "the sandbox was full"},
			"its run":   {Status: run.Done},
		} {
			e.ResultID = "ar-" + strings.ReplaceAll(name, " ", "-")
			callID := outsideCall
			if e.CallID == "" {
				callID = "another"
			}
			r, _ := f.register(anna, registration(e.ResultID, callID))
			letGo := f.busy(anna, callID)
			waiting := f.outside
			f.outside = outside.New(outside.Deps{DB: f.db, Runs: f.runs, Records: f.keep(time.Nanosecond), Now: f.clock})
			require.ErrorIs(t, f.finish(anna, e), record.ErrUnsettled, name)
			_, err := f.child(anna, callID)
			require.ErrorIs(t, err, record.ErrParentEnded, "it may make no more calls")
			f.outside = waiting
			ended := make(chan error)
			go func() { ended <- f.finish(anna, e) }()
			letGo()
			require.NoError(t, <-ended, name)
			events := f.events(anna, r)
			require.Equal(t, "tool_call_end ptc", events[3])
			require.Contains(t, events[4], "tool_call_")
			require.NoError(t, f.finish(anna, e), "the same again is no error")
			other := e
			other.Status, other.Error = run.Failed, "otherwise"
			require.Equal(t, errs.Conflict, errs.CodeOf(f.finish(anna, other)))
		}
		got, err := f.records.Call(t.Context(), anna, outsideCall)
		require.NoError(t, err)
		require.Equal(t, record.Failed, got.Status)
		require.Equal(t, "the sandbox was full", got.Error)
	})
}

// An aborted run ends at once; a call that executes is recorded and charged.
func TestAbortedRunOutsideEndsAtOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		r, _ := f.register(anna, registration("ar-one", outsideCall))
		f.register(anna, registration("ar-one", "second"))
		letGo := f.busy(anna, outsideCall)
		require.NoError(t, f.finish(anna, outside.Ending{ResultID: "ar-one", Status: run.Aborted}))
		got, err := f.runs.Get(t.Context(), anna, "ar-one", nil)
		require.NoError(t, err)
		require.Equal(t, run.Aborted, got.Status)
		require.Equal(t, "end", f.events(anna, r)[len(f.events(anna, r))-1])
		for _, callID := range []string{outsideCall, "second"} {
			_, err := f.child(anna, callID)
			require.ErrorIs(t, err, record.ErrParentEnded)
		}
		letGo()
		require.Equal(t, "-2", f.balance(anna))
		require.Zero(t, tool.Count(t, f.db, `SELECT count(*) FROM tool_call_results WHERE status = 'executing'`))
	})
}

// A service ends what it registered, not what the server executes itself.
func TestFinishLeavesTheServersOwnRunsAlone(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		r := f.startRun(anna)
		p := f.open(anna, r)
		require.ErrorIs(t, f.finish(anna, outside.Ending{ResultID: r.ResultID, Status: run.Done}), run.ErrOurs)
		require.Equal(t, errs.Conflict, errs.CodeOf(f.finish(anna, outside.Ending{ResultID: r.ResultID, CallID: p.CallID, Status: run.Done})))
		_, _, err := f.outside.Register(t.Context(), anna, registration(r.ResultID, "x"))
		require.ErrorIs(t, err, run.ErrOurs)
		got, err := f.records.Call(t.Context(), anna, p.CallID)
		require.NoError(t, err)
		require.Equal(t, record.Executing, got.Status)
		f.close(p)
		for _, e := range []outside.Ending{
			{ResultID: "ar-x", Status: run.Running},
			{ResultID: "ar-x", Status: run.Done, Output: json.RawMessage(`1`)},
			{ResultID: "ar-x", CallID: "x", Status: run.Done, Output: json.RawMessage(`{`)},
			{ResultID: "ar-x", Status: run.Done, Error: "x"},
			{ResultID: "ar-x", Status: run.Failed, Error: strings.Repeat("x", 10_001)},
			{ResultID: "ar-x", Version: -1, Status: run.Done},
			{ResultID: "ar-x", Status: run.Failed, Error: "a\x00b"},
		} {
			require.Equal(t, errs.Invalid, errs.CodeOf(f.finish(anna, e)), "%+v", e)
		}
	})
}

func TestProgramsOutsideAreBounded(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		for i := range 100 {
			f.register(anna, registration(fmt.Sprint("ar-", i), ""))
		}
		_, _, err := f.outside.Register(t.Context(), anna, registration("ar-100", ""))
		require.Equal(t, errs.RateLimited, errs.CodeOf(err))
		f.register(ben, registration("ar-100", ""))
		for i := range 200 {
			f.register(anna, registration("ar-0", fmt.Sprint("call-", i)))
		}
		_, _, err = f.outside.Register(t.Context(), anna, registration("ar-0", "call-200"))
		require.Equal(t, errs.RateLimited, errs.CodeOf(err))
		require.NoError(t, f.finish(anna, outside.Ending{ResultID: "ar-0", CallID: "call-0", Status: run.Done}))
		f.register(anna, registration("ar-0", "call-200"))
	})
}

// Of two users who register the same ids one has them, and the other is not
// told whose they are.
func TestIdsOfProgramsOutsideAreOneUsers(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		p := registration("ar-one", outsideCall)
		p.Run.CanvasID = "c-hers"
		f.register(anna, p)
		for name, c := range map[string]struct {
			registration outside.Registration
			want         error
		}{
			"the run":              {registration("ar-one", "x"), run.ErrMissing},
			"the program":          {registration("ar-his", outsideCall), outside.ErrCallTaken},
			"a version of the run": {outside.Registration{Run: run.OutsideParams{ResultID: "ar-one", Version: 7}}, run.ErrMissing},
			"the canvas":           {outside.Registration{Run: run.OutsideParams{ResultID: "ar-his", CanvasID: "c-hers"}}, run.ErrCanvasMissing},
		} {
			_, _, err := f.outside.Register(t.Context(), ben, c.registration)
			require.ErrorIs(t, err, c.want, name)
		}
		require.Empty(t, f.calls(ben))
		require.Zero(t, tool.Count(t, f.db, `SELECT count(*) FROM action_results WHERE uid = ?`, ben.UID))
		_, err := f.child(ben, outsideCall)
		require.ErrorIs(t, err, record.ErrParentForeign)
		require.ErrorIs(t, f.finish(ben, outside.Ending{ResultID: "ar-one", Status: run.Aborted}), run.ErrMissing)
		f.register(anna, outside.Registration{Run: run.OutsideParams{ResultID: "ar-one", Version: 7}, Time: time.Hour})
	})
}

// Requests that are sent twice at once make one run with one program.
func TestRegistrationsAtOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		failures := make(chan error)
		for range 8 {
			go func() {
				_, _, err := f.outside.Register(t.Context(), anna, registration("ar-one", outsideCall))
				failures <- err
			}()
		}
		for range 8 {
			require.NoError(t, <-failures)
		}
		require.Len(t, f.calls(anna), 1)
	})
}
