package guest

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portico-run/portico/internal/ids"
)

// Groups makes control groups below that of the server: with them the kernel
// itself bounds the memory and the processes of a whole sandbox. Where the
// server may not make any, as an ordinary user may not, a Meter does what it can.
type Groups struct {
	unified bool     // version 2, which has all controllers in one hierarchy
	parents []string // of the groups: one folder in each hierarchy
	name    string   // of this one; a process may have several
	next    atomic.Uint64
}

const (
	groupRoot   = "/sys/fs/cgroup"
	groupFolder = "/portico"
	memoryGroup = "memory"
	pidsGroup   = "pids"
)

// OpenGroups tries to make one. It returns nil where that fails, and removes
// what servers that are gone left.
func OpenGroups() *Groups {
	g := &Groups{name: ids.New(strconv.Itoa(os.Getpid()))}
	g.clear()
	if g.prepare() != nil {
		return nil
	}
	probe, err := g.Take(64<<20, 64)
	if err != nil || probe.Close() != nil {
		return nil
	}
	return g
}

// prepare makes the folders that hold the groups.
func (g *Groups) prepare() error {
	var root unix.Statfs_t
	if err := unix.Statfs(groupRoot, &root); err != nil {
		return fmt.Errorf("control group: %w", err)
	}
	g.unified = root.Type == unix.CGROUP2_SUPER_MAGIC
	controllers := []string{memoryGroup, pidsGroup}
	if g.unified {
		controllers = []string{""}
	}
	for _, c := range controllers {
		own, err := ownGroup(c)
		if err != nil {
			return fmt.Errorf("control group: %w", err)
		}
		parent := filepath.Join(groupRoot, c, own, groupFolder)
		if err := os.MkdirAll(parent, 0o755); err != nil {
			return fmt.Errorf("control group: %w", err)
		}
		g.parents = append(g.parents, parent)
	}
	if g.unified {
		delegate(g.parents[0])
	}
	return nil
}

// ownGroup finds the group of this process, below where the hierarchy of a
// controller is mounted. The unified one has no name.
func ownGroup(controller string) (string, error) {
	lines, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(lines)) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3) // number, controllers, path
		if len(fields) == 3 && slices.Contains(strings.Split(fields[1], ","), controller) && (controller != "" || fields[0] == "0") {
			return mounted(controller, fields[2])
		}
	}
	return "", fs.ErrNotExist
}

// mounted makes the path of a group one below its mount, which in a container
// is not the hierarchy's root.
func mounted(controller, group string) (string, error) {
	if controller == "" {
		return group, nil
	}
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }() // it was only read
	for lines := bufio.NewScanner(file); lines.Scan(); {
		const top, place = 3, 4
		fields := strings.Fields(lines.Text())
		if len(fields) > place && fields[place] == filepath.Join(groupRoot, controller) {
			return filepath.Rel(fields[top], group)
		}
	}
	return "", fs.ErrNotExist
}

// delegate lets the groups in a folder have their own limits. What may not be
// changed may be as it should already; whether it is shows when a group is made.
func delegate(parent string) {
	for folder := groupRoot; ; {
		_ = os.WriteFile(filepath.Join(folder, "cgroup.subtree_control"), []byte("+memory +pids"), 0) // see above
		rest, err := filepath.Rel(folder, parent)
		if err != nil || rest == "." {
			return
		}
		next, _, _ := strings.Cut(rest, "/")
		folder = filepath.Join(folder, next)
	}
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
	folders []string // one in each hierarchy
	events  string   // the file that counts what was killed for its memory
	refused string   // the file that counts processes that were not started
}

// spareProcesses are those of the sandbox itself.
const spareProcesses = 4

// Take makes a group with these limits, in bytes and in processes.
func (g *Groups) Take(memory, processes int64) (*Group, error) {
	name := fmt.Sprintf("%s-%d", g.name, g.next.Add(1))
	made := &Group{}
	for _, parent := range g.parents {
		folder := filepath.Join(parent, name)
		if err := os.Mkdir(folder, 0o755); err != nil {
			return nil, errors.Join(fmt.Errorf("control group: %w", err), made.Close())
		}
		made.folders = append(made.folders, folder)
	}
	first, last := made.folders[0], made.folders[len(made.folders)-1]
	limits := [][3]string{
		{first, "memory.max", strconv.FormatInt(memory, 10)},
		{first, "memory.swap.max", "0"},
		{last, "pids.max", strconv.FormatInt(processes, 10)},
	}
	made.events, made.refused = filepath.Join(first, "memory.events"), filepath.Join(last, "pids.events")
	if !g.unified {
		limits[0][1], limits[1][1] = "memory.limit_in_bytes", "memory.swappiness"
		made.events = filepath.Join(first, "memory.oom_control")
	}
	for _, limit := range limits {
		if err := os.WriteFile(filepath.Join(limit[0], limit[1]), []byte(limit[2]), 0); err != nil {
			return nil, errors.Join(fmt.Errorf("control group: %w", err), made.Close())
		}
	}
	return made, nil
}

// Add puts process 1 of a sandbox into the group, and its children; what they
// start is in it, too. Nothing of the user's may run yet.
func (g *Group) Add(pid int) error {
	if err := g.take(strconv.Itoa(pid)); err != nil {
		return err
	}
	// Those that it starts from here on are in the group. The others are these:
	// to look for them earlier would miss one that starts in between.
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return fmt.Errorf("control group: %w", err)
	}
	for p := range strings.FieldsSeq(string(children)) {
		if err := g.take(p); err != nil {
			return err
		}
	}
	return nil
}

func (g *Group) take(pid string) error {
	for _, folder := range g.folders {
		if err := os.WriteFile(filepath.Join(folder, "cgroup.procs"), []byte(pid), 0); err != nil {
			return fmt.Errorf("control group: %w", err)
		}
	}
	return nil
}

// Killed reports whether the kernel killed something in the group for its
// memory.
func (g *Group) Killed() bool { return counted(g.events, "oom_kill ") }

// Refused reports whether something in the group could not start a process, or a
// thread, because there were as many as there may be.
func (g *Group) Refused() bool { return counted(g.refused, "max ") }

// counted reports whether a file of the kernel's counts something.
func counted(file, what string) bool {
	text, err := os.ReadFile(file)
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		if count, ok := strings.CutPrefix(line, what); ok {
			return strings.TrimSpace(count) != "0"
		}
	}
	return false
}

// Kill ends every process in the group.
func (g *Group) Kill() error {
	text, err := os.ReadFile(filepath.Join(g.folders[0], "cgroup.procs"))
	if err != nil {
		return fmt.Errorf("control group: %w", err)
	}
	for line := range strings.FieldsSeq(string(text)) {
		pid, err := strconv.Atoi(line)
		if err != nil {
			return fmt.Errorf("control group: %w", err)
		}
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("control group: %w", err)
		}
	}
	return nil
}

// Close removes the group. Everything in it must be gone; the kernel may take
// a moment to notice.
func (g *Group) Close() error {
	var err error
	for pause := time.Millisecond; pause < time.Second; pause *= 2 {
		err = nil
		for _, folder := range g.folders {
			if gone := os.Remove(folder); !errors.Is(gone, fs.ErrNotExist) {
				err = errors.Join(err, gone)
			}
		}
		if err == nil {
			return nil
		}
		timer := time.NewTimer(pause)
		<-timer.C
	}
	return fmt.Errorf("control group: %w", err)
}
