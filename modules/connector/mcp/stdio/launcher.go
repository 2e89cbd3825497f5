// Package stdio runs MCP servers that are processes of this machine.
package stdio

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portico-run/portico/modules/connector/mcp/server"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/guest"
)

// ErrStart is a process that does not start.
var ErrStart = errors.New("the process does not start")

// Settings are the limits of every process.
type Settings struct {
	// Dir has the folders in which the processes work, one for each server.
	Dir string
	// Path is what processes find programs in.
	Path string
	// Memory and Processes bound one server and all that it starts, where this
	// process may make control groups. Elsewhere Memory bounds each process, and
	// nothing the number of them.
	Memory, Processes int64
	// Files bounds the open files of one process.
	Files uint64
	// Grace is how long a process may take to end by itself.
	Grace time.Duration
	// Guest is the sandbox of servers that are isolated: its Root, RunDir and Disk.
	Guest guest.Config
}

// Launcher starts processes, from Open to Close.
type Launcher struct {
	settings Settings
	host     *guest.Host
}

// New returns a launcher that has started nothing.
func New(s Settings) (*Launcher, error) {
	if s.Grace == 0 {
		s.Grace = time.Second
	}
	s.Guest.Limits.Memory, s.Guest.Limits.Processes = s.Memory, int(s.Processes)
	host, err := guest.NewHost("mcp", "bwrap", s.Guest)
	return &Launcher{settings: s, host: host}, err
}

// Open prepares the machine.
func (l *Launcher) Open() error {
	// Isolated servers have users of their own, who pass through.
	if err := os.MkdirAll(l.settings.Dir, 0o711); err != nil {
		return err
	}
	return l.host.Open()
}

// Close ends every process.
func (l *Launcher) Close() error { return l.host.Close() }

// Start runs a server. The process ends with Close, and with this process.
func (l *Launcher) Start(ctx context.Context, s server.Server) (*Process, error) {
	ctx, done, err := l.host.Begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	defer done()
	dir, err := l.folder(s)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	start := l.plain
	if s.Sandbox {
		start = l.isolated
	}
	p, err := start(ctx, s, dir)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	l.host.Add(p)
	p.forget = func() { l.host.Forget(p) }
	return p, nil
}

// folder makes the folder that a server works in.
func (l *Launcher) folder(s server.Server) (string, error) {
	owner := "everybody"
	if s.UID != "" {
		owner = "user-" + plainName(s.UID)
	}
	dir, err := filepath.Abs(filepath.Join(l.settings.Dir, owner, plainName(s.Name)))
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o711); err != nil {
		return "", err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return dir, nil
}

// plainName is a name of a folder.
func plainName(name string) string {
	return regexp.MustCompile(`[^A-Za-z0-9_-]`).ReplaceAllString(name, "_")
}

// plain runs a server as a process of this process's user.
func (l *Launcher) plain(_ context.Context, s server.Server, dir string) (*Process, error) {
	env := map[string]string{"PATH": l.settings.Path, "HOME": dir}
	maps.Copy(env, s.Env)
	program, err := lookPath(s.Command, env["PATH"])
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, s.Args...) //nolint:noctx // operators name the command; Close ends it
	cmd.Dir = dir
	for _, name := range slices.Sorted(maps.Keys(env)) {
		cmd.Env = append(cmd.Env, name+"="+env[name])
	}
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
	p := newProcess(l.settings.Grace)
	cmd.Stderr, cmd.WaitDelay = p.tail, l.settings.Grace
	if p.Stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if p.Stdout, err = cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := l.host.Spawner.Start(cmd); err != nil {
		return nil, err
	}
	p.end = func() error { return ignoreGone(unix.Kill(-cmd.Process.Pid, unix.SIGKILL)) }
	go func() {
		defer close(p.exited)
		ended(cmd.Process.Pid)
		_ = p.end() // what it started may hold its output open, and nobody would notice
		<-p.ending
		_ = cmd.Wait()
	}()
	if err := l.bound(p, cmd.Process.Pid); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// ended returns when a child has ended. It is not waited for: its number, which is
// that of its group, stays taken.
func ended(pid int) {
	for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}

