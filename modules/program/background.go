package program

import (
	"context"
	"errors"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/run"
)

// Started is a program that goes on without its request.
type Started struct {
	ResultID string
	Version  int
	CallID   string
}

// admission is how long Start waits to hear that the sandbox has no room. A
// program that still waits for its turn then has a place in the queue.
const admission = 250 * time.Millisecond

// Start is Execute for a program that outlives its request. It returns when the
// program has begun, or waits for its turn; what refuses it at once is an error, as
// from Execute. How it ends is in its record and its run. It ends when its run is
// aborted, and some time after Drain.
func (s *Service) Start(ctx context.Context, a actor.Actor, req Request) (Started, error) {
	if err := s.work.enter(); err != nil {
		return Started{}, err
	}
	o, err := s.Open(ctx, a, req)
	if err != nil {
		s.work.background.Done()
		return Started{}, err
	}
	lasting := context.WithoutCancel(ctx)
	// Known before this returns: its caller may abort it at once.
	working, done := s.follow(lasting, o, true)
	begun, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		defer s.work.background.Done()
		defer done()
		_, err := s.execute(lasting, working, o, func() { close(begun) })
		ended <- err
		if err != nil && errs.CodeOf(err) != errs.RateLimited {
			s.deps.Logger.ErrorContext(ctx, "a program in the background failed", "callId", o.call.CallID, "error", err)
		}
	}()
	waited := time.NewTimer(admission)
	defer waited.Stop()
	select {
	case <-begun:
	case err = <-ended:
	case <-waited.C:
	case <-ctx.Done():
	}
	return Started{ResultID: o.run.ResultID, Version: o.run.Version, CallID: o.call.CallID}, err
}

// unlessEnded is nil for the error of a run that somebody else has ended.
func unlessEnded(err error) error {
	if errors.Is(err, run.ErrEnded) {
		return nil
	}
	return err
}
