package guest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/containerd/cgroups/v3"
	"github.com/containerd/cgroups/v3/cgroup1"
	"github.com/containerd/cgroups/v3/cgroup2"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/portico-run/portico/internal/ids"
)

// Groups makes control groups below that of the server: with them the kernel
// itself bounds the memory and the processes of a whole sandbox. Where the
// server may not make any, as an ordinary user may not, a Meter does what it can.
type Groups struct {
	unified bool
	name    string // of this one; a process may have several
	next    atomic.Uint64
}

const (
	groupRoot   = "/sys/fs/cgroup"
	groupFolder = "/portico"
)

// OpenGroups tries to make one. It returns nil where that fails, and removes
// what servers that are gone left.
func OpenGroups() *Groups {
	g := &Groups{unified: cgroups.Mode() == cgroups.Unified, name: ids.New(strconv.Itoa(os.Getpid()))}
	g.clear()
	probe, err := g.Take(64<<20, 64)
	if err != nil || probe.Close() != nil {
		return nil
	}
	return g
}

// clear removes the groups of processes that are gone. A group in which
// something still runs cannot be removed, and is not.
func (g *Groups) clear() {
	folders, _ := filepath.Glob(groupRoot + "/*" + groupFolder)                                               // the pattern is valid
	for _, pattern := range []string{groupRoot, groupRoot + "/*", groupRoot + "/*/*", groupRoot + "/*/*/*"} { // where servers are
		more, _ := filepath.Glob(pattern + groupFolder)
		folders = append(folders, more...)
	}
	for _, folder := range folders {
		entries, err := os.ReadDir(folder)
		if err != nil {
			continue
		}
		for _, e := range entries {
			owner, _, _ := strings.Cut(e.Name(), "-")
			if pid, err := strconv.Atoi(owner); err == nil && errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
				_ = os.Remove(filepath.Join(folder, e.Name())) // see above
			}
		}
	}
}

// Group bounds one sandbox.
type Group struct {
	add    func(pid uint64) error
	killed func() bool
	remove func() error
}

// Take makes a group with these limits, in bytes and in processes.
func (g *Groups) Take(memory, processes int64) (*Group, error) {
	name := fmt.Sprintf("%s/%s-%d", groupFolder, g.name, g.next.Add(1))
	if g.unified {
		return unified(name, memory, processes)
	}
	return legacy(name, memory, processes)
}

// spareProcesses are those of the sandbox itself.
const spareProcesses = 4

func unified(name string, memory, processes int64) (*Group, error) {
	path, err := cgroup2.NestedGroupPath(name)
	if err != nil {
		return nil, fmt.Errorf("control group: %w", err)
	}
	none := int64(0)
	m, err := cgroup2.NewManager(groupRoot, path, &cgroup2.Resources{
		Memory: &cgroup2.Memory{Max: &memory, Swap: &none}, Pids: &cgroup2.Pids{Max: processes},
	})
	if err != nil {
		return nil, fmt.Errorf("control group: %w", err)
	}
	return &Group{
		add:    m.AddProc,
		killed: killedIn(filepath.Join(groupRoot, path, "memory.events")),
		remove: m.Delete,
	}, nil
}

func legacy(name string, memory, processes int64) (*Group, error) {
	none := uint64(0)
	memory1, place := cgroup1.NewMemory(groupRoot), cgroup1.NestedPath(name)
	folder, err := place(cgroup1.Memory)
	if err != nil {
		return nil, fmt.Errorf("control group: %w", err)
	}
	c, err := cgroup1.New(place, &specs.LinuxResources{
		Memory: &specs.LinuxMemory{Limit: &memory, Swappiness: &none}, Pids: &specs.LinuxPids{Limit: &processes},
	}, cgroup1.WithHierarchy(func() ([]cgroup1.Subsystem, error) {
		return []cgroup1.Subsystem{memory1, cgroup1.NewPids(groupRoot)}, nil
	}))
	if err != nil {
		return nil, fmt.Errorf("control group: %w", err)
	}
	return &Group{
		add:    func(pid uint64) error { return c.AddProc(pid) },
		killed: killedIn(filepath.Join(memory1.Path(folder), "memory.oom_control")),
		remove: c.Delete,
	}, nil
}

// killedIn reads one number of a file: the library reads a dozen files for it.
func killedIn(file string) func() bool {
	return func() bool {
		text, err := os.ReadFile(file)
		if err != nil {
			return false
		}
		for line := range strings.Lines(string(text)) {
			if count, ok := strings.CutPrefix(line, "oom_kill "); ok {
				return strings.TrimSpace(count) != "0"
			}
		}
		return false
	}
}

// Add puts process 1 of a sandbox into the group, and its children; what they
// start is in it, too. Nothing of the user's may run yet.
func (g *Group) Add(pid int) error {
	pids := []string{strconv.Itoa(pid)}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return fmt.Errorf("control group: %w", err)
	}
	for _, p := range append(pids, strings.Fields(string(children))...) {
		number, err := strconv.ParseUint(p, 10, 64)
		if err != nil {
			return fmt.Errorf("control group: %w", err)
		}
		if err := g.add(number); err != nil {
			return fmt.Errorf("control group: %w", err)
		}
	}
	return nil
}

// Killed reports whether the kernel killed something in the group for its
// memory.
func (g *Group) Killed() bool { return g.killed() }

// Close removes the group. Everything in it must be gone; the kernel may take
// a moment to notice.
func (g *Group) Close() error {
	var err error
	for pause := time.Millisecond; pause < time.Second; pause *= 2 {
		if err = g.remove(); err == nil {
			return nil
		}
		timer := time.NewTimer(pause)
		<-timer.C
	}
	return fmt.Errorf("control group: %w", err)
}
