package forkserver

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/guest"
)

// goneTimeout bounds the wait for a killed tree.
const goneTimeout = 10 * time.Second

// capsule implements sandbox.Capsule: one child of the fork-server.
type capsule struct {
	driver  *Driver
	session guest.Session

	init   *guest.Process // process 1 of the child's namespace
	code   int            // read after exited
	exited chan struct{}

	once sync.Once
	err  error
}

// open makes the child's descriptors and returns its ends.
func (c *capsule) open() (theirs []*os.File, err error) {
	control, end, err := guest.Channel()
	if err != nil {
		return nil, err
	}
	theirs = append(theirs, end)
	c.session.Control = control
	for _, ours := range []**os.File{&c.session.Stdout, &c.session.Stderr} {
		r, w, err := os.Pipe()
		if err != nil {
			return theirs, err
		}
		*ours = r
		theirs = append(theirs, w)
	}
	// A file, since it is read once: a pipe would be open as long as the child.
	status, err := os.OpenFile(c.session.Slot.Own(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return theirs, err
	}
	theirs = append(theirs, status)
	// The kernel then says who sent what arrives.
	conn, ok := control.(*net.UnixConn)
	if !ok {
		return theirs, errors.New("the control socket is none")
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return theirs, err
	}
	if e := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSCRED, 1) }); e != nil {
		return theirs, e
	}
	return theirs, err
}

// ended reads how the program ended, which process 1 wrote before it did.
func (c *capsule) ended() {
	defer close(c.exited)
	raw, err := os.ReadFile(c.session.Slot.Own())
	if err != nil || len(raw) != 4 {
		return // killed
	}
	status := syscall.WaitStatus(binary.NativeEndian.Uint32(raw))
	switch {
	case status.Exited():
		c.code = status.ExitStatus()
	case status.Signaled():
		c.code = 128 + int(status.Signal())
	}
}

// await waits until the child can take a job.
func (c *capsule) await(ctx context.Context) error {
	pid, err := c.identify(ctx, 'P')
	if err != nil {
		return err
	}
	init, err := guest.OpenProcess(pid)
	if err != nil {
		return err
	}
	if err := init.Ended(c.driver.host.Poller, c.ended); err != nil {
		init.Kill()
		init.Close()
		return err
	}
	c.init = init
	program, err := c.identify(ctx, 'R')
	if err != nil {
		return err
	}
	if err := c.session.Bound(c.driver.host.Groups, pid, program); err != nil {
		return err
	}
	// All children are the same.
	idle, err := c.session.Observe(c.init, c.driver.idle.Load())
	c.driver.idle.Store(idle)
	return err
}

// identify reads the byte that process 1, or the program's, sends first, and
// with it, from the kernel, the number of that process.
func (c *capsule) identify(ctx context.Context, want byte) (pid int, err error) {
	conn, ok := c.session.Control.(*net.UnixConn)
	if !ok {
		return 0, errors.New("the child has no socket")
	}
	_ = conn.SetReadDeadline(time.Now().Add(answerTimeout)) // a closed one fails below
	defer context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })()
	data, oob := make([]byte, 1), make([]byte, unix.CmsgSpace(unix.SizeofUcred))
	n, oobn, _, _, err := conn.ReadMsgUnix(data, oob)
	if err != nil {
		return 0, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || n != 1 || data[0] != want || len(messages) != 1 {
		return 0, errors.Join(errors.New("the child did not say who it is"), err)
	}
	who, err := unix.ParseUnixCredentials(&messages[0])
	if err != nil {
		return 0, err
	}
	_ = conn.SetReadDeadline(time.Time{})
	return int(who.Pid), nil
}

// explain says why a child did not come up, in its own words if it has any.
func (c *capsule) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if gone := c.Kill(); gone != nil {
		return errors.Join(err, gone)
	}
	return guest.Explain(c.session.Stderr, err)
}

// Exited implements guest.Tree.
func (c *capsule) Exited() <-chan struct{} { return c.exited }

// ExitCode implements guest.Tree.
func (c *capsule) ExitCode() int { return c.code }

// Stop implements guest.Tree. There is nothing besides the program.
func (c *capsule) Stop() error { return c.Kill() }

// Kill implements guest.Tree. A child that did not say who it is has failed by
// itself, or dies with the fork-server.
func (c *capsule) Kill() error {
	if c.init == nil {
		return nil
	}
	c.init.Kill()
	if err := c.init.Gone(goneTimeout); err != nil {
		return err
	}
	<-c.exited
	return nil
}

// Run implements sandbox.Capsule.
func (c *capsule) Run(ctx context.Context, job sandbox.Job) (sandbox.Result, error) {
	return c.session.Run(ctx, job)
}

// Close implements sandbox.Capsule.
func (c *capsule) Close() error {
	c.once.Do(func() {
		c.session.Retire()
		c.err = c.Kill()
		if c.init != nil {
			c.init.Close()
		}
		c.err = errors.Join(c.err, c.session.Close())
		c.driver.host.Forget(c)
	})
	return c.err
}
