// Slow under the race detector: make test runs it without.
//go:build !race

package record_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/testenv"
)

func TestTenThousandCallsSentAsAWholeLeaveTheSame(t *testing.T) {
	t.Parallel()
	testenv.Slow(t, "10,000 calls on three databases")
	whole := leaveTheSame(t, 10_000/statesAtOnce, func(*world) {})
	require.Greater(t, whole, int64(10_000/4), "ends of calls that were sent as a whole")
}
