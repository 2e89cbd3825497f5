package guest

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portico-run/portico/modules/sandbox"
)

// watchEvery is how often a running job is measured, and restEvery how often
// one that is paused. In between, a program can go over the limits that the
// kernel does not hold by what it manages in this time.
const (
	watchEvery = 100 * time.Millisecond
	restEvery  = time.Second
)

// Watch measures what no limit of the kernel bounds for a whole sandbox
// without control groups: the memory of all its processes and files together,
// the number of its files, and its processor time. It looks through the
// sandbox's own /proc and folders, whose handles are taken before any user
// code runs.
type Watch struct {
	proc *os.Root
	dirs []*os.File // the writable file systems
	work *os.File   // that of them with the program's own files
	idle int64      // memory of the interpreter that waits
}

// OpenWatch looks into the sandbox whose process 1 has this number outside.
func OpenWatch(pid int) (*Watch, error) {
	inside := fmt.Sprintf("/proc/%d/root", pid)
	proc, err := os.OpenRoot(inside + "/proc")
	if err != nil {
		return nil, fmt.Errorf("watch the sandbox: %w", err)
	}
	w := &Watch{proc: proc}
	for _, dir := range []string{"/tmp", sandbox.WorkDir, "/dev/shm"} {
		f, err := os.Open(inside + dir)
		if err != nil {
			w.Close()
			return nil, fmt.Errorf("watch the sandbox: %w", err)
		}
		w.dirs = append(w.dirs, f)
		if dir == sandbox.WorkDir {
			w.work = f
		}
	}
	return w, nil
}

// Idle measures the memory of the interpreter that waits, which does not count
// as the program's; SetIdle takes it from one of the same kind.
func (w *Watch) Idle() int64 {
	w.idle = 0
	w.idle = w.measure(true, false).memory
	return w.idle
}

// SetIdle is Idle for an interpreter whose kind was measured before.
func (w *Watch) SetIdle(memory int64) { w.idle = memory }

// measurement is what a sandbox uses at a moment.
type measurement struct {
	memory int64
	files  uint64 // in the file system that has the most
	cpu    time.Duration
}

// measure adds up all files and, as far as they are asked for, all processes:
// their memory, each page shared between several counted once, and their
// processor time. Processes that end meanwhile are left out; their processor
// time is in that of whoever waited for them.
func (w *Watch) measure(memory, cpu bool) measurement {
	var m measurement
	for _, dir := range w.dirs {
		var s unix.Statfs_t
		if err := unix.Fstatfs(int(dir.Fd()), &s); err != nil {
			continue
		}
		m.memory += int64(s.Blocks-s.Bfree) * s.Bsize
		m.files = max(m.files, s.Files-s.Ffree)
	}
	if !memory && !cpu {
		return m
	}
	entries, err := fs.ReadDir(w.proc.FS(), ".")
	if err != nil {
		return m
	}
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		if memory {
			if rollup, err := w.proc.ReadFile(e.Name() + "/smaps_rollup"); err == nil {
				m.memory += pss(rollup)
			}
		}
		if cpu {
			if stat, err := w.proc.ReadFile(e.Name() + "/stat"); err == nil {
				m.cpu += cpuTime(stat)
			}
		}
	}
	if memory {
		m.memory -= w.idle
	}
	return m
}

// memorySlack is how far a program may be above its limit for the whole
// sandbox, in bytes. It lets the limit for one process bite first, which the
// program can handle.
const memorySlack = 32 << 20

// judge returns an empty status while the job is within its limits, and a line
// for the program's author otherwise.
func (m measurement) judge(l sandbox.Limits) (sandbox.Status, string) {
	switch {
	case m.files > uint64(l.Inodes):
		return sandbox.Killed, fmt.Sprintf("[killed: more than %d files in one folder tree]", l.Inodes)
	case m.memory > l.Memory+memorySlack:
		return sandbox.OutOfMemory, memoryNotice(l)
	}
	return "", ""
}

func memoryNotice(l sandbox.Limits) string {
	return fmt.Sprintf("[killed: more than %d MiB of memory in use]", l.Memory>>20)
}

// clockTicks is how the kernel counts in /proc, on every architecture that
// Go runs on.
const clockTicks = 100

// cpuTime reads, from a stat file, the time that a process and the children it
// waited for used.
func cpuTime(stat []byte) time.Duration {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) // a name can hold anything
	const utime, cstime = 11, 14
	if len(fields) <= cstime {
		return 0
	}
	var ticks int64
	for _, f := range fields[utime : cstime+1] {
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			return 0
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / clockTicks
}

// pss reads the proportional set size, in bytes, from a smaps_rollup file.
func pss(rollup []byte) int64 {
	for lines := bufio.NewScanner(bytes.NewReader(rollup)); lines.Scan(); {
		if rest, ok := bytes.CutPrefix(lines.Bytes(), []byte("Pss:")); ok {
			kb, err := strconv.ParseInt(string(bytes.TrimSpace(bytes.TrimSuffix(rest, []byte("kB")))), 10, 64)
			if err != nil {
				return 0
			}
			return kb << 10
		}
	}
	return 0
}

// Close lets go of the sandbox.
func (w *Watch) Close() {
	w.proc.Close()
	for _, f := range w.dirs {
		f.Close()
	}
}
