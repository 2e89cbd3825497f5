// Package bubblewrap runs each job in an interpreter of its own, isolated by
// bubblewrap: new user, mount, process, network, IPC and host-name namespaces,
// a minimal read-only root, no capabilities, system-call filters and resource
// limits. An interpreter runs one job and is thrown away.
//
// What bubblewrap cannot limit, the memory of the whole execution and the
// number of files, the driver watches from outside.
package bubblewrap

import (
	"context"
	"errors"

	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/guest"
)

// DefaultPreload are the modules that programs use most and that do not take
// long to import.
func DefaultPreload() []string { return []string{"http.client", "numpy", "pandas"} }

// Driver implements sandbox.Driver.
type Driver struct {
	host *guest.Host
}

// New returns a driver that did nothing yet. It fails on limits no program can
// work under, and on an architecture without system-call filters.
func New(c guest.Config) (*Driver, error) {
	h, err := guest.NewHost("bubblewrap", "bwrap", c)
	if err != nil {
		return nil, err
	}
	return &Driver{h}, nil
}

// Open makes the driver's folder below RunDir and removes the slots of servers
// that are gone.
func (d *Driver) Open(context.Context) error { return d.host.Open() }

// Start makes an interpreter. The error says what the machine lacks; Check
// says it in more words.
func (d *Driver) Start(ctx context.Context) (sandbox.Capsule, error) {
	bwrap, err := d.host.LookPath()
	if err != nil {
		return nil, err
	}
	ctx, done, err := d.host.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	s, err := d.host.Slots.Take()
	if err != nil {
		return nil, err
	}
	c := &capsule{driver: d}
	c.session.Slot, c.session.Limits, c.session.Poller = s, d.host.Limits, d.host.Poller
	d.host.Add(c)
	if err := c.start(ctx, bwrap); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Languages are those whose programs the root has.
func (d *Driver) Languages() []sandbox.Language { return d.host.Languages() }

// Close kills every interpreter and removes their slots.
func (d *Driver) Close() error { return d.host.Close() }
