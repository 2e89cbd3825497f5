package tool

import (
	"context"
	"sync"
	"time"

	"github.com/portico-run/portico/modules/tool/approval"
)

// clock ends a context when its time is up. The time can be stopped.
type clock struct {
	cancel context.CancelCauseFunc

	mu    sync.Mutex
	timer *time.Timer
	left  time.Duration
	since time.Time
}

// newClock returns a context that ends after so long. Its cause is
// context.DeadlineExceeded then.
func newClock(ctx context.Context, left time.Duration) (context.Context, *clock) {
	c := &clock{left: left, since: time.Now()}
	ctx, c.cancel = context.WithCancelCause(ctx)
	c.timer = time.AfterFunc(left, func() { c.cancel(context.DeadlineExceeded) })
	return ctx, c
}

// stop ends the context.
func (c *clock) stop() {
	c.timer.Stop()
	c.cancel(nil)
}

// pause stops the time until resume.
func (c *clock) pause() (resume func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer.Stop()
	c.left -= time.Since(c.since)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.since = time.Now()
		c.timer.Reset(max(0, c.left))
	}
}

// asking asks people for a call whose time the clock measures; nil where nobody can be
// asked. ctx is that of the caller.
func (s *Service) asking(ctx context.Context, j job, in Invocation, c *clock) func(context.Context, approval.Asked) (approval.Reply, error) {
	if s.approvals == nil {
		return nil
	}
	return func(within context.Context, asked approval.Asked) (approval.Reply, error) {
		resume, err := PauseOf(ctx)(ctx)
		if err != nil {
			return approval.Reply{}, err
		}
		defer c.pause()()
		back := j.visit.Rest()
		reply, err := s.approvals.Ask(within, question(j, in), asked)
		back()
		if resumed := resume(ctx); err == nil {
			err = resumed
		}
		return reply, err
	}
}
