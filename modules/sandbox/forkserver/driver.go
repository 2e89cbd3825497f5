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
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/guest"
)

// Config says where the driver finds what it needs.
type Config struct {
	// Bwrap is the bubblewrap program. Default: bwrap, searched in PATH.
	Bwrap string
	// Root is the folder that tools/sandbox-root.sh built.
	Root string
	// RunDir is the parent of the driver's own folder, short and, with the
	// server running as root, one that any user can traverse.
	RunDir string
	// Limits bound each job.
	Limits sandbox.Limits
	// Preload are the Python modules that are imported once, for all.
	Preload []string
}

// DefaultPreload are the modules that programs use most.
func DefaultPreload() []string {
	return []string{"numpy", "pandas", "matplotlib.pyplot"}
}

// Driver implements sandbox.Driver.
type Driver struct {
	config  Config
	filters [][]byte

	closing context.Context //nolint:containedctx // ends when Close begins
	close   context.CancelFunc

	mu       sync.Mutex
	open     bool
	slots    *guest.Slots
	groups   *guest.Groups // nil where the machine has none for us
	spawner  *guest.Spawner
	runtime  string
	capsules map[*capsule]struct{}
	starting sync.WaitGroup

	requests chan request
	work     sync.WaitGroup
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
func New(c Config) (*Driver, error) {
	if c.Bwrap == "" {
		c.Bwrap = "bwrap"
	}
	c.RunDir = guest.RunDir(c.RunDir)
	c.Limits = c.Limits.WithDefaults()
	if err := c.Limits.Validate(); err != nil {
		return nil, err
	}
	filters, err := guest.Filters()
	if err != nil {
		return nil, err
	}
	d := &Driver{config: c, filters: filters, capsules: map[*capsule]struct{}{}, requests: make(chan request)}
	d.closing, d.close = context.WithCancel(context.Background())
	return d, nil
}

// Open makes the driver's folder below RunDir and removes what servers that
// are gone left there.
func (d *Driver) Open(context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open || d.closing.Err() != nil {
		return errors.New("fork-server driver: opened twice")
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
	d.work.Go(d.serve)
	return nil
}

// Start forks an interpreter. The first waits for the fork-server.
func (d *Driver) Start(ctx context.Context) (sandbox.Capsule, error) {
	d.mu.Lock()
	if !d.open {
		d.mu.Unlock()
		return nil, errors.New("fork-server driver: not open")
	}
	d.starting.Add(1)
	d.mu.Unlock()
	defer d.starting.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.closing, cancel)() //nolint:contextcheck // the driver may end before the caller

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
		d.starting.Go(func() {
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
func (d *Driver) serve() {
	var n *nursery
	defer func() {
		if n != nil {
			_ = n.Close() // its children are closed, and reported, before
		}
	}()
	n, _ = d.startNursery(d.closing) // a request tries again, and is told why
	for {
		select {
		case r := <-d.requests:
			var a answer
			if r.ctx.Err() == nil {
				a, n = d.fork(n)
			} else {
				a.err = r.ctx.Err()
			}
			r.answer <- a
		case <-d.closing.Done():
			return
		}
	}
}

// fork makes a child, with a new fork-server if that is what it takes.
func (d *Driver) fork(n *nursery) (answer, *nursery) {
	var failed error
	for range 2 {
		if n == nil {
			var err error
			if n, err = d.startNursery(d.closing); err != nil {
				return answer{err: err}, nil
			}
		}
		c, err := n.fork(d.closing, d)
		if err == nil {
			d.mu.Lock()
			d.capsules[c] = struct{}{}
			d.mu.Unlock()
			return answer{capsule: c}, n
		}
		failed = errors.Join(err, n.Close())
		n = nil
	}
	return answer{err: failed}, nil
}

func (d *Driver) startNursery(ctx context.Context) (*nursery, error) {
	bwrap, err := exec.LookPath(d.config.Bwrap)
	if err != nil {
		return nil, fmt.Errorf("bubblewrap is not installed: %w", err)
	}
	slot, err := d.slots.Take()
	if err != nil {
		return nil, err
	}
	return startNursery(ctx, d, bwrap, slot)
}

// Close kills every interpreter and the fork-server.
func (d *Driver) Close() error {
	d.mu.Lock()
	if !d.open {
		d.mu.Unlock()
		return nil
	}
	d.open = false
	d.close()
	d.mu.Unlock()
	d.work.Wait()
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

func (d *Driver) forget(c *capsule) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.capsules, c)
}
