package program

import (
	"context"
	"sync"

	"github.com/portico-run/portico/modules/sandbox"
)

// waits stops the clock of a program while calls of it wait for a person.
type waits struct {
	begins bool          // the program is a job of its own, whose clock can be stopped
	ready  chan struct{} // closed when job is set
	job    sandbox.Execution

	mu sync.Mutex
	n  int // calls that wait
}

func newWaits() *waits { return &waits{ready: make(chan struct{})} }

// begun says that the program runs. It is called once.
func (w *waits) begun(x sandbox.Execution) {
	w.job = x
	close(w.ready)
}

// pause implements tool.Pause. The program runs on when none of its calls waits any
// more.
func (w *waits) pause(ctx context.Context) (resume func(ctx context.Context) error, err error) {
	if !w.begins {
		return func(context.Context) error { return nil }, nil
	}
	select {
	case <-w.ready:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.n == 0 {
		if err := w.job.Pause(); err != nil {
			return nil, err
		}
	}
	w.n++
	return w.resume, nil
}

// resume ends the wait of one call. The last one waits for a turn of the sandbox,
// also when its caller is gone: the clock would stand for ever otherwise.
func (w *waits) resume(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n--
	if w.n > 0 {
		return nil
	}
	return w.job.Resume(context.WithoutCancel(ctx))
}
