package outside_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/outside"
	"github.com/portico-run/portico/modules/run/record"
)

// The end of a program says what came of it, and why it failed.
func TestTheEndOfAProgram(t *testing.T) {
	t.Parallel()
	each(t, 0, func(t *testing.T, f *fixture) {
		for callID, c := range map[string]struct {
			ending outside.Ending
			status record.Status
			answer string
		}{
			"well":     {outside.Ending{Status: run.Done, Output: json.RawMessage(`{"stdout":"hi"}`)}, record.Completed, `{"status":"success","data":{"stdout":"hi"}}`},
			"silently": {outside.Ending{Status: run.Done}, record.Completed, `{"status":"success"}`},
			"badly":    {outside.Ending{Status: run.Failed, Error: "full", Output: json.RawMessage(`1`)}, record.Failed, `{"status":"error","error":"full","data":1}`},
			"mutely":   {outside.Ending{Status: run.Failed}, record.Failed, `{"status":"error","error":"It failed; the service that executed it did not say why."}`},
			"aborted":  {outside.Ending{Status: run.Aborted}, record.Failed, `{"status":"error","error":"It was aborted."}`},
		} {
			f.register(anna, asks("ar-one", callID))
			c.ending.ResultID, c.ending.CallID = "ar-one", callID
			ended, err := f.finish(anna, c.ending)
			require.NoError(t, err, callID)
			require.Equal(t, []string{callID}, ended)
			got := f.call(anna, callID)
			require.Equal(t, c.status, got.Status, callID)
			require.JSONEq(t, c.answer, string(got.Output), callID)

			ended, err = f.finish(anna, c.ending)
			require.NoError(t, err, "the same again")
			require.Empty(t, ended)
			c.ending.Status, c.ending.Error, c.ending.Output = run.Failed, "otherwise", nil
			_, err = f.finish(anna, c.ending)
			require.ErrorIs(t, err, outside.ErrCallEnded, callID)
			require.ErrorIs(t, f.refused(anna, asks("ar-one", callID)), outside.ErrCallEnded)
		}
		require.Equal(t, run.Running, f.run(anna, "ar-one").Status, "its programs end without it")
	})
}

// The end of a run ends the programs that are left in it, and is the last event.
func TestTheEndOfARun(t *testing.T) {
	t.Parallel()
	each(t, 0, func(t *testing.T, f *fixture) {
		for _, c := range []struct {
			ending  outside.Ending
			reasons []string
		}{
			{outside.Ending{ResultID: "ar-well", Status: run.Done}, nil},
			{outside.Ending{ResultID: "ar-badly", Status: run.Failed, Error: "full"}, []string{"full"}},
			{outside.Ending{ResultID: "ar-aborted", Status: run.Aborted}, []string{"It was aborted."}},
		} {
			first, second := c.ending.ResultID+"-1", c.ending.ResultID+"-2"
			r, _ := f.register(anna, asks(c.ending.ResultID, first))
			f.register(anna, asks(c.ending.ResultID, second))
			ended, err := f.finish(anna, c.ending)
			require.NoError(t, err)
			require.Equal(t, []string{first, second}, ended)
			got := f.run(anna, c.ending.ResultID)
			require.Equal(t, c.ending.Status, got.Status)
			require.Equal(t, c.reasons, got.Errors)
			require.True(t, got.PTCEnabled)
			require.NotEqual(t, record.Executing, f.call(anna, second).Status)
			events := f.events(anna, r)
			require.Len(t, events, 6)
			require.Equal(t, run.End, events[5])

			ended, err = f.finish(anna, c.ending)
			require.NoError(t, err, "the same again")
			require.Empty(t, ended)
			other := outside.Ending{ResultID: c.ending.ResultID, Status: run.Failed}
			if c.ending.Status == run.Failed {
				other.Status = run.Done
			}
			_, err = f.finish(anna, other)
			require.ErrorIs(t, err, run.ErrEnded)
			require.ErrorIs(t, f.refused(anna, asks(c.ending.ResultID, "late")), run.ErrEnded)
		}
	})
}

