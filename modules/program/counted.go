package program

import (
	"context"
	"sync"

	"github.com/portico-run/portico/modules/sandbox"
)

// counted is a job that several pause: its caller, for calls that the caller executes,
// and calls of toolsets that wait for a person. It goes on when nobody pauses it any
// more.
type counted struct {
	sandbox.Execution

	mu     sync.Mutex
	pauses int
}

// Pause implements sandbox.Execution.
func (c *counted) Pause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pauses == 0 {
		if err := c.Execution.Pause(); err != nil {
			return err
		}
	}
	c.pauses++
	return nil
}

// Resume implements sandbox.Execution. Each Pause needs one.
func (c *counted) Resume(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pauses == 0 {
		return nil
	}
	if c.pauses == 1 {
		if err := c.Execution.Resume(ctx); err != nil {
			return err
		}
	}
	c.pauses--
	return nil
}
