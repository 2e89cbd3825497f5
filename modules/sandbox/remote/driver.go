package remote

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/portico-run/portico/internal/lifecycle"
	"github.com/portico-run/portico/modules/sandbox"
)

// Deps is what the driver needs.
type Deps struct {
	Nodes  Nodes
	Client *Client
	// Output is how much of each output a node may send of a program; sandbox.Limits has
	// what is usual. Nodes have the other limits.
	Output int64
	Logger *slog.Logger
}

// Driver runs programs on nodes. It implements sandbox.Driver.
type Driver struct {
	deps Deps

	mu     sync.Mutex
	opened bool
	closed bool
	open   map[*capsule]struct{}
}

// New returns a driver that is connected to nobody.
func New(d Deps) *Driver {
	d.Output = sandbox.Limits{Output: d.Output}.WithDefaults().Output
	return &Driver{deps: d, open: map[*capsule]struct{}{}}
}

var errClosed = errors.New("the driver of sandbox nodes is closed")

// Open implements sandbox.Driver. Where no node answers, programs say so.
func (d *Driver) Open(ctx context.Context) error {
	d.mu.Lock()
	again := d.opened
	d.opened = true
	d.mu.Unlock()
	if again {
		return errors.New("the driver of sandbox nodes was opened before")
	}
	if s, ok := d.deps.Nodes.(lifecycle.Service); ok {
		return s.Start(ctx)
	}
	return nil
}

// Start implements sandbox.Driver. Which node a program comes to is decided when it is
// there, since owners have nodes of their own.
func (d *Driver) Start(context.Context) (sandbox.Capsule, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || !d.opened {
		return nil, errClosed
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &capsule{driver: d, ended: ctx, end: cancel}
	d.open[c] = struct{}{}
	return c, nil
}

// Languages implements sandbox.Driver: those of the node that was asked last, for all
// nodes are made of one image; before any answered, all that there are.
func (d *Driver) Languages() []sandbox.Language {
	d.deps.Client.mu.Lock()
	defer d.deps.Client.mu.Unlock()
	if d.deps.Client.languages == nil {
		return sandbox.Languages()
	}
	return d.deps.Client.languages
}

// Close implements sandbox.Driver.
func (d *Driver) Close() error {
	d.mu.Lock()
	d.closed = true
	left := d.open
	d.open = map[*capsule]struct{}{}
	started := d.opened
	d.mu.Unlock()
	var failed []error
	for c := range left {
		failed = append(failed, c.Close())
	}
	if s, ok := d.deps.Nodes.(lifecycle.Service); ok && started {
		failed = append(failed, s.Stop(context.Background()))
	}
	d.deps.Client.Close()
	return errors.Join(failed...)
}

func (d *Driver) forget(c *capsule) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.open, c)
}
