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
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"sync"

	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/guest"
)

// Config says where the driver finds what it needs. Only Root has no default.
type Config struct {
	// Bwrap is the bubblewrap program. Default: bwrap, searched in PATH.
	Bwrap string
	// Root is the folder that tools/sandbox-root.sh built; see
	// guest.DefaultRoot.
	Root string
	// RunDir is the parent of the driver's own folder. With the server running
	// as root it must be one that any user can traverse. The path must be
	// short, because that of a Unix socket may have 107 bytes. Default: the
	// system's folder for temporary files.
	RunDir string
	// Limits bound each job.
	Limits sandbox.Limits
	// Preload are the Python modules that a waiting interpreter has imported.
	Preload []string
}

// withDefaults fills what is empty.
func (c Config) withDefaults() Config {
	if c.Bwrap == "" {
		c.Bwrap = "bwrap"
	}
	c.RunDir = guest.RunDir(c.RunDir)
	c.Limits = c.Limits.WithDefaults()
	return c
}

// DefaultPreload are the modules that programs use most and that do not take
// long to import.
func DefaultPreload() []string { return []string{"numpy", "pandas"} }

// Driver implements sandbox.Driver.
type Driver struct {
	config  Config
	filters [][]byte

	closing context.Context //nolint:containedctx // ends when Close begins
	close   context.CancelFunc

	mu       sync.Mutex
	open     bool
	spawner  *guest.Spawner
	slots    *guest.Slots
	groups   *guest.Groups // nil where the machine has none for us
	runtime  string        // where the host keeps the guest's runtime
	capsules map[*capsule]struct{}
	starting sync.WaitGroup
}

// New returns a driver that did nothing yet. It fails on limits no program can
// work under, and on an architecture without system-call filters.
func New(c Config) (*Driver, error) {
	c = c.withDefaults()
	if err := c.Limits.Validate(); err != nil {
		return nil, err
	}
	f, err := guest.Filters()
	if err != nil {
		return nil, err
	}
	d := &Driver{config: c, filters: f, capsules: map[*capsule]struct{}{}}
	d.closing, d.close = context.WithCancel(context.Background())
	return d, nil
}

// Open makes the driver's folder below RunDir and removes the slots of servers
// that are gone.
func (d *Driver) Open(context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open || d.closing.Err() != nil {
		return errors.New("bubblewrap driver: opened twice")
	}
	if err := guest.KeepDescriptors(); err != nil {
		return err
	}
	s, err := guest.OpenSlots(d.config.RunDir)
	if err != nil {
		return err
	}
	if d.runtime, err = s.Install(); err != nil {
		return err
	}
	d.slots, d.groups, d.spawner, d.open = s, guest.OpenGroups(), guest.NewSpawner(), true
	return nil
}

// Start makes an interpreter. The error says what the machine lacks; Check
// says it in more words.
func (d *Driver) Start(ctx context.Context) (sandbox.Capsule, error) {
	bwrap, err := exec.LookPath(d.config.Bwrap)
	if err != nil {
		return nil, fmt.Errorf("bubblewrap is not installed: %w", err)
	}
	c, err := d.take()
	if err != nil {
		return nil, err
	}
	defer d.starting.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.closing, cancel)() //nolint:contextcheck // the driver may end before the caller
	if err := c.start(ctx, bwrap); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// take makes a capsule that is not started yet, and counts its start.
func (d *Driver) take() (*capsule, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.open {
		return nil, errors.New("bubblewrap driver: not open")
	}
	s, err := d.slots.Take()
	if err != nil {
		return nil, err
	}
	c := &capsule{driver: d}
	c.session.Slot, c.session.Limits = s, d.config.Limits
	d.capsules[c] = struct{}{}
	d.starting.Add(1)
	return c, nil
}

// Close kills every interpreter and removes their slots.
func (d *Driver) Close() error {
	d.mu.Lock()
	if !d.open {
		d.mu.Unlock()
		return nil
	}
	d.open = false
	d.close()
	d.mu.Unlock()
	d.starting.Wait()

	d.mu.Lock()
	left := slices.Collect(maps.Keys(d.capsules))
	d.mu.Unlock()
	var failed []error
	for _, c := range left {
		failed = append(failed, c.Close())
	}
	d.spawner.Stop()
	return errors.Join(failed...)
}

// forget drops a capsule that is gone.
func (d *Driver) forget(c *capsule) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.capsules, c)
}
