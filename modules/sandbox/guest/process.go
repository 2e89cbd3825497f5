package guest

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Process is a handle on process 1 of a sandbox. Unlike a number it can never
// come to mean another process.
type Process struct {
	fd int
}

// OpenProcess takes a handle on a process by its number.
func OpenProcess(pid int) (*Process, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("open process 1 of the sandbox: %w", err)
	}
	return &Process{fd}, nil
}

// Kill kills it, and with it, being process 1, everything in its namespace.
func (p *Process) Kill() {
	_ = unix.PidfdSendSignal(p.fd, unix.SIGKILL, nil, 0) // fails only when it is gone
}

// Gone returns when the process ended; the kernel ends process 1 last.
func (p *Process) Gone(timeout time.Duration) error {
	for deadline := time.Now().Add(timeout); ; {
		left := time.Until(deadline)
		if left <= 0 {
			return errors.New("sandbox: processes do not end")
		}
		fds := []unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}
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
	_ = unix.Close(p.fd)
}
