package sandbox_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/sandbox"
)

// A driver that charges is not told to look again: it would take what it measured last
// for the beginning, and not count what comes until the next look.
func TestChargesAreNoChange(t *testing.T) {
	t.Parallel()
	c := sandbox.NewClock()
	c.Pause()
	<-c.Changed()
	c.Charge(time.Second)
	require.Empty(t, c.Changed())
	c.Resume()
	require.Len(t, c.Changed(), 1)
}