// limits are those of each process, by their numbers; none is left out, 0 is a
// limit.
func (l *Launcher) limits() map[int]uint64 {
	limits := map[int]uint64{unix.RLIMIT_CORE: 0, unix.RLIMIT_NOFILE: l.settings.Files}
	if l.host.Groups == nil {
		limits[unix.RLIMIT_DATA] = uint64(l.settings.Memory)
	}
	return limits
}

// bound limits a process that began a moment ago, and all that it starts.
func (l *Launcher) bound(p *Process, pid int) error {
	if l.host.Groups != nil {
		group, err := l.host.Groups.Take(l.settings.Memory, l.settings.Processes)
		if err != nil {
			return err
		}
		p.group = group
		if err := group.Add(pid); err != nil {
			return err
		}
	}
	if p.cell != nil {
		return nil // its shell has set its limits
	}
	for kind, most := range l.limits() {
		if err := unix.Prlimit(pid, kind, &unix.Rlimit{Cur: most, Max: most}, nil); err != nil {
			return fmt.Errorf("limits: %w", err)
		}
	}
	return nil
}

// script is what an isolated server begins with: it waits for an empty line, sets
// its limits, and takes its channel as its input and output.
func (l *Launcher) script() string {
	lines := []string{"read -r go <&3"}
	for kind, most := range l.limits() {
		switch kind {
		case unix.RLIMIT_CORE:
			lines = append(lines, fmt.Sprintf("ulimit -c %d", most))
		case unix.RLIMIT_NOFILE:
			lines = append(lines, fmt.Sprintf("ulimit -n %d", most))
		case unix.RLIMIT_DATA:
			lines = append(lines, fmt.Sprintf("ulimit -d %d", most>>10)) // in KiB
		}
	}
	return strings.Join(append(lines, `exec "$@" <&3 >&3 3>&-`), " && ")
}

// isolated runs a server in a sandbox like that of programs: no network, a
// read-only root, a user of its own. Its folder is what it can write to.
func (l *Launcher) isolated(ctx context.Context, s server.Server, dir string) (*Process, error) {
	bwrap, err := l.host.LookPath()
	if err != nil {
		return nil, err
	}
	slot, err := l.host.Slots.Take()
	if err != nil {
		return nil, err
	}
	p := newProcess(l.settings.Grace)
	p.slot = slot
	if slot.ID >= 0 {
		if err := give(dir, slot.ID); err != nil {
			return nil, errors.Join(err, p.Close())
		}
	}
	p.cell, err = guest.StartCell(ctx, guest.CellConfig{
		Bwrap: bwrap, Options: l.options(s, dir), Filters: l.host.Filters, ID: slot.ID, Spawner: l.host.Spawner,
		Command: append([]string{"/bin/sh", "-c", l.script(), "sh", s.Command}, s.Args...),
	})
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	p.Stdin, p.Stdout = p.cell.Control, p.cell.Control
	p.end = p.cell.Kill
	go p.drain()
	if err := l.bound(p, p.cell.PID()); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	// Nothing of the server runs before it is bounded.
	if _, err := p.Stdin.Write([]byte("\n")); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func (l *Launcher) options(s server.Server, dir string) []string {
	disk := fmt.Sprint(l.host.Limits.Disk)
	options := append(guest.BaseOptions(l.host.Root, l.host.Runtime),
		"--disable-userns", "--cap-drop", "ALL",
		"--perms", "1777", "--size", disk, "--tmpfs", "/dev/shm",
		"--remount-ro", "/dev",
		"--size", disk, "--tmpfs", "/tmp",
		"--bind", dir, sandbox.WorkDir,
		"--remount-ro", "/run",
		"--setenv", "HOME", sandbox.WorkDir,
		"--chdir", sandbox.WorkDir,
	)
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		options = append(options, "--setenv", name, s.Env[name])
	}
	return options
}

// give makes a user the owner of a folder and all that is in it.
func give(dir string, id int) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, id, id)
	})
}

// lookPath finds a program where the server would find it.
func lookPath(name, within string) (string, error) {
	if strings.Contains(name, "/") {
		return filepath.Abs(name)
	}
	for _, dir := range filepath.SplitList(within) {
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", fmt.Errorf("%s: %w", name, exec.ErrNotFound)
}

// ignoreGone takes the end of a process for what was wanted.
func ignoreGone(err error) error {
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}
