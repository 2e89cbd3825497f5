package guest

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Process is a handle on process 1 of a sandbox. Unlike a number it can never
// come to mean another process.
type Process struct {
	handle *os.File
	number int
}

// OpenProcess takes a handle on a process by its number.
func OpenProcess(pid int) (*Process, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("open process 1 of the sandbox: %w", err)
	}
	return &Process{handle: os.NewFile(uintptr(fd), "process"), number: pid}, nil
}

// Kill kills it, and with it, being process 1, everything in its namespace.
func (p *Process) Kill() {
	_ = unix.PidfdSendSignal(int(p.handle.Fd()), unix.SIGKILL, nil, 0) // fails only when it is gone
}

// Gone returns when the process ended; the kernel ends process 1 last.
func (p *Process) Gone(timeout time.Duration) error {
	for deadline := time.Now().Add(timeout); ; {
		left := time.Until(deadline)
		if left <= 0 {
			return errors.New("sandbox: processes do not end")
		}
		fds := []unix.PollFd{{Fd: int32(p.handle.Fd()), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, int(left.Milliseconds())+1)
		if n > 0 {
			return nil
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("sandbox: wait for the end: %w", err)
		}
	}
}

// Close gives the handle back.
func (p *Process) Close() {
	p.handle.Close()
}

// Ended calls f, in a goroutine of its own, when the process ended: nothing of
// its namespace runs then.
func (p *Process) Ended(poller *Poller, f func()) error {
	_, err := poller.Watch(p.handle, func() bool {
		f()
		return false
	})
	return err
}

// inside is how the host writes a path of the process' own file systems. It may
// mean those of another process once this one is gone; see alive.
func (p *Process) inside(path string) string { return fmt.Sprintf("/proc/%d/root%s", p.number, path) }

// alive reports whether the process has not ended, so that what was found inside
// before is its own.
func (p *Process) alive() bool {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(p.handle.Fd()), Events: unix.POLLIN}}, 0)
		if !errors.Is(err, unix.EINTR) {
			return n == 0 && err == nil
		}
	}
}
