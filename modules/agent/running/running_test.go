package running_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/agent/running"
	"github.com/portico-run/portico/modules/run"
)

// The first cause is why the work on a run ends. Who comes with another one is told
// that it does not count.
func TestTheFirstCauseCounts(t *testing.T) {
	t.Parallel()
	runs, r := running.New(1), run.Run{ResultID: "ar-1"}
	first, second := errors.New("first"), errors.New("second")
	require.False(t, runs.Cancel(r, first), "it is not here")
	work := runs.Add(t.Context(), r)
	require.True(t, runs.Cancel(r, first))
	require.False(t, runs.Cancel(r, second))
	require.True(t, runs.Cancel(r, first), "again")
	require.Equal(t, first, context.Cause(work))
	runs.Forget(r)
	require.False(t, runs.Cancel(r, first))
	for _, leave := range []func(){runs.Abandon, func() { require.NoError(t, runs.Stop(t.Context())) }} {
		left := runs.Add(t.Context(), r)
		leave()
		require.False(t, runs.Cancel(r, first))
		require.Equal(t, running.ErrStopped, context.Cause(left))
		runs.Forget(r)
	}
}
