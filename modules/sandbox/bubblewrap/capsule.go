package bubblewrap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/guest"
)

// goneTimeout bounds the wait for a killed tree. The kernel needs
// milliseconds; more means that a process hangs inside it.
const goneTimeout = 10 * time.Second

// capsule implements sandbox.Capsule.
type capsule struct {
	driver  *Driver
	session guest.Session

	cmd    *exec.Cmd
	init   *guest.Process // process 1 of the sandbox; its end is the tree's end
	exited chan struct{}  // closed when cmd was waited for

	mu     sync.Mutex // held while starting and while closing
	closed bool
	err    error
}

// Run implements sandbox.Capsule.
func (c *capsule) Run(ctx context.Context, job sandbox.Job) (sandbox.Result, error) {
	return c.session.Run(ctx, job)
}

// Exited implements guest.Tree.
func (c *capsule) Exited() <-chan struct{} { return c.exited }

// ExitCode implements guest.Tree: that of the program, which bwrap passes on.
func (c *capsule) ExitCode() int { return c.cmd.ProcessState.ExitCode() }

// Kill implements guest.Tree.
func (c *capsule) Kill() error {
	if c.cmd == nil || c.cmd.Process == nil {
		return nil
	}
	if c.init == nil {
		c.init = c.findInit()
	}
	if c.init != nil {
		c.init.Kill()
	}
	_ = c.cmd.Process.Kill() // fails when it ended already
	timer := time.NewTimer(goneTimeout)
	defer timer.Stop()
	select {
	case <-c.exited:
	case <-timer.C:
		return errors.New("sandbox: bubblewrap does not end")
	}
	if c.init == nil {
		return nil // bubblewrap died before it made the sandbox
	}
	return c.init.Gone(goneTimeout)
}

// findInit finds process 1 of a sandbox that is ended before bwrap told about
// it. bwrap is stopped meanwhile: one that it made a moment later would not
// yet end with it.
func (c *capsule) findInit() *guest.Process {
	pid := c.cmd.Process.Pid
	if c.cmd.Process.Signal(syscall.SIGSTOP) != nil {
		return nil // it has ended, and was waited for
	}
	list, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return nil
	}
	child, err := strconv.Atoi(strings.TrimSpace(string(list)))
	if err != nil {
		return nil // none yet
	}
	p, err := guest.OpenProcess(child)
	if err != nil {
		return nil // gone already
	}
	return p
}

// Close implements sandbox.Capsule.
func (c *capsule) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.err
	}
	c.closed = true
	c.session.Retire()
	c.err = c.Kill()
	if c.init != nil {
		c.init.Close()
	}
	c.err = errors.Join(c.err, c.session.Close())
	c.driver.forget(c)
	return c.err
}
