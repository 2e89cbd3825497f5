package sandbox

import (
	"context"
	"sync"

	"github.com/portico-run/portico/modules/internal/errs"
)

// ErrManyPaused is returned by Pause when as many jobs are paused as may be.
var ErrManyPaused = errs.New(errs.RateLimited, "Too many programs wait for their tools.")

// Execution is a job that was begun.
type Execution struct {
	engine *Engine
	clock  *Clock
	done   chan struct{}
	result Result
	err    error

	mu     sync.Mutex
	paused bool
	ended  bool
}

// Done is closed when nothing of the job runs any more.
func (x *Execution) Done() <-chan struct{} { return x.done }

// Result is what came out. It waits for Done.
func (x *Execution) Result() (Result, error) {
	<-x.done
	return x.result, x.err
}

// Pause says that the job waits for somebody outside: its clock stands and
// another job gets its turn. Nothing is frozen; what the program computes all
// the same counts. It returns ErrManyPaused, and pauses nothing, when too many
// wait. Pausing a job that is paused or over does nothing.
func (x *Execution) Pause() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.paused || x.ended {
		return nil
	}
	if !x.engine.park() {
		return ErrManyPaused.Do("Send the program again later.")
	}
	x.paused = true
	x.clock.Pause()
	<-x.engine.turns
	return nil
}

// Resume waits for a turn and lets the clock run again. It returns the
// context's error if that ends first; the job stays paused then.
func (x *Execution) Resume(ctx context.Context) error {
	x.mu.Lock()
	waits := x.paused && !x.ended
	x.mu.Unlock()
	if !waits {
		return nil
	}
	select {
	case x.engine.turns <- struct{}{}:
	case <-x.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.paused || x.ended {
		<-x.engine.turns // it had a turn, or needs none
		return nil
	}
	x.paused = false
	x.engine.count(func(s *Stats) { s.Paused--; s.Running++ })
	x.clock.Resume()
	return nil
}

// end gives back what the job held.
func (x *Execution) end() {
	x.mu.Lock()
	x.ended = true
	if x.paused {
		x.engine.count(func(s *Stats) { s.Paused-- })
	} else {
		x.engine.count(func(s *Stats) { s.Running-- })
		<-x.engine.turns
	}
	x.mu.Unlock()
	close(x.done)
}

// park counts a running job as paused, if there is room.
func (e *Engine) park() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stats.Paused >= e.deps.MaxPaused {
		return false
	}
	e.stats.Paused++
	e.stats.Running--
	return true
}
