package bubblewrap

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/guest"
)

// readyTimeout bounds the start of one interpreter. It takes a fraction of a
// second; a machine under heavy load may need more.
const readyTimeout = 30 * time.Second

// Descriptors of bwrap. The control descriptor is the only one that the
// interpreter inherits, as number 3; the runtime knows the number.
const (
	controlFD = 3 + iota
	argsFD
	infoFD
	filterFD // the first of several
)

// launch is what start opens for bwrap and closes again when bwrap has it.
type launch struct {
	files []*os.File
}

func (l *launch) keep(f *os.File) *os.File {
	l.files = append(l.files, f)
	return f
}

func (l *launch) close() {
	for _, f := range l.files {
		f.Close()
	}
}

// data returns a descriptor from which content can be read. It is a file in
// memory, because a pipe may be too small.
func (l *launch) data(name string, content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memory file: %w", err)
	}
	f := l.keep(os.NewFile(uintptr(fd), name))
	if _, err := f.Write(content); err != nil {
		return nil, fmt.Errorf("memory file: %w", err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("memory file: %w", err)
	}
	return f, nil
}

// start brings the interpreter to the point where it waits for a job.
func (c *capsule) start(ctx context.Context, bwrap string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	defer context.AfterFunc(c.driver.closing, cancel)() //nolint:contextcheck // the driver may end before the caller

	info, err := c.spawn(bwrap)
	if err != nil {
		return err
	}
	defer info.Close()
	past := time.Unix(1, 0)
	defer context.AfterFunc(ctx, func() {
		_ = info.SetReadDeadline(past)
		_ = c.session.Control.SetDeadline(past)
	})()

	var child struct {
		PID int `json:"child-pid"`
	}
	if err := json.NewDecoder(info).Decode(&child); err != nil {
		return c.failed(ctx, err)
	}
	if c.init, err = guest.OpenProcess(child.PID); err != nil {
		return c.failed(ctx, err)
	}
	if err := c.session.Ready(); err != nil {
		return c.failed(ctx, err)
	}
	if c.session.Watch, err = guest.OpenWatch(child.PID); err != nil {
		return c.failed(ctx, err)
	}
	return nil
}

// spawn starts bwrap and returns the pipe on which it tells about the sandbox.
func (c *capsule) spawn(bwrap string) (*os.File, error) {
	var l launch
	defer l.close()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	theirs, ours := l.keep(os.NewFile(uintptr(pair[0]), "control")), l.keep(os.NewFile(uintptr(pair[1]), "control"))
	if c.session.Control, err = net.FileConn(ours); err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}

	args, err := l.data("args", []byte(strings.Join(c.arguments(), "\x00")))
	if err != nil {
		return nil, err
	}
	pipes := make([][2]*os.File, 3)
	for i := range pipes {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(pipes)
			return nil, fmt.Errorf("pipe: %w", err)
		}
		pipes[i] = [2]*os.File{r, l.keep(w)}
	}
	c.session.Stdout, c.session.Stderr = pipes[0][0], pipes[1][0]
	info := pipes[2][0]

	cmd := exec.Command(bwrap, //nolint:noctx // it lives until Close, longer than the context it starts under
		"--args", strconv.Itoa(argsFD), "--",
		"/usr/bin/python3", "-I", guest.Entry, strings.Join(c.driver.config.Preload, ","))
	cmd.Dir = "/"
	cmd.Env = []string{}
	cmd.Stdout, cmd.Stderr = pipes[0][1], pipes[1][1]
	cmd.ExtraFiles = []*os.File{theirs, args, pipes[2][1]}
	for _, f := range c.driver.filters {
		filter, err := l.data("filter", f)
		if err != nil {
			info.Close()
			return nil, err
		}
		cmd.ExtraFiles = append(cmd.ExtraFiles, filter)
	}
	cmd.SysProcAttr = c.attributes()
	if err := c.driver.spawner.Start(cmd); err != nil {
		info.Close()
		return nil, fmt.Errorf("start bubblewrap: %w", err)
	}
	c.cmd = cmd
	go func() {
		defer close(c.exited)
		_ = cmd.Wait() // the exit code is read from cmd
	}()
	return info, nil
}

func closeAll(pipes [][2]*os.File) {
	for _, p := range pipes {
		if p[0] != nil {
			p[0].Close()
		}
	}
}

// attributes gives bwrap the slot's user, a session of its own, so that an
// interrupt typed at the server's terminal does not reach it, and its end with
// the server's, also before bwrap sees to that itself.
func (c *capsule) attributes() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if c.session.Slot.ID >= 0 {
		id := uint32(c.session.Slot.ID)
		a.Credential = &syscall.Credential{Uid: id, Gid: id, Groups: []uint32{}}
	}
	return a
}

// arguments are bwrap's options. They go through a descriptor, because a
// program can read the command line of process 1.
func (c *capsule) arguments() []string {
	disk := strconv.FormatInt(c.driver.config.Limits.Disk, 10)
	args := []string{
		"--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session",
		"--cap-drop", "ALL", "--hostname", "sandbox", "--uid", "1000", "--gid", "1000", "--clearenv",
		// Each arena of the C library reserves 64 MiB.
		"--setenv", "MALLOC_ARENA_MAX", "2",
		"--ro-bind", c.driver.config.Root, "/",
		"--proc", "/proc",
		"--dev", "/dev",
		"--perms", "1777", "--size", disk, "--tmpfs", "/dev/shm",
		"--remount-ro", "/dev",
		"--size", disk, "--tmpfs", "/tmp",
		"--size", disk, "--tmpfs", sandbox.WorkDir,
		"--size", "65536", "--tmpfs", "/run",
		"--ro-bind", c.driver.runtime, guest.RuntimeDir,
		"--ro-bind", c.session.Slot.Run(), guest.SocketDir,
		"--remount-ro", "/run",
		"--ro-bind", c.session.Slot.Tools(), sandbox.ToolsDir,
		"--chdir", sandbox.WorkDir,
		"--info-fd", strconv.Itoa(infoFD),
	}
	for name, value := range guest.Environment() {
		args = append(args, "--setenv", name, value)
	}
	for i := range c.driver.filters {
		args = append(args, "--add-seccomp-fd", strconv.Itoa(filterFD+i))
	}
	return args
}

// failed explains why the interpreter did not come up, in bwrap's words if it
// has any.
func (c *capsule) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if gone := c.Kill(); gone != nil {
		return errors.Join(err, gone)
	}
	// Whoever writes to it is dead; the deadline is for the case that the
	// machine says otherwise.
	_ = c.session.Stderr.SetReadDeadline(time.Now().Add(time.Second))
	said, _ := io.ReadAll(io.LimitReader(c.session.Stderr, 4<<10))
	if said = bytes.TrimSpace(said); len(said) > 0 {
		return fmt.Errorf("the sandbox did not start: %w: %s", err, strings.ToValidUTF8(string(said), "\uFFFD"))
	}
	return fmt.Errorf("the sandbox did not start: %w", err)
}
