// Package gvisor runs each job in a sandbox with a kernel of its own: gVisor's,
// a program that answers the system calls of the job and makes few of its own,
// themselves filtered. It is the strict tier: slower to start and larger than
// the others, and a hole in the host's kernel is not a hole in it.
//
// Under a server that runs as root, sandboxes come back from a saved image in
// which an interpreter has imported what programs need. gVisor saves nothing
// for other users; theirs start from nothing each time, as in package
// bubblewrap. Sandboxes of one image share the layout of their addresses and
// the seed of Python's hashes, both of which a program can learn about itself.
package gvisor

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"sync"

	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/guest"
)

// DefaultPreload are the modules that programs use most.
func DefaultPreload() []string {
	return []string{"http.client", "numpy", "pandas", "matplotlib.pyplot"}
}

// Driver implements sandbox.Driver.
type Driver struct {
	greeting []byte // what the supervisor is told before it makes the program's process
	host     *guest.Host

	mu      sync.Mutex
	image   *making // nil until somebody needs it
	holding []*os.File
}

// New returns a driver that did nothing yet. It fails on limits no program can
// work under, and on an architecture without system-call filters.
func New(c guest.Config) (*Driver, error) {
	h, err := guest.NewHost("gVisor", "runsc", c)
	if err != nil {
		return nil, err
	}
	// In JSON, bytes are base64.
	body, err := json.Marshal(map[string]any{"filters": h.Filters, "disk": h.Limits.Disk, "inodes": h.Limits.Inodes})
	if err != nil {
		return nil, err
	}
	return &Driver{host: h, greeting: append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)}, nil
}

// Open makes the driver's folder below RunDir and removes the slots of servers
// that are gone.
func (d *Driver) Open(context.Context) error { return d.host.Open() }

// Start makes a sandbox. The first of a driver waits for the image.
func (d *Driver) Start(ctx context.Context) (sandbox.Capsule, error) {
	runsc, err := d.host.LookPath()
	if err != nil {
		return nil, err
	}
	ctx, done, err := d.host.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	image := ""
	if os.Geteuid() == 0 {
		if image, err = d.saved(ctx, runsc); err != nil {
			return nil, err
		}
	}
	slot, err := d.host.Slots.Take()
	if err != nil {
		return nil, err
	}
	c := &capsule{driver: d, exited: make(chan struct{}), code: -1}
	c.session = guest.Session{Tree: c, Slot: slot, Limits: d.host.Limits, Addresses: true, Poller: d.host.Poller}
	d.host.Add(c)
	if err := c.start(ctx, runsc, image); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Languages are those whose programs the root has.
func (d *Driver) Languages() []sandbox.Language { return d.host.Languages() }

// Close kills every sandbox and lets go of the image, which stays for the next
// server.
func (d *Driver) Close() error {
	err := d.host.Close()
	for _, f := range d.holding {
		err = errors.Join(err, f.Close())
	}
	d.holding = nil
	return err
}
