package tool_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/run/bound"
	"github.com/portico-run/portico/modules/tool"
)

// What is over a rate is refused with the time after which it is not, is not
// recorded, and does not take from what others may.
func TestRatesOfKeysAndRuns(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		tool.Adjust(f.Service, func(s *tool.Settings) {
			s.Bounds = tool.Bounds{Key: bound.Bound{PerSecond: 2}, Run: bound.Bound{PerSecond: 1}}
		})
		call := func(key, run string) error {
			req := request(`{"city":"Rome"}`)
			req.Context.ResultID = run
			_, err := f.execute(t.Context(), actor.Actor{UID: anna.UID, KeyID: key}, req)
			return err
		}
		refused := func(err error, says string, after time.Duration) {
			t.Helper()
			var e *errs.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, errs.RateLimited, e.Code)
			require.Contains(t, e.Detail, says)
			require.InDelta(t, after.Seconds(), e.RetryAfter.Seconds(), 0.01)
		}
		for range 4 { // two seconds' worth at once
			require.NoError(t, call("ak-1", ""))
		}
		refused(call("ak-1", ""), "At most 2 calls of a key begin in a second", time.Second/2)
		require.NoError(t, call("ak-2", ""), "another key")
		f.pass(time.Second / 2)
		require.NoError(t, call("ak-1", ""))
		require.Error(t, call("ak-1", ""))
		require.Len(t, f.calls(anna), 6)

		f.pass(time.Minute)
		r := f.startRun(anna)
		for range 2 {
			require.NoError(t, call("ak-1", r.ResultID))
		}
		refused(call("ak-1", r.ResultID), "At most 1 calls of a run begin in a second", time.Second)
		for range 2 { // the refused one took nothing of its key's
			require.NoError(t, call("ak-1", ""))
		}
		require.Error(t, call("ak-1", ""))
	})
}