// An end waits for calls that execute, and lets no more begin.
func TestAnEndWaitsForCalls(t *testing.T) {
	t.Parallel()
	each(t, time.Nanosecond, func(t *testing.T, f *fixture) {
		for _, e := range []outside.Ending{
			{ResultID: "ar-program", CallID: "program", Status: run.Done},
			{ResultID: "ar-run", Status: run.Failed, Error: "full"},
		} {
			callID := e.CallID
			if callID == "" {
				callID = "another"
			}
			r, _ := f.register(anna, asks(e.ResultID, callID))
			child, err := f.begin(anna, r, callID)
			require.NoError(t, err)
			_, err = f.finish(anna, e)
			require.ErrorIs(t, err, record.ErrUnsettled)
			require.Equal(t, record.Executing, f.call(anna, callID).Status)
			require.Equal(t, run.Running, f.run(anna, e.ResultID).Status)
			_, err = f.begin(anna, r, callID)
			require.ErrorIs(t, err, record.ErrParentEnded)

			f.settle(child)
			ended, err := f.finish(anna, e)
			require.NoError(t, err)
			require.Equal(t, []string{callID}, ended)
			require.Equal(t, run.ToolCallEnd, f.events(anna, r)[3], "the end of the call comes first")
		}
	})
}

// An aborted run ends at once. A call that executes is recorded when it ends.
func TestAnAbortedRunWaitsForNothing(t *testing.T) {
	t.Parallel()
	each(t, time.Nanosecond, func(t *testing.T, f *fixture) {
		r, _ := f.register(anna, asks("ar-one", "program"))
		child, err := f.begin(anna, r, "program")
		require.NoError(t, err)
		ended, err := f.finish(anna, outside.Ending{ResultID: "ar-one", Status: run.Aborted})
		require.NoError(t, err)
		require.Equal(t, []string{"program"}, ended)
		_, err = f.begin(anna, r, "program")
		require.ErrorIs(t, err, record.ErrParentEnded)
		f.settle(child)
		require.Equal(t, record.Completed, f.call(anna, child.CallID).Status)
		events := f.events(anna, r)
		require.Equal(t, run.End, events[len(events)-1])
	})
}

// settle ends a call well.
func (f *fixture) settle(c record.Call) {
	f.t.Helper()
	answer := record.Answer{Status: record.Success, Data: json.RawMessage(`1`)}
	_, err := f.records.Settle(f.t.Context(), c, answer, func(context.Context, database.Tx) error { return nil })
	require.NoError(f.t, err)
}

// An output over the cap is kept whole, and shortened in its record.
func TestALargeOutputIsKeptWhole(t *testing.T) {
	t.Parallel()
	each(t, 0, func(t *testing.T, f *fixture) {
		f.register(anna, asks("ar-one", "program"))
		output := json.RawMessage(`"` + strings.Repeat("x", 2*outputCap) + `"`)
		_, err := f.finish(anna, outside.Ending{ResultID: "ar-one", CallID: "program", Status: run.Done, Output: output})
		require.NoError(t, err)
		require.Less(t, len(f.call(anna, "program").Output), 2*outputCap)
		whole, err := f.records.Output(t.Context(), anna, "program")
		require.NoError(t, err)
		require.Equal(t, output, whole)
	})
}

func TestEndsThatMakeNoSenseAreRefused(t *testing.T) {
	t.Parallel()
	each(t, 0, func(t *testing.T, f *fixture) {
		f.register(anna, asks("ar-one", "program"))
		f.register(anna, asks("ar-two", "other"))
		for name, e := range map[string]outside.Ending{
			"not final":                {ResultID: "ar-one", Status: run.Running},
			"a negative version":       {ResultID: "ar-one", Version: -1, Status: run.Done},
			"output of a run":          {ResultID: "ar-one", Status: run.Done, Output: json.RawMessage(`1`)},
			"output that is not JSON":  {ResultID: "ar-one", CallID: "program", Status: run.Done, Output: json.RawMessage(`{`)},
			"an error of what is well": {ResultID: "ar-one", Status: run.Done, Error: "x"},
			"an error too long":        {ResultID: "ar-one", Status: run.Failed, Error: strings.Repeat("x", 10_001)},
			"an error with NUL":        {ResultID: "ar-one", Status: run.Failed, Error: "a\x00b"},
		} {
			_, err := f.finish(anna, e)
			require.Equal(t, errs.Invalid, errs.CodeOf(err), name)
		}
		for name, e := range map[string]outside.Ending{
			"a program of another run": {ResultID: "ar-one", CallID: "other", Status: run.Done},
			"no such program":          {ResultID: "ar-one", CallID: "none", Status: run.Done},
		} {
			_, err := f.finish(anna, e)
			require.ErrorIs(t, err, record.ErrMissing, name)
		}
		require.True(t, f.call(anna, "program").Live(f.clock()))
		require.True(t, f.call(anna, "other").Live(f.clock()))
	})
}
