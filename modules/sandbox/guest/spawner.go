package guest

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// Spawner starts processes from one operating-system thread that lives as long
// as the driver. The kernel sends a child its parent-death signal when the
// thread that forked it ends, not the process, and Go is free to end threads;
// sandboxes that die with the server must not die with some thread of it.
type Spawner struct {
	work chan func()
	done chan struct{}
}

// newSpawner starts the thread.
func newSpawner() *Spawner {
	s := &Spawner{work: make(chan func()), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for f := range s.work {
			f()
		}
	}()
	return s
}

// Start starts cmd. It must not be called after Stop.
func (s *Spawner) Start(cmd *exec.Cmd) error {
	result := make(chan error, 1)
	s.work <- func() { result <- cmd.Start() }
	return <-result
}

// Stop ends the thread. The children it started die with it.
func (s *Spawner) Stop() {
	close(s.work)
	<-s.done
}

// keepDescriptors makes what this process inherited from whoever started it
// end with it: Go closes what it opened itself in the programs it starts, and
// nothing else.
func keepDescriptors() error {
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("descriptors: %w", err)
	}
	for _, entry := range open {
		if n, err := strconv.Atoi(entry.Name()); err == nil && n > 2 {
			unix.CloseOnExec(n)
		}
	}
	return nil
}
