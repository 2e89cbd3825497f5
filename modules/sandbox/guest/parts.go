package guest

import (
	"context"
	"time"

	"github.com/portico-run/portico/modules/sandbox"
)

// Tree is the processes of one sandbox.
type Tree interface {
	// Exited is closed when the program has ended.
	Exited() <-chan struct{}
	// ExitCode is the program's, or below zero when it did not get to one.
	ExitCode() int
	// Stop ends the program and what it started, and returns when nothing of
	// it runs.
	Stop() error
	// Kill ends every process and returns when there is none.
	Kill() error
}

// Meter measures what a sandbox uses.
type Meter interface {
	// Measure says, as far as it is asked, how much memory the program and its
	// files use, and how much processor time it has used.
	Measure(memory, cpu bool) Measurement
	Close()
}

// Measurement is what a sandbox uses at a moment.
type Measurement struct {
	Memory int64  // bytes, without those of the interpreter that waits
	Files  uint64 // in the file system that has the most
	CPU    time.Duration
}

// Files are those in the program's own folder.
type Files interface {
	// Put writes files, as the program's own.
	Put(ctx context.Context, files []sandbox.File) error
	// Take reads the regular files, in the order of their names, within
	// limits, when nothing of the program runs. It counts what it leaves out.
	Take(limit sandbox.Collect) (files []sandbox.File, dropped int)
	Close()
}
