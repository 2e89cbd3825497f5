package bubblewrap

import (
	"os/exec"
	"runtime"
)

// spawner starts processes from one operating-system thread that lives as long
// as the driver. The kernel sends a child its parent-death signal when the
// thread that forked it ends, not the process, and Go is free to end threads;
// sandboxes that die with the server must not die with some thread of it.
type spawner struct {
	work chan func()
	done chan struct{}
}

func newSpawner() *spawner {
	s := &spawner{work: make(chan func()), done: make(chan struct{})}
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

// start starts cmd. It must not be called after stop.
func (s *spawner) start(cmd *exec.Cmd) error {
	result := make(chan error, 1)
	s.work <- func() { result <- cmd.Start() }
	return <-result
}

// stop ends the thread. The children it started die with it.
func (s *spawner) stop() {
	close(s.work)
	<-s.done
}
