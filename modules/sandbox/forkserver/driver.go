// Package forkserver makes interpreters by forking: one cell of bubblewrap
// holds a Python that has imported what programs need, and each interpreter is
// a copy of it in namespaces of its own, under system-call filters, without
// capabilities, with file systems that are limited in size and number of
// files. A copy takes milliseconds and little memory, runs one job and dies.
//
// What copies share is the layout of their addresses and the seed of Python's
// hashes, both of which a program can learn about itself.
package forkserver

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/guest"
)

// DefaultPreload are the modules that programs use most.
func DefaultPreload() []string {
	return []string{"http.client", "numpy", "pandas", "matplotlib.pyplot"}
}

// Driver implements sandbox.Driver.
type Driver struct {
	host     *guest.Host
	requests chan request
	idle     atomic.Int64 // memory of a child that waits
}

// request asks for a child.
type request struct {
	ctx    context.Context //nolint:containedctx // of whoever asks
	answer chan<- answer
}

type answer struct {
	capsule *capsule
	err     error
}

// New returns a driver that did nothing yet. It fails on limits no program can
// work under, and on an architecture without system-call filters.
func New(c guest.Config) (*Driver, error) {
	h, err := guest.NewHost("fork-server", "bwrap", c)
	if err != nil {
		return nil, err
	}
	return &Driver{host: h, requests: make(chan request)}, nil
}

// Open makes the driver's folder below RunDir and removes what servers that
// are gone left there.
func (d *Driver) Open(context.Context) error {
	if err := d.host.Open(); err != nil {
		return err
	}
	d.host.Go(d.serve)
	return nil
}

// Start forks an interpreter. The first waits for the fork-server.
func (d *Driver) Start(ctx context.Context) (sandbox.Capsule, error) {
	ctx, done, err := d.host.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()

	made := make(chan answer, 1)
	select {
	case d.requests <- request{ctx, made}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var a answer
	select {
	case a = <-made:
	case <-ctx.Done():
		// It is on its way; nobody else would close it.
		d.host.Go(func(context.Context) {
			if late := <-made; late.capsule != nil {
				_ = late.capsule.Close() // the driver's end reports what is left
			}
		})
		return nil, ctx.Err()
	}
	if a.err != nil {
		return nil, a.err
	}
	if err := a.capsule.await(ctx); err != nil {
		return nil, errors.Join(a.capsule.explain(ctx, err), a.capsule.Close())
	}
	return a.capsule, nil
}

// serve keeps a fork-server and asks it for children, one after the other: it
// makes them so. One that does not answer is replaced.
func (d *Driver) serve(closing context.Context) {
	var n *nursery
	defer func() {
		if n != nil {
			_ = n.Close() // its children are closed, and reported, before
		}
	}()
	n, _ = d.startNursery(closing) // a request tries again, and is told why
	for {
		select {
		case r := <-d.requests:
			var a answer
			if r.ctx.Err() == nil {
				a, n = d.fork(closing, n)
			} else {
				a.err = r.ctx.Err()
			}
			r.answer <- a
		case <-closing.Done():
			return
		}
	}
}

// fork makes a child, with a new fork-server if that is what it takes.
func (d *Driver) fork(closing context.Context, n *nursery) (answer, *nursery) {
	var failed error
	for range 2 {
		if n == nil {
			var err error
			if n, err = d.startNursery(closing); err != nil {
				return answer{err: err}, nil
			}
		}
		c, err := n.fork(closing, d)
		if err == nil {
			d.host.Add(c)
			return answer{capsule: c}, n
		}
		failed = errors.Join(err, n.Close())
		n = nil
	}
	return answer{err: failed}, nil
}

func (d *Driver) startNursery(ctx context.Context) (*nursery, error) {
	bwrap, err := d.host.LookPath()
	if err != nil {
		return nil, err
	}
	slot, err := d.host.Slots.Take()
	if err != nil {
		return nil, err
	}
	return startNursery(ctx, d, bwrap, slot)
}

// Languages are those whose programs the root has.
func (d *Driver) Languages() []sandbox.Language { return d.host.Languages() }

// Close kills every interpreter and the fork-server.
func (d *Driver) Close() error { return d.host.Close() }
