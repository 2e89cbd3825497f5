package sandbox

import (
	"context"
	"sync"
)

// Execution is a job that was begun, here or in another process.
type Execution interface {
	// Done is closed when nothing of the job runs any more.
	Done() <-chan struct{}
	// Result is what came out. It waits for Done. Its error is ErrUnavailable,
	// for a job that did not begin, or ErrLost.
	Result() (Result, error)
	// Pause says that the job waits for somebody outside: its clock stands and
	// another job gets its turn. Nothing is frozen; what the program computes all
	// the same counts. It returns ErrManyPaused or ErrOwnerPaused, and pauses
	// nothing, when too many wait. Pausing a job that is paused or over does
	// nothing.
	Pause() error
	// Resume waits for a turn and lets the clock run again. It returns the
	// context's error if that ends first; the job stays paused then.
	Resume(ctx context.Context) error
}

// execution is a job of an Engine. It implements Execution.
type execution struct {
	turns  *turns
	owner  string
	clock  *Clock
	done   chan struct{}
	result Result
	err    error

	mu     sync.Mutex
	paused bool
	ended  bool
}

// Done implements Execution.
func (x *execution) Done() <-chan struct{} { return x.done }

// Result implements Execution.
func (x *execution) Result() (Result, error) {
	<-x.done
	return x.result, x.err
}

// Pause implements Execution.
func (x *execution) Pause() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.paused || x.ended {
		return nil
	}
	if err := x.turns.park(x.owner); err != nil {
		return err
	}
	x.paused = true
	x.clock.Pause()
	return nil
}

// Resume implements Execution.
func (x *execution) Resume(ctx context.Context) error {
	x.mu.Lock()
	waits := x.paused && !x.ended
	x.mu.Unlock()
	if !waits {
		return nil
	}
	if !x.turns.unpark(ctx, x.owner, x.done) {
		return ctx.Err() // none when the job is over
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.paused || x.ended {
		x.turns.back(x.owner) // it had a turn, or needs none
		return nil
	}
	x.paused = false
	x.clock.Resume()
	return nil
}

// end gives back what the job held.
func (x *execution) end() {
	x.mu.Lock()
	x.ended = true
	if x.paused {
		x.turns.drop(x.owner)
	} else {
		x.turns.give(x.owner)
	}
	x.mu.Unlock()
	close(x.done)
}
