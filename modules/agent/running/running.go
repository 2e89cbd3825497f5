// Package running knows the runs that this process works on, and ends them.
package running

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/lifecycle"
	"github.com/portico-run/portico/modules/run"
)

// What runs are refused with.
var (
	ErrBusy     = errs.New(errs.RateLimited, "This server works on as many runs as it may.").Do("Wait for some to end, then ask again.").After(time.Second)
	ErrUserBusy = errs.New(errs.RateLimited, "You have as many runs as one user may.").Do("Wait for some to end, then ask again.").After(time.Second)
	ErrStopping = errs.New(errs.Unavailable, "The server is stopping.").Do("Ask again.").AsPlanned()
	// ErrStopped is the cause of runs that Stop ends.
	ErrStopped = errors.New("the server stops")
)

// Runs are those of one process.
type Runs struct {
	most int // at once

	stop chan struct{} // closed when the process stops

	mu      sync.Mutex
	stopped bool
	leaves  bool                              // at the next moment at which nothing is lost
	active  int                               // runs that are counted in
	ends    map[string]func(cause error) bool // by result id and version
	work    sync.WaitGroup
}

// New returns room for so many runs at once.
func New(most int) *Runs {
	return &Runs{most: most, stop: make(chan struct{}), ends: map[string]func(cause error) bool{}}
}

// Enter counts a run in, if there is room for it.
func (w *Runs) Enter() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.stopped, w.leaves:
		return ErrStopping
	case w.active >= w.most:
		return ErrBusy
	}
	w.active++
	w.work.Add(1)
	return nil
}

// Count is how many runs are counted in.
func (w *Runs) Count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.active
}

// Leave counts it out.
func (w *Runs) Leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active--
	w.work.Done()
}

func key(r run.Ref) string { return fmt.Sprintf("%s/%d", r.ResultID, r.Version) }

// Quit has each run left to other processes at its next moment at which nothing is
// lost: before the model is asked again. None begins any more.
func (w *Runs) Quit() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leaves = true
}

// Quits reports whether runs are to be left.
func (w *Runs) Quits() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.leaves
}

// Has reports whether this process works on a run.
func (w *Runs) Has(r run.Ref) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ends[key(r)] != nil
}

// Add returns the context of the work on a run, until Forget. That of one that comes
// while the server stops has ended.
func (w *Runs) Add(ctx context.Context, r run.Run) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ends[key(r.Ref())] = func(cause error) bool {
		cancel(cause)
		return errors.Is(context.Cause(ctx), cause)
	}
	if w.stopped {
		cancel(ErrStopped)
	}
	return ctx
}

// Forget ends what Add began.
func (w *Runs) Forget(r run.Run) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ends[key(r.Ref())](context.Canceled)
	delete(w.ends, key(r.Ref()))
}

// Cancel ends the work on a run for a cause. It reports false where the run is not
// here, and where something else has ended the work: then the cause changes nothing.
func (w *Runs) Cancel(r run.Run, cause error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	end := w.ends[key(r.Ref())]
	return end != nil && end(cause)
}

// Pause returns after a time, or with ErrStopped when the process stops before.
func (w *Runs) Pause(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-w.stop:
		return ErrStopped
	}
}

// Abandon leaves all runs to other processes, or to this one later. Others may begin.
func (w *Runs) Abandon() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cancelAll()
}

func (w *Runs) cancelAll() {
	for _, end := range w.ends {
		end(ErrStopped)
	}
}

// Stop ends all runs and returns when they are recorded.
func (w *Runs) Stop(ctx context.Context) error {
	w.mu.Lock()
	if !w.stopped {
		close(w.stop)
	}
	w.stopped = true
	w.cancelAll()
	w.mu.Unlock()
	return lifecycle.Wait(ctx, &w.work)
}
