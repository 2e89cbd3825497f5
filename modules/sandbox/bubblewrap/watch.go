package bubblewrap

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

// watchEvery is how often a running job is measured. In between, a program can
// go over its limits by what it manages in this time.
const watchEvery = 100 * time.Millisecond

// watch measures what no limit of the kernel bounds for a whole sandbox
// without control groups: the memory of all its processes and files together,
// and the number of its files. It looks through the sandbox's own /proc and
// folders, whose handles are taken before any user code runs.
type watch struct {
	proc *os.Root
	dirs []*os.File // the writable file systems
	work *os.File   // that of them with the program's own files
}

func openWatch(pid int) (*watch, error) {
	inside := fmt.Sprintf("/proc/%d/root", pid)
	proc, err := os.OpenRoot(inside + "/proc")
	if err != nil {
		return nil, fmt.Errorf("watch the sandbox: %w", err)
	}
	w := &watch{proc: proc}
	for _, dir := range []string{"/tmp", sandbox.WorkDir, "/dev/shm"} {
		f, err := os.Open(inside + dir)
		if err != nil {
			w.close()
			return nil, fmt.Errorf("watch the sandbox: %w", err)
		}
		w.dirs = append(w.dirs, f)
		if dir == sandbox.WorkDir {
			w.work = f
		}
	}
	return w, nil
}

// check returns an empty status while the job is within its limits, and a line
// for the program's author otherwise.
func (w *watch) check(l sandbox.Limits) (sandbox.Status, string) {
	memory := w.memory()
	for _, dir := range w.dirs {
		var s unix.Statfs_t
		if err := unix.Fstatfs(int(dir.Fd()), &s); err != nil {
			continue
		}
		memory += int64(s.Blocks-s.Bfree) * s.Bsize
		if files := s.Files - s.Ffree; files > uint64(l.Inodes) {
			return sandbox.Killed, fmt.Sprintf("[killed: more than %d files in one folder tree]", l.Inodes)
		}
	}
	if memory > l.Memory {
		return sandbox.OutOfMemory, fmt.Sprintf("[killed: more than %d MiB of memory in use]", l.Memory>>20)
	}
	return "", ""
}

// memory is the sum over all processes, each page shared between several
// counted once. Processes that end meanwhile are left out.
func (w *watch) memory() int64 {
	entries, err := fs.ReadDir(w.proc.FS(), ".")
	if err != nil {
		return 0
	}
	var sum int64
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		rollup, err := w.proc.ReadFile(e.Name() + "/smaps_rollup")
		if err != nil {
			continue
		}
		sum += pss(rollup)
	}
	return sum
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

func (w *watch) close() {
	w.proc.Close()
	for _, f := range w.dirs {
		f.Close()
	}
}
