package sandbox_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/sandbox"
)

// crowd runs jobs that last until they are released.
type crowd struct {
	t     *testing.T
	e     *sandbox.Engine
	began chan string // owners, in the order in which their jobs began
	ended chan error
	hold  chan struct{}
}

func newCrowd(t *testing.T, deps sandbox.Deps) *crowd {
	t.Helper()
	d := newDriver()
	c := &crowd{t: t, began: make(chan string, 100), ended: make(chan error, 100), hold: make(chan struct{})}
	d.serve = func(ctx context.Context, j sandbox.Job) {
		c.began <- j.Owner
		select {
		case <-c.hold:
		case <-ctx.Done():
		}
	}
	c.e = start(t, d, deps)
	return c
}

// send sends jobs of an owner without waiting for their turn.
func (c *crowd) send(owner string, n int) {
	c.t.Helper()
	before := c.e.Stats()
	for range n {
		go func() {
			j := job()
			j.Owner = owner
			_, err := c.e.Run(context.Background(), j)
			c.ended <- err
		}()
	}
	require.Eventually(c.t, func() bool {
		s := c.e.Stats()
		return s.Running+s.Queued+s.Refused == before.Running+before.Queued+before.Refused+n
	}, time.Minute, time.Millisecond)
}

func refused(t *testing.T, err error) {
	t.Helper()
	e, ok := errors.AsType[*errs.Error](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, 429, e.Code.Status())
	require.Positive(t, e.RetryAfter)
}

// One owner has a quarter of the turns and of the queue. Somebody who is at
// these bounds is told, and keeps nobody else waiting.
func TestOwnersHaveAQuarter(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, sandbox.Deps{MaxConcurrent: 8, MaxQueue: 12})
	c.send("anna", 5)
	require.Equal(t, sandbox.Counts{Running: 2, Queued: 3}, c.e.Stats().Counts)
	_, err := c.e.Run(t.Context(), sandbox.Job{Owner: "anna", Code: "x", Timeout: time.Second})
	require.ErrorIs(t, err, sandbox.ErrOwnerBusy.Do(""))
	refused(t, err)

	c.send("ben", 1)
	require.Equal(t, sandbox.Counts{Running: 3, Queued: 3}, c.e.Stats().Counts, "ben's runs although anna's wait")
	c.send("", 5)
	require.Equal(t, sandbox.Counts{Running: 8, Queued: 3}, c.e.Stats().Counts, "the server's own have no share")
	close(c.hold)
	for range 11 {
		require.NoError(t, <-c.ended)
	}
	require.Zero(t, c.e.Stats().Counts)
}

// A turn that becomes free goes to the owner that has the fewest, not to who
// asked most.
func TestTurnsGoRoundTheOwners(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, sandbox.Deps{MaxConcurrent: 2, MaxQueue: 100, PerOwner: sandbox.Counts{Running: 2, Queued: 50}})
	c.send("anna", 2)
	c.send("anna", 10)
	c.send("ben", 2)
	c.send("cleo", 1)
	for range 2 {
		require.Equal(t, "anna", <-c.began)
	}
	var order []string
	for range 4 {
		c.hold <- struct{}{} // one ends, one begins
		order = append(order, <-c.began)
	}
	require.ElementsMatch(t, []string{"ben", "cleo"}, order[:2], "before anna's ten")
	close(c.hold)
	for range 15 {
		require.NoError(t, <-c.ended)
	}
}

// One owner has a quarter of the places for paused jobs.
func TestPausesOfOneOwnerAreLimited(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, sandbox.Deps{MaxConcurrent: 4, MaxPaused: 8})
	begin := func(owner string) sandbox.Execution {
		x, err := c.e.Begin(t.Context(), sandbox.Job{Owner: owner, Code: "x", Timeout: time.Second})
		require.NoError(t, err)
		return x
	}
	one := begin("anna")
	require.NoError(t, one.Pause())
	require.NoError(t, begin("anna").Pause())
	three := begin("anna")
	err := three.Pause()
	require.ErrorIs(t, err, sandbox.ErrOwnerPaused.Do(""))
	refused(t, err)
	require.NoError(t, begin("ben").Pause())
	require.Equal(t, sandbox.Counts{Running: 1, Paused: 3}, c.e.Stats().Counts)

	// A paused job of hers needs one of her turns to go on.
	require.ErrorIs(t, one.Resume(canceled(t)), context.Canceled)
	require.Equal(t, sandbox.Counts{Running: 1, Paused: 3}, c.e.Stats().Counts)
	resumed := make(chan error, 1)
	go func() { resumed <- one.Resume(t.Context()) }()
	for on := false; !on; { // jobs end in any order; hers among them
		select {
		case c.hold <- struct{}{}:
		case err := <-resumed:
			require.NoError(t, err)
			on = true
		}
	}
	close(c.hold)
	require.Eventually(t, func() bool { return c.e.Stats().Counts == sandbox.Counts{} }, time.Minute, time.Millisecond)
}

