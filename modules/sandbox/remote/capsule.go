package remote

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/lifecycle"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/remote/wire"
)

// capsule is a place on a node that is not known yet. It implements sandbox.Capsule.
type capsule struct {
	driver *Driver
	ended  context.Context //nolint:containedctx // ends when the capsule is closed
	end    context.CancelFunc
	used   atomic.Bool
	work   sync.WaitGroup // Run
}

// Close implements sandbox.Capsule.
func (c *capsule) Close() error {
	c.used.Store(true)
	c.end()
	c.work.Wait()
	c.driver.forget(c)
	return nil
}

// Run implements sandbox.Capsule.
func (c *capsule) Run(ctx context.Context, job sandbox.Job) (sandbox.Result, error) {
	if err := validate(job); err != nil {
		return sandbox.Result{}, err
	}
	c.work.Add(1)
	defer c.work.Done()
	if c.used.Swap(true) || c.ended.Err() != nil {
		return sandbox.Result{}, sandbox.ErrCapsuleGone
	}
	if job.Clock == nil {
		job.Clock = sandbox.NewClock()
	}
	n, conn, err := c.connect(ctx, job.Owner)
	if err != nil {
		return sandbox.Result{}, err
	}
	x := newExchange(ctx, c.driver.deps, job)
	outcome := x.run(ctx, conn, c.ended.Done())
	c.driver.deps.Nodes.Release(n, outcome.broken != "")
	if outcome.broken != "" {
		c.driver.deps.Logger.WarnContext(ctx, "a sandbox node is given up", "node", n.Address, "error", outcome.broken)
	}
	return outcome.result, outcome.err
}

// validate refuses what cannot travel, besides what nobody runs.
func validate(job sandbox.Job) error {
	if err := job.Validate(); err != nil {
		return err
	}
	for _, list := range [][]sandbox.File{job.Files, job.Inputs} {
		for _, f := range list {
			if !utf8.ValidString(f.Path) {
				return sandbox.ErrInvalidJob.Do("Send the paths of files as UTF-8.")
			}
		}
	}
	return nil
}

// again is how long a job waits until it asks for another node, where one was full.
const again = 20 * time.Millisecond

// connect finds a node that takes a job. Its errors say that no code ran.
func (c *capsule) connect(ctx context.Context, owner string) (Node, *wire.Conn, error) {
	nodes, client := c.driver.deps.Nodes, c.driver.deps.Client
	waits, cancel := context.WithTimeout(ctx, client.config.Times.Busy)
	defer cancel()
	defer context.AfterFunc(c.ended, cancel)() //nolint:contextcheck // the capsule may be closed meanwhile
	for {
		n, err := nodes.Acquire(waits, owner)
		if err != nil {
			return n, nil, c.none(ctx, waits, err)
		}
		conn, err := client.open(waits, n, owner)
		if err == nil {
			return n, conn, nil
		}
		refused, _ := errors.AsType[refusal](err)
		full := refused.why == wire.Full || refused.why == wire.OtherUser
		nodes.Release(n, !full && waits.Err() == nil)
		if !full && waits.Err() == nil {
			return n, nil, sandbox.ErrCapsuleGone.With(err) // the engine tries another one
		}
		if lifecycle.Pause(waits, again) != nil {
			return n, nil, c.none(ctx, waits, err)
		}
	}
}

// none is the error of a job that no node took.
func (c *capsule) none(ctx, waits context.Context, err error) error {
	switch {
	case ctx.Err() != nil || c.ended.Err() != nil:
		return sandbox.ErrCapsuleGone.With(err)
	case isKnown(err):
		return err
	case waits.Err() != nil:
		return sandbox.ErrBusy.Do("Send the program again after Retry-After.").After(time.Second).With(err)
	}
	return ErrNoNode.With(err)
}

func isKnown(err error) bool {
	_, known := errors.AsType[*errs.Error](err)
	return known
}
