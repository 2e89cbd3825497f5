package gvisor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/guest"
)

const (
	// startTimeout bounds the start of one sandbox, which takes a second or
	// two without an image.
	startTimeout = 30 * time.Second
	// kernelMemory is what gVisor's kernel and an interpreter with its modules
	// may use besides the program, and kernelThreads how many threads.
	kernelMemory     = 256 << 20
	kernelThreads    = 4096
	supervisorSocket = "init.sock"
)

// capsule implements sandbox.Capsule: one sandbox with a kernel of its own.
type capsule struct {
	driver     *Driver
	session    guest.Session
	box        *box
	supervisor *supervisor
	idle       int64 // memory in use before the job

	exited chan struct{}
	code   int // read after exited

	once sync.Once
	err  error
}

// start brings a sandbox to the point where its interpreter waits for a job.
func (c *capsule) start(ctx context.Context, runsc, image string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	d, slot := c.driver, c.session.Slot
	dir := slot.Own()
	if err := writeBundle(dir, d.bundle(slot, image != "")); err != nil {
		return fmt.Errorf("sandbox bundle: %w", err)
	}
	var err error
	if d.host.Groups != nil {
		l := d.host.Limits
		if c.session.Group, err = d.host.Groups.Take(l.Memory+kernelMemory, int64(l.Processes)+kernelThreads); err != nil {
			return err
		}
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "unix", filepath.Join(slot.Run(), supervisorSocket))
	if err != nil {
		return fmt.Errorf("sandbox supervisor: %w", err)
	}
	defer listener.Close() // which removes the socket, before any program runs
	if err := os.Chmod(filepath.Join(slot.Run(), supervisorSocket), 0o666); err != nil {
		return fmt.Errorf("sandbox supervisor: %w", err)
	}
	input, command := slices.Concat(d.greeting, []byte{'g'}), []string{"run"}
	if image != "" {
		input, command = []byte{'g'}, []string{"restore", "--background", "--image-path=" + image}
	}
	c.box, err = openBox(site{d.host.Spawner, c.session.Group, runsc, dir, input}, append(command, "--bundle="+dir, boxID)...)
	if err != nil {
		return err
	}
	c.session.Stdout, c.session.Stderr = c.box.Stdout, c.box.Stderr
	if err := c.meet(ctx, listener); err != nil {
		return c.box.explain(ctx, err)
	}
	return nil
}

// boxID names the one sandbox of a box.
const boxID = "sandbox"

// meet waits for the sandbox to call, first its supervisor, then the interpreter.
func (c *capsule) meet(ctx context.Context, listener net.Listener) error {
	gone, stop := context.WithCancel(ctx)
	defer stop()
	go func() { // ends with the context
		select {
		case <-c.box.exited:
			listener.Close()
		case <-gone.Done():
			listener.Close()
		}
	}()
	conn, err := listener.Accept()
	if err != nil {
		return errors.New("it did not come up")
	}
	c.supervisor = newSupervisor(conn, c.end)
	c.session.Files, c.session.Meter, c.session.Forward = c.supervisor, meter{c}, c.supervisor.listen
	if c.session.Control, err = listener.Accept(); err != nil {
		return errors.New("it did not come up")
	}
	if err := c.session.Ready(ctx); err != nil {
		return err
	}
	if c.idle, err = c.supervisor.memory(); err != nil {
		return err
	}
	return c.box.settle()
}

// end notes how the program ended; a supervisor that is gone does not say.
func (c *capsule) end(status syscall.WaitStatus, known bool) {
	defer close(c.exited)
	switch {
	case !known:
	case status.Exited():
		c.code = status.ExitStatus()
	case status.Signaled():
		c.code = 128 + int(status.Signal())
	}
}

// Exited implements guest.Tree.
func (c *capsule) Exited() <-chan struct{} { return c.exited }

// ExitCode implements guest.Tree.
func (c *capsule) ExitCode() int { return c.code }

// Stop implements guest.Tree: the supervisor stays, to hand out the files. One that
// does not obey goes with everything else.
func (c *capsule) Stop() error {
	if c.supervisor.stop() == nil {
		timer := time.NewTimer(answerTimeout)
		defer timer.Stop()
		select {
		case <-c.exited:
			return nil
		case <-timer.C:
		}
	}
	return c.Kill()
}

// Kill implements guest.Tree.
func (c *capsule) Kill() error {
	if c.box == nil {
		return nil
	}
	return c.box.Kill()
}

// meter implements guest.Meter.
type meter struct{ *capsule }

// Measure implements guest.Meter. The control group of the sandbox bounds its
// kernel's memory, too, so that the program's is asked for even so.
func (m meter) Measure(_, cpu bool) guest.Measurement {
	var got guest.Measurement
	if used, err := m.supervisor.memory(); err == nil {
		got.Memory = used - m.idle
	}
	if cpu {
		got.CPU = m.box.cpu()
	}
	return got
}

// Close implements guest.Meter: there is nothing to let go of.
func (m meter) Close() {}

// Run implements sandbox.Capsule.
func (c *capsule) Run(ctx context.Context, job sandbox.Job) (sandbox.Result, error) {
	return c.session.Run(ctx, job)
}

// Close implements sandbox.Capsule.
func (c *capsule) Close() error {
	c.once.Do(func() {
		c.session.Retire()
		c.err = c.Kill()
		if c.box != nil {
			c.box.release()
		}
		c.err = errors.Join(c.err, c.session.Close())
		c.driver.host.Forget(c)
	})
	return c.err
}
