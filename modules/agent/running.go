package agent

import (
	"context"
	"fmt"
	"sync"

	"github.com/portico-run/portico/internal/lifecycle"
	"github.com/portico-run/portico/modules/run"
)

// running are the runs that this process works on.
type running struct {
	most int // at once

	mu      sync.Mutex
	stopped bool
	active  int                                // runs that are counted in
	cancels map[string]context.CancelCauseFunc // by result id and version
	work    sync.WaitGroup
}

// enter counts a run in, if there is room for it.
func (w *running) enter() error {
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

func (w *running) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active--
	w.work.Done()
}

func key(r run.Run) string { return fmt.Sprintf("%s/%d", r.ResultID, r.Version) }

// add says how a run is ended. One that comes while the server stops is ended
// at once.
func (w *running) add(r run.Run, cancel context.CancelCauseFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cancels[key(r)] = cancel
	if w.stopped {
		cancel(errStopped)
	}
}

func (w *running) forget(r run.Run) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cancels[key(r)](nil)
	delete(w.cancels, key(r))
}

// cancel ends a run, if it is here.
func (w *running) cancel(r run.Run, cause error) (here bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	cancel, here := w.cancels[key(r)]
	if here {
		cancel(cause)
	}
	return here
}

// stop ends all runs and returns when they are recorded.
func (w *running) stop(ctx context.Context) error {
	w.mu.Lock()
	w.stopped = true
	for _, cancel := range w.cancels {
		cancel(errStopped)
	}
	w.mu.Unlock()
	return lifecycle.Wait(ctx, &w.work)
}