// Jobs that will pause wait in the room of paused jobs, longer than others may,
// and no more of them than may still be paused.
func TestJobsThatWillPauseWaitInTheRoomOfPausedOnes(t *testing.T) {
	t.Parallel()
	d := newDriver()
	d.serve = func(ctx context.Context, _ sandbox.Job) { <-ctx.Done() }
	e := start(t, d, sandbox.Deps{
		MaxConcurrent: 2, MaxQueue: 1, MaxPaused: 20, Queue: sandbox.Queue{Timeout: time.Millisecond},
		PerOwner: sandbox.Counts{Running: 2, Queued: 1, Paused: 20},
	})
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	j := sandbox.Job{Owner: "anna", Code: "x", Timeout: time.Minute, Pauses: true}
	all := make(chan error, 20)
	gate := make(chan struct{})
	for range 20 {
		go func() {
			x, err := e.Begin(ctx, j)
			if err == nil {
				<-gate
				err = x.Pause()
			}
			all <- err
		}()
	}
	require.Eventually(t, func() bool { return e.Stats().Counts == sandbox.Counts{Running: 2, Queued: 18} }, time.Minute, time.Millisecond)
	_, err := e.Begin(t.Context(), sandbox.Job{Owner: "anna", Code: "x", Timeout: time.Minute})
	require.ErrorIs(t, err, sandbox.ErrBusy.Do(""), "one that does not pause is not that patient")
	close(gate)
	for range 20 {
		require.NoError(t, <-all)
	}
	require.Equal(t, sandbox.Counts{Paused: 20}, e.Stats().Counts)

	// Now there is no room left; the two turns and the ordinary queue are free.
	j.Owner = "ben" // who has none of it
	held := make(chan error, 3)
	for range 3 {
		go func() {
			_, err := e.Begin(ctx, j)
			held <- err
		}()
	}
	require.NoError(t, <-held)
	require.NoError(t, <-held)
	refused(t, <-held) // waited in the ordinary queue
}

// The pauses of one owner, and those on their way, keep nobody else waiting.
func TestStartsOfOneOwnerStarveNobody(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, sandbox.Deps{MaxConcurrent: 2, MaxQueue: 4, MaxPaused: 200, PerOwner: sandbox.Counts{Running: 2}})
	begin := func(owner string) {
		go func() {
			j := job()
			j.Owner, j.Pauses, j.Timeout = owner, true, time.Minute
			_, err := c.e.Run(context.Background(), j)
			c.ended <- err
		}()
	}
	for range 60 { // two run, fifty wait in her room, one in the queue
		begin("anna")
	}
	for range 7 {
		err := <-c.ended
		require.ErrorIs(t, err, sandbox.ErrOwnerBusy.Do(""))
		refused(t, err)
	}
	require.Equal(t, sandbox.Counts{Running: 2, Queued: 51}, c.e.Stats().Counts)
	<-c.began
	<-c.began
	begin("ben")
	require.Eventually(t, func() bool { return c.e.Stats().Queued == 52 }, time.Minute, time.Millisecond)
	c.hold <- struct{}{}
	require.Equal(t, "ben", <-c.began)
	close(c.hold)
	for range 54 {
		require.NoError(t, <-c.ended)
	}
	require.Zero(t, c.e.Stats().Counts)
}

// What waits is bounded in bytes, for all and for one owner. One job may always
// wait.
func TestWhatWaitsIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, sandbox.Deps{
		MaxConcurrent: 1, MaxQueue: 100, Queue: sandbox.Queue{MaxBytes: 4000}, PerOwner: sandbox.Counts{Running: 1, Queued: 100},
	})
	c.send("", 1)
	<-c.began
	patient, leave := context.WithCancel(t.Context())
	wait := func(owner string, bytes int) {
		j := job()
		j.Owner, j.Inputs = owner, []sandbox.File{{Path: "a", Content: make([]byte, bytes)}}
		_, err := c.e.Run(patient, j)
		c.ended <- err
	}
	queued := func(n int) func() bool { return func() bool { return c.e.Stats().Queued == n } }
	go wait("anna", 3000) // more than her share, and alone
	require.Eventually(t, queued(1), time.Minute, time.Millisecond)
	go wait("anna", 1)
	require.ErrorIs(t, <-c.ended, sandbox.ErrOwnerBusy.Do(""))
	go wait("ben", 500)
	require.Eventually(t, queued(2), time.Minute, time.Millisecond)
	go wait("cleo", 900)
	err := <-c.ended
	require.ErrorIs(t, err, sandbox.ErrBusy.Do(""))
	refused(t, err)
	leave() // who waits no more holds nothing
	for range 2 {
		require.ErrorIs(t, <-c.ended, context.Canceled)
	}
	patient = context.WithoutCancel(patient)
	go wait("cleo", 900)
	require.Eventually(t, queued(1), time.Minute, time.Millisecond)
	go wait("ben", 900)
	require.Eventually(t, queued(2), time.Minute, time.Millisecond)
	close(c.hold)
	for range 3 {
		require.NoError(t, <-c.ended)
	}
}
