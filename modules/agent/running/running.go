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
	ErrStopping = errs.New(errs.Unavailable, "The server is stopping.").Do("Ask again.")
	// ErrStopped is the cause of runs that Stop ends.
	ErrStopped = errors.New("the server stops")
)

// Runs are those of one process.
type Runs struct {
	most int // at once

	mu      sync.Mutex
	stopped bool
	active  int                                // runs that are counted in
	cancels map[string]context.CancelCauseFunc // by result id and version
	work    sync.WaitGroup
}

// New returns room for so many runs at once.
func New(most int) *Runs {
	return &Runs{most: most, cancels: map[string]context.CancelCauseFunc{}}
}

// Enter counts a run in, if there is room for it.
func (w *Runs) Enter() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.stopped:
		return ErrStopping
	case w.active >= w.most:
		return ErrBusy
	}
	w.active++
	w.work.Add(1)
	return nil
}

// Leave counts it out.
func (w *Runs) Leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active--
	w.work.Done()
}

func key(r run.Run) string { return fmt.Sprintf("%s/%d", r.ResultID, r.Version) }

// Add says how a run is ended. One that comes while the server stops is ended
// at once.
func (w *Runs) Add(r run.Run, cancel context.CancelCauseFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cancels[key(r)] = cancel
	if w.stopped {
		cancel(ErrStopped)
	}
}

// Forget ends what Add began.
func (w *Runs) Forget(r run.Run) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cancels[key(r)](nil)
	delete(w.cancels, key(r))
}

// Cancel ends a run, if it is here.
func (w *Runs) Cancel(r run.Run, cause error) (here bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	cancel, here := w.cancels[key(r)]
	if here {
		cancel(cause)
	}
	return here
}

// Abandon leaves all runs to other processes, or to this one later. Others may begin.
func (w *Runs) Abandon() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cancelAll()
}

func (w *Runs) cancelAll() {
	for _, cancel := range w.cancels {
		cancel(ErrStopped)
	}
}

// Stop ends all runs and returns when they are recorded.
func (w *Runs) Stop(ctx context.Context) error {
	w.mu.Lock()
	w.stopped = true
	w.cancelAll()
	w.mu.Unlock()
	return lifecycle.Wait(ctx, &w.work)
}
