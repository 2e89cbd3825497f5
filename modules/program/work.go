package program

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/lifecycle"
	"github.com/portico-run/portico/modules/run"
)

var (
	errStopping = errs.New(errs.Unavailable, "The server is stopping.").Do("Send the program again.").AsPlanned()
	// What ends a program before its time.
	errAborted = errors.New("aborted by the user")
	errStopped = errors.New("the server stops")
)

// lookAgain is how late a program may notice that its run was ended by another
// process, where the wake-up was lost or cannot arrive.
const lookAgain = time.Second

// work is the programs that this process executes.
type work struct {
	mu         sync.Mutex
	stopped    bool
	programs   map[string]executing // by their calls' ids
	background sync.WaitGroup       // those that no request waits for
}

type executing struct {
	run    run.Ref
	ours   bool // the end of the program is the end of the run
	cancel context.CancelCauseFunc
	// background is set where no request waits for it.
	background bool
}

func newWork() *work { return &work{programs: map[string]executing{}} }

// enter counts in a program that no request waits for.
func (w *work) enter() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return errStopping
	}
	w.background.Add(1)
	return nil
}

func (w *work) add(callID string, e executing) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.programs[callID] = e
}

func (w *work) drop(callID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.programs, callID)
}

// abort ends the programs of a run that are here. It reports whether one of them
// is to end the run itself.
func (w *work) abort(r run.Ref, cause error) (ends bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.programs {
		if e.run == r {
			e.cancel(cause)
			ends = ends || e.ours
		}
	}
	return ends
}

// drain takes no more programs in the background, lets those that execute go on
// until ctx ends, ends them then, and returns when they are recorded.
func (w *work) drain(ctx context.Context) {
	w.mu.Lock()
	w.stopped = true
	w.mu.Unlock()
	if lifecycle.Wait(ctx, &w.background) == nil {
		return
	}
	w.mu.Lock()
	for _, e := range w.programs {
		if e.background {
			e.cancel(errStopped)
		}
	}
	w.mu.Unlock()
	w.background.Wait()
}

// Abort ends the programs of a run that this process executes. It reports whether
// one of them ends the run with itself; otherwise the caller does.
func (s *Service) Abort(r run.Ref) bool { return s.work.abort(r, errAborted) }

// Drain takes no more programs in the background, and returns when those that
// execute have ended and are recorded. When ctx ends, so do they.
func (s *Service) Drain(ctx context.Context) { s.work.drain(ctx) }

// follow returns a context that ends when the run of a program is ended, here or
// by another process. done must be called when the program has ended.
func (s *Service) follow(ctx context.Context, o *Opened, background bool) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	s.work.add(o.call.CallID, executing{o.run.Ref(), o.ours, cancel, background})
	woken, unsubscribe := s.deps.Wake.Subscribe(run.AbortTopic(o.run.ResultID))
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		tick := time.NewTicker(lookAgain)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-woken:
			case <-tick.C:
			}
			now, err := s.deps.Runs.Get(ctx, o.actor, o.run.ResultID, &o.run.Version)
			if err == nil && now.Status.Final() {
				cancel(errAborted)
				return
			}
		}
	}()
	return ctx, func() {
		cancel(nil)
		unsubscribe()
		<-finished
		s.work.drop(o.call.CallID)
	}
}
