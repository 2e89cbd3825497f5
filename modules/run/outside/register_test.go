package outside_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/outside"
	"github.com/portico-run/portico/modules/run/record"
)

func TestARegistrationMakesARunAndItsProgram(t *testing.T) {
	t.Parallel()
	each(t, 0, func(t *testing.T, f *fixture) {
		p := asks("", "program")
		p.Run.Title, p.Run.CanvasID, p.Run.Toolsets = "Trip", "c-elsewhere", []string{"weather"}
		r, c := f.register(anna, p)
		require.Equal(t, run.Running, r.Status)
		require.Equal(t, f.clock().Add(time.Hour), r.ExpiresAt)
		require.Equal(t, "c-elsewhere", r.CanvasID)
		require.Equal(t, f.clock().Add(time.Hour), c.ExpiresAt)
		require.Equal(t, []run.EventType{run.Start, run.ToolCallStart}, f.events(anna, r))
		got := f.call(anna, "program")
		require.True(t, got.Live(f.clock()))
		require.JSONEq(t, `{"input":{"code":"","language":"python","toolsets":["weather"],"outside":true}}`, string(got.Input), "it has the toolsets of its run")

		_, none := f.register(anna, asks("ar-only", ""))
		require.Nil(t, none, "only the run was asked for")
		unnamed := asks("ar-only", "")
		unnamed.Program = &record.ProgramInput{Language: "bash", Toolsets: []string{"other"}}
		_, made := f.register(anna, unnamed)
		require.Regexp(t, `^agent:`, made.CallID)
		require.JSONEq(t, `{"input":{"code":"","language":"bash","toolsets":["other"],"outside":true}}`, string(made.Input))
	})
}

// A request that is repeated changes nothing, and finds its run by the id of its
// program.
func TestARepeatedRegistrationFindsTheFirst(t *testing.T) {
	t.Parallel()
	each(t, 0, func(t *testing.T, f *fixture) {
		r, c := f.register(anna, asks("", "program"))
		f.pass(10 * time.Minute)
		for _, resultID := range []string{"", r.ResultID} {
			again, same := f.register(anna, asks(resultID, "program"))
			require.Equal(t, r.ResultID, again.ResultID)
			require.Equal(t, r.ExpiresAt, again.ExpiresAt, "its time is not prolonged")
			require.Equal(t, c.ExpiresAt, same.ExpiresAt)
		}
		require.Len(t, f.events(anna, r), 2)

		other := asks(r.ResultID, "program")
		other.Program.Language = "bash"
		require.Equal(t, errs.Conflict, errs.CodeOf(f.refused(anna, other)), "another program of that id")
		require.Equal(t, errs.Conflict, errs.CodeOf(f.refused(anna, asks("ar-two", "program"))), "in another run")
		require.Equal(t, errs.Invalid, errs.CodeOf(f.refused(anna, asks(r.ResultID, "ptc:0b8f2f6e-6f0e-4c5e-9d2a-3d7f1c2b4a55"))), "an id of a call of a program's")
		require.Equal(t, errs.Invalid, errs.CodeOf(f.refused(anna, asks(r.ResultID, "../program"))))
		f.pass(time.Hour)
		require.ErrorIs(t, f.refused(anna, asks(r.ResultID, "program")), outside.ErrCallEnded, "its time is over")
	})
}

