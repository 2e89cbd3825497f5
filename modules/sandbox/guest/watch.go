package guest

import (
	"bufio"
	"bytes"
	"fmt"
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

// watch measures what no limit of the kernel bounds for a whole sandbox
// without control groups: the memory of all its processes and files together,
// the number of its files, and its processor time. It holds nothing open: it
// looks through process 1 of the sandbox, which no program can stand in for.
type watch struct {
	init *Process
	idle int64 // memory of the interpreter that waits
}

// Measure implements Meter. It adds up all files and, as far as they are asked
// for, all processes: their memory, each page shared between several counted
// once, and their processor time. Processes that end meanwhile are left out;
// their processor time is in that of whoever waited for them.
func (w *watch) Measure(memory, cpu bool) Measurement {
	var m Measurement
	// A program can move none of these: they are mounted where it may not write.
	for _, dir := range []string{"/tmp", sandbox.WorkDir, "/dev/shm"} {
		var s unix.Statfs_t
		if err := unix.Statfs(w.init.inside(dir), &s); err != nil {
			continue
		}
		m.Memory += int64(s.Blocks-s.Bfree) * s.Bsize
		m.Files = max(m.Files, s.Files-s.Ffree)
	}
	if memory || cpu {
		w.processes(&m, memory, cpu)
	}
	if !w.init.alive() {
		return Measurement{} // the number may be another process' since
	}
	if memory {
		m.Memory -= w.idle
	}
	return m
}

// processes adds up all processes.
func (w *watch) processes(m *Measurement, memory, cpu bool) {
	proc, err := os.OpenRoot(w.init.inside("/proc"))
	if err != nil {
		return
	}
	defer proc.Close()
	list, err := proc.Open(".")
	if err != nil {
		return
	}
	names, err := list.Readdirnames(-1) // not ReadDir, which looks at each of them
	list.Close()
	if err != nil {
		return
	}
	for _, name := range names {
		if _, err := strconv.Atoi(name); err != nil {
			continue
		}
		if memory {
			if rollup, err := proc.ReadFile(name + "/smaps_rollup"); err == nil {
				m.Memory += pss(rollup)
			}
		}
		if cpu {
			if stat, err := proc.ReadFile(name + "/stat"); err == nil {
				m.CPU += ProcessorTime(stat)
			}
		}
	}
}

// memorySlack is how far a program may be above its limit for the whole
// sandbox, in bytes. It lets the limit for one process bite first, which the
// program can handle.
const memorySlack = 32 << 20

// judge returns an empty status while the job is within its limits, and a line
// for the program's author otherwise.
func (m Measurement) judge(l sandbox.Limits) (sandbox.Status, string) {
	switch {
	case m.Files > uint64(l.Inodes):
		return sandbox.Killed, fmt.Sprintf("[killed: more than %d files in one folder tree]", l.Inodes)
	case m.Memory > l.Memory+memorySlack:
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

// ProcessorTime reads, from a stat file, the time that a process and the children it
// waited for used.
func ProcessorTime(stat []byte) time.Duration {
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

// Close implements Meter.
func (*watch) Close() {}
