package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"

	"github.com/portico-run/portico/modules/sandbox"
)

// Config says where a driver finds what it needs. Only Root has no default.
type Config struct {
	// Program is what isolates: bubblewrap or, for gVisor, runsc. Default: that
	// of the PATH.
	Program string
	// Root is the folder that tools/sandbox-root.sh built; see DefaultRoot.
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

// Host is what every driver takes from the machine when it opens, and the list
// of what must be gone when it closes.
type Host struct {
	Config
	Filters [][]byte // for the system calls of every program
	// Set by Open.
	Slots   *Slots
	Groups  *Groups // nil where the machine has none for us
	Spawner *Spawner
	Poller  *Poller
	Runtime string // where the host keeps the guest's runtime

	compile  sync.Mutex
	compiled string // where it has bytecode, when somebody needed it

	name    string
	closing context.Context //nolint:containedctx // ends when Close begins
	cancel  context.CancelFunc

	mu       sync.Mutex
	open     bool
	capsules map[io.Closer]struct{}
	work     sync.WaitGroup
}

// NewHost returns a host that took nothing yet, for the driver of this name. It
// fails on limits no program can work under, and on an architecture without
// system-call filters.
func NewHost(name, program string, c Config) (*Host, error) {
	if c.Program == "" {
		c.Program = program
	}
	if c.RunDir == "" {
		c.RunDir = os.TempDir()
	}
	c.Limits = c.Limits.WithDefaults()
	if err := c.Limits.Validate(); err != nil {
		return nil, err
	}
	f, err := filters()
	if err != nil {
		return nil, err
	}
	h := &Host{Config: c, Filters: f, name: name, capsules: map[io.Closer]struct{}{}}
	h.closing, h.cancel = context.WithCancel(context.Background())
	return h, nil
}

// LookPath finds the program that isolates.
func (h *Host) LookPath() (string, error) {
	path, err := exec.LookPath(h.Program)
	if err != nil {
		return "", fmt.Errorf("%s driver: %w", h.name, err)
	}
	return path, nil
}

// Languages are those whose programs the root has.
func (h *Host) Languages() []sandbox.Language {
	return slices.DeleteFunc(sandbox.Languages(), func(l sandbox.Language) bool {
		_, err := os.Stat(filepath.Join(h.Root, program(l)))
		return err != nil
	})
}

// program is what runs a language, below the root.
func program(l sandbox.Language) string {
	switch l {
	case sandbox.Bash:
		return "usr/bin/bash"
	case sandbox.JavaScript:
		return "usr/bin/node"
	case sandbox.TypeScript:
		return "opt/portico/typescript" // a link to node where that takes types out
	}
	return "usr/bin/python3"
}

// Open makes the folder and removes what servers that are gone left there.
func (h *Host) Open() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open || h.closing.Err() != nil {
		return fmt.Errorf("%s driver: opened twice", h.name)
	}
	if err := keepDescriptors(); err != nil {
		return err
	}
	s, err := OpenSlots(h.RunDir)
	if err != nil {
		return err
	}
	if h.Runtime, err = s.Install(); err != nil {
		return err
	}
	if h.Poller, err = NewPoller(); err != nil {
		return err
	}
	h.Slots, h.Groups, h.Spawner, h.open = s, OpenGroups(), newSpawner(), true
	return nil
}

// Begin counts a start, which done ends. Its context ends with the host, too.
func (h *Host) Begin(ctx context.Context) (started context.Context, done func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.open {
		return nil, nil, fmt.Errorf("%s driver: not open", h.name)
	}
	h.work.Add(1)
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(h.closing, cancel)
	return ctx, func() {
		stop()
		cancel()
		h.work.Done()
	}, nil
}

// Go runs work that ends when its context does. It is called between Open and
// Close, by whoever has begun a start, or from Open.
func (h *Host) Go(work func(closing context.Context)) {
	h.work.Go(func() { work(h.closing) })
}

// Add takes in a capsule that Close has to close if nobody else does.
func (h *Host) Add(c io.Closer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.capsules[c] = struct{}{}
}

// Forget drops a capsule that is gone.
func (h *Host) Forget(c io.Closer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.capsules, c)
}

// Close ends all starts and all work, and closes every capsule.
func (h *Host) Close() error {
	h.mu.Lock()
	if !h.open {
		h.mu.Unlock()
		return nil
	}
	h.open = false
	h.cancel()
	h.mu.Unlock()
	h.work.Wait()

	h.mu.Lock()
	left := slices.Collect(maps.Keys(h.capsules))
	h.mu.Unlock()
	var failed []error
	for _, c := range left {
		failed = append(failed, c.Close())
	}
	h.Spawner.Stop()
	return errors.Join(append(failed, h.Poller.Close())...)
}
