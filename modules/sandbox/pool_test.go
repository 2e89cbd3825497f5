package sandbox_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/sandbox"
)

// The pool grows while jobs find it empty, and shrinks when they do not.
func TestPoolFollowsTheDemand(t *testing.T) {
	t.Parallel()
	d := newDriver()
	e := start(t, d, sandbox.Deps{Pool: sandbox.Pool{Max: 4, ShrinkEvery: 10 * time.Millisecond}, MaxConcurrent: 8})
	hold := make(chan struct{})
	d.program = func(context.Context, int) error {
		<-hold
		return nil
	}
	var jobs sync.WaitGroup
	for range 8 {
		jobs.Go(func() {
			if _, err := e.Run(t.Context(), job()); err != nil {
				t.Error(err)
			}
		})
	}
	require.Eventually(t, func() bool { return e.Stats().Running == 8 }, time.Minute, time.Millisecond)
	require.Positive(t, e.Stats().Cold)
	close(hold)
	jobs.Wait()
	require.Eventually(t, func() bool { s := e.Stats(); return s.Pool == 0 && s.Idle == 0 }, time.Minute, time.Millisecond)
	_, err := e.Run(t.Context(), job())
	require.NoError(t, err)
	require.Equal(t, 1, max(1, e.Stats().Pool))
}

// A pool that grew with a burst gives back what nobody needs, at once.
func TestABurstKeepsNoInterpreters(t *testing.T) {
	t.Parallel()
	d := newDriver()
	e := start(t, d, sandbox.Deps{Pool: sandbox.Pool{Min: 2, Max: 64, ShrinkEvery: 50 * time.Millisecond}, MaxConcurrent: 100})
	require.Eventually(t, func() bool { return e.Stats().Idle == 2 }, time.Minute, time.Millisecond)
	largest := 0
	for target := 4; target <= 64; target *= 2 { // each time the pool was full, and was not enough
		largest = max(largest, burst(t, d, e, target/2+1))
	}
	require.Greater(t, largest, 2, "the bursts needed more")
	require.Eventually(t, func() bool {
		s := e.Stats()
		d.mu.Lock()
		defer d.mu.Unlock()
		return s.Pool == 2 && s.Idle == 2 && len(d.open) == 2
	}, time.Minute, time.Millisecond)
}

// burst runs jobs at once, more than there are interpreters, and waits until the pool is
// full again. It returns how large the pool was when jobs had found none.
func burst(t *testing.T, d *driver, e *sandbox.Engine, n int) (pool int) {
	t.Helper()
	hold, slow := make(chan struct{}), make(chan struct{})
	d.mu.Lock()
	d.program = func(context.Context, int) error {
		<-hold
		return nil
	}
	d.begin = func() { <-slow } // nothing fills the pool while they come
	d.mu.Unlock()
	cold := e.Stats().Cold
	var jobs sync.WaitGroup
	for range n {
		jobs.Go(func() {
			if _, err := e.Run(t.Context(), job()); err != nil {
				t.Error(err)
			}
		})
	}
	require.Eventually(t, func() bool { return e.Stats().Cold > cold }, time.Minute, time.Millisecond)
	pool = e.Stats().Pool
	close(slow)
	require.Eventually(t, func() bool { return e.Stats().Running == n }, time.Minute, time.Millisecond)
	close(hold)
	jobs.Wait()
	require.Eventually(t, func() bool { s := e.Stats(); return s.Idle == s.Pool }, time.Minute, time.Millisecond)
	return pool
}

// Jobs that come faster than interpreters can be made do not make the pool
// larger: it would be filled only when they are gone.
func TestAPoolThatIsNeverFullDoesNotGrow(t *testing.T) {
	t.Parallel()
	d := newDriver()
	slow := make(chan struct{})
	d.begin = func() { <-slow }
	e := start(t, d, sandbox.Deps{Pool: sandbox.Pool{Min: 1, Max: 64}, MaxConcurrent: 50})
	var jobs sync.WaitGroup
	for range 50 {
		jobs.Go(func() {
			if _, err := e.Run(t.Context(), job()); err != nil {
				t.Error(err)
			}
		})
	}
	require.Eventually(t, func() bool { return e.Stats().Cold == 50 }, time.Minute, time.Millisecond)
	require.Equal(t, 1, e.Stats().Pool)
	close(slow)
	jobs.Wait()
}
