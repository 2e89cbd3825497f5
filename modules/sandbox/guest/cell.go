package guest

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
)

const (
	// startTimeout bounds the start of one cell. It takes a fraction of a
	// second; a machine under heavy load may need more.
	startTimeout = 30 * time.Second
	// goneTimeout bounds the wait for a killed tree. The kernel needs
	// milliseconds; more means that a process hangs inside it.
	goneTimeout = 10 * time.Second
)

// CellConfig says what to isolate and how.
type CellConfig struct {
	// Bwrap is the path of the bubblewrap program.
	Bwrap string
	// Options are bubblewrap's; Command is what it runs.
	Options, Command []string
	// Filters are system-call filters for the command.
	Filters [][]byte
	// ID is the user and group it runs as; below zero those of the server.
	ID      int
	Spawner *Spawner
}

// Cell is a bubblewrap process and everything in it. It implements Tree.
type Cell struct {
	// Control is the other end of the command's descriptor 3.
	Control        net.Conn
	Stdout, Stderr *os.File

	cmd    *exec.Cmd
	init   *Process // process 1 inside; its end is the tree's end
	exited chan struct{}
}

// Descriptors of bwrap. The control descriptor is the only one that the
// command inherits, as number 3; the runtime knows the number.
const (
	argsFD = 4 + iota
	infoFD
	filterFD // the first of several
)

// StartCell starts bubblewrap and waits until the cell is made; what is in it
// may still be starting. Canceling ctx ends the start, not the cell.
func StartCell(ctx context.Context, config CellConfig) (*Cell, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	c := &Cell{exited: make(chan struct{})}
	info, err := c.spawn(config)
	if err != nil {
		c.closeFiles()
		return nil, err
	}
	defer info.Close()
	defer context.AfterFunc(ctx, func() { _ = info.SetReadDeadline(time.Unix(1, 0)) })()
	var child struct {
		PID int `json:"child-pid"`
	}
	if err := json.NewDecoder(info).Decode(&child); err != nil {
		return nil, c.abandon(ctx, err)
	}
	if c.init, err = OpenProcess(child.PID); err != nil {
		return nil, c.abandon(ctx, err)
	}
	return c, nil
}

// abandon ends a start that failed.
func (c *Cell) abandon(ctx context.Context, err error) error {
	return errors.Join(c.Explain(ctx, err), c.Close())
}

// launch is what spawn opens for bwrap and closes again when bwrap has it.
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

// pipe returns the end that is ours and keeps the other.
func (l *launch) pipe() (ours, theirs *os.File, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("pipe: %w", err)
	}
	return r, l.keep(w), nil
}

// Channel makes a stream socket of two ends: a connection, and what becomes a
// descriptor of the other side.
func Channel() (ours net.Conn, theirs *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("control socket: %w", err)
	}
	theirs = os.NewFile(uintptr(pair[0]), "control")
	file := os.NewFile(uintptr(pair[1]), "control")
	defer file.Close()
	if ours, err = net.FileConn(file); err != nil {
		theirs.Close()
		return nil, nil, fmt.Errorf("control socket: %w", err)
	}
	return ours, theirs, nil
}

// spawn starts bwrap and returns the pipe on which it tells about the cell.
func (c *Cell) spawn(config CellConfig) (info *os.File, err error) {
	var l launch
	defer l.close()
	control, theirs, err := Channel()
	if err != nil {
		return nil, err
	}
	c.Control = control
	l.keep(theirs)
	options := config.Options
	for i := range config.Filters {
		options = append(options, "--add-seccomp-fd", strconv.Itoa(filterFD+i))
	}
	options = append(options, "--info-fd", strconv.Itoa(infoFD))
	// Through a descriptor, because a program can read the command line of
	// process 1.
	args, err := l.data("args", []byte(strings.Join(options, "\x00")))
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(config.Bwrap, append([]string{"--args", strconv.Itoa(argsFD), "--"}, config.Command...)...) //nolint:noctx // it lives until Kill, longer than the context it starts under
	cmd.Dir, cmd.Env = "/", []string{}
	var out, errors, told *os.File
	if c.Stdout, out, err = l.pipe(); err != nil {
		return nil, err
	}
	if c.Stderr, errors, err = l.pipe(); err != nil {
		return nil, err
	}
	if info, told, err = l.pipe(); err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = out, errors
	cmd.ExtraFiles = []*os.File{theirs, args, told}
	for _, f := range config.Filters {
		filter, err := l.data("filter", f)
		if err != nil {
			info.Close()
			return nil, err
		}
		cmd.ExtraFiles = append(cmd.ExtraFiles, filter)
	}
	cmd.SysProcAttr = attributes(config.ID)
	if err := config.Spawner.Start(cmd); err != nil {
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

// attributes gives bwrap a user, a session of its own, so that an interrupt
// typed at the server's terminal does not reach it, and its end with the
// server's, also before bwrap sees to that itself.
func attributes(id int) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if id >= 0 {
		a.Credential = &syscall.Credential{Uid: uint32(id), Gid: uint32(id), Groups: []uint32{}}
	}
	return a
}

// PID is the number of process 1 of the cell, as the host counts.
func (c *Cell) PID() int { return c.init.number }

// Init is process 1 of the cell.
func (c *Cell) Init() *Process { return c.init }

// Exited implements Tree.
func (c *Cell) Exited() <-chan struct{} { return c.exited }

// ExitCode implements Tree: that of the program, which bwrap passes on.
func (c *Cell) ExitCode() int { return c.cmd.ProcessState.ExitCode() }

// Stop implements Tree. There is nothing besides the program.
func (c *Cell) Stop() error { return c.Kill() }

// Kill implements Tree.
func (c *Cell) Kill() error {
	if c.cmd == nil {
		return nil // it did not even start
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

// findInit finds process 1 of a cell that is ended before bwrap told about it.
// bwrap is stopped meanwhile: one that it made a moment later would not yet
// end with it.
func (c *Cell) findInit() *Process {
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
	p, err := OpenProcess(child)
	if err != nil {
		return nil // gone already
	}
	return p
}

// Explain kills the cell and says why it did not come up, in the words of
// bubblewrap or of what is inside if they have any.
func (c *Cell) Explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if gone := c.Kill(); gone != nil {
		return errors.Join(err, gone)
	}
	return Explain(c.Stderr, err)
}

// Explain adds to the error of a start what is left in the pipe of its error
// output, whose writers are dead.
func Explain(stderr *os.File, err error) error {
	// The deadline is for the case that the machine says otherwise.
	_ = stderr.SetReadDeadline(time.Now().Add(time.Second))
	said, _ := io.ReadAll(io.LimitReader(stderr, 4<<10))
	if said = bytes.TrimSpace(said); len(said) > 0 {
		return fmt.Errorf("the sandbox did not start: %w: %s", err, clean(said))
	}
	return fmt.Errorf("the sandbox did not start: %w", err)
}

// Close kills what is left and lets go of everything.
func (c *Cell) Close() error {
	err := c.Kill()
	if c.init != nil {
		c.init.Close()
	}
	c.closeFiles()
	return err
}

func (c *Cell) closeFiles() {
	if c.Control != nil {
		c.Control.Close()
	}
	for _, f := range []*os.File{c.Stdout, c.Stderr} {
		if f != nil {
			f.Close()
		}
	}
}