func TestRegistrationsAtOnceMakeOneProgram(t *testing.T) {
	t.Parallel()
	each(t, 0, func(t *testing.T, f *fixture) {
		var all sync.WaitGroup
		for range 6 {
			all.Go(func() {
				if _, _, err := f.Register(t.Context(), anna, asks("ar-one", "program")); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		require.Equal(t, []run.EventType{run.Start, run.ToolCallStart}, f.events(anna, f.run(anna, "ar-one")))
	})
}

func TestTheRunLivesAsLongAsItsLongestProgram(t *testing.T) {
	t.Parallel()
	each(t, 0, func(t *testing.T, f *fixture) {
		short, long := asks("ar-one", "short"), asks("ar-one", "long")
		short.Time, long.Time = time.Minute, 3*time.Hour
		f.register(anna, long)
		f.register(anna, short)
		require.Equal(t, f.clock().Add(3*time.Hour), f.run(anna, "ar-one").ExpiresAt)
		f.pass(time.Hour)
		long.CallID = "longer"
		f.register(anna, long)
		require.Equal(t, f.clock().Add(3*time.Hour), f.run(anna, "ar-one").ExpiresAt)
	})
}

// Of two users who register the same ids one has them, and the other is not
// told whose they are.
func TestIdsAreOneUsers(t *testing.T) {
	t.Parallel()
	each(t, 0, func(t *testing.T, f *fixture) {
		p := asks("ar-one", "program")
		p.Run.CanvasID = "c-hers"
		f.register(anna, p)
		canvas := asks("ar-his", "")
		canvas.Run.CanvasID = "c-hers"
		require.ErrorIs(t, f.refused(ben, asks("ar-one", "his")), run.ErrMissing)
		require.ErrorIs(t, f.refused(ben, asks("ar-his", "program")), outside.ErrCallTaken)
		require.ErrorIs(t, f.refused(ben, canvas), run.ErrCanvasMissing)
		_, err := f.runs.Get(t.Context(), ben, "ar-his", nil)
		require.ErrorIs(t, err, run.ErrMissing, "a refused registration leaves nothing")

		_, err = f.finish(ben, outside.Ending{ResultID: "ar-one", Status: run.Aborted})
		require.ErrorIs(t, err, run.ErrMissing)
		f.register(ben, asks("ar-his", "his"))
		_, err = f.finish(ben, outside.Ending{ResultID: "ar-his", CallID: "program", Status: run.Done})
		require.ErrorIs(t, err, record.ErrMissing)
		require.Equal(t, run.Running, f.run(anna, "ar-one").Status)
		require.True(t, f.call(anna, "program").Live(f.clock()))
	})
}

// One user has so many programs at once, whatever others have.
func TestProgramsOfAUserAreBounded(t *testing.T) {
	t.Parallel()
	each(t, 0, func(t *testing.T, f *fixture) {
		for i := range 200 {
			f.register(anna, asks("ar-one", fmt.Sprint("program-", i)))
		}
		require.Equal(t, errs.RateLimited, errs.CodeOf(f.refused(anna, asks("ar-one", "more"))))
		f.register(anna, asks("ar-one", "program-0"))
		f.register(ben, asks("ar-his", "his"))
		_, err := f.finish(anna, outside.Ending{ResultID: "ar-one", CallID: "program-0", Status: run.Done})
		require.NoError(t, err)
		f.register(anna, asks("ar-one", "more"))
	})
}

// What this server executes itself is not a service's to take.
func TestRunsOfTheServersOwnAreNotTaken(t *testing.T) {
	t.Parallel()
	each(t, 0, func(t *testing.T, f *fixture) {
		r, err := f.runs.Create(t.Context(), anna, run.CreateParams{})
		require.NoError(t, err)
		c, err := f.records.OpenProgram(t.Context(), anna, r, record.ProgramInput{Code: "pass", Language: "python"})
		require.NoError(t, err)
		require.ErrorIs(t, f.refused(anna, asks(r.ResultID, "program")), run.ErrOurs)
		_, err = f.finish(anna, outside.Ending{ResultID: r.ResultID, Status: run.Done})
		require.ErrorIs(t, err, run.ErrOurs)
		_, err = f.finish(anna, outside.Ending{ResultID: r.ResultID, CallID: c.CallID, Status: run.Done})
		require.Equal(t, errs.Conflict, errs.CodeOf(err))
		require.Equal(t, record.Executing, f.call(anna, c.CallID).Status)
	})
}
