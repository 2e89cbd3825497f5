package gvisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/portico-run/portico/modules/sandbox/guest"
)

// goneTimeout bounds the wait for killed processes.
const goneTimeout = 10 * time.Second

// box is a runsc process, and all that it started: the sandbox's kernel, the
// processes in which that runs the program, and the one that opens files for
// it.
type box struct {
	dir            string   // of this box, below its slot
	feed           *os.File // stays open: its end would be the sandbox's
	Stdout, Stderr *os.File

	cmd    *exec.Cmd
	exited chan struct{}
	tree   []*guest.Process // as it was when the box had come up
}

// options are those of every runsc command for the boxes below dir.
func options(dir string) []string {
	o := []string{
		"--root=" + filepath.Join(dir, "state"), "--network=none", "--host-uds=open", "--overlay2=none", "--ignore-cgroups",
		"--gofer-network-namespace=new", "--host-settings=ignore", "--log=/dev/null",
		"--gvisor-marker-file", // by which package isolation knows it
	}
	if os.Geteuid() != 0 {
		o = append(o, "--rootless")
	}
	return o
}

// gate makes runsc wait until its process is in its control group: what it
// starts is in it, too.
const gate = `read -r go <&3 || exit 1; exec 3<&-; exec "$0" "$@"`

// site is where and how a box comes up.
type site struct {
	spawner *guest.Spawner
	group   *guest.Group // nil for none
	runsc   string
	dir     string
	input   []byte // what the sandbox reads first
}

// openBox starts runsc with a command.
func openBox(at site, command ...string) (b *box, err error) {
	b = &box{dir: at.dir, exited: make(chan struct{})}
	var files []*os.File
	defer func() {
		for _, f := range files {
			f.Close()
		}
		if err != nil {
			b.release()
		}
	}()
	pipe := func() (r, w *os.File) {
		if err == nil {
			r, w, err = os.Pipe()
		}
		return r, w
	}
	in, feed := pipe()
	out, told := pipe()
	failures, failed := pipe()
	opened, open := pipe()
	b.feed, b.Stdout, b.Stderr = feed, out, failures
	files = append(files, in, told, failed, opened, open)
	if err != nil {
		return nil, fmt.Errorf("pipe: %w", err)
	}
	arguments := append(options(at.dir), command...)
	b.cmd = exec.Command("/bin/sh", append([]string{"-c", gate, at.runsc}, arguments...)...) //nolint:noctx // it lives until Kill, longer than the context it starts under
	b.cmd.Dir, b.cmd.Env = "/", []string{}
	b.cmd.Stdin, b.cmd.Stdout, b.cmd.Stderr = in, told, failed
	b.cmd.ExtraFiles = []*os.File{opened}
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if err := at.spawner.Start(b.cmd); err != nil {
		b.cmd = nil
		return nil, fmt.Errorf("start gVisor: %w", err)
	}
	go func() {
		defer close(b.exited)
		_ = b.cmd.Wait() // how it ended does not matter, only that it did
	}()
	if at.group != nil {
		err = at.group.Add(b.cmd.Process.Pid)
	}
	if err == nil {
		_, err = feed.Write(at.input) // less than a pipe holds
	}
	if err == nil {
		_, err = open.WriteString("go\n")
	}
	if err != nil {
		return nil, errors.Join(err, b.Kill())
	}
	return b, nil
}

// settle notes the processes of a box that has come up, so that they are found
// also when runsc itself is gone.
func (b *box) settle() error {
	for _, pid := range descendants(b.cmd.Process.Pid) {
		p, err := guest.OpenProcess(pid)
		if err != nil {
			return err
		}
		b.tree = append(b.tree, p)
	}
	return nil
}

// Kill ends every process of the box and returns when there is none.
func (b *box) Kill() error {
	if b.cmd == nil {
		return nil // it did not even start
	}
	_ = b.cmd.Process.Signal(syscall.SIGSTOP) // it must not start more; fails when it ended
	more := &box{cmd: b.cmd}
	_ = more.settle() // those that end meanwhile
	defer more.forget()
	all := append(b.tree, more.tree...)
	_ = b.cmd.Process.Kill()
	for _, p := range all {
		p.Kill()
	}
	timer := time.NewTimer(goneTimeout)
	defer timer.Stop()
	select {
	case <-b.exited:
	case <-timer.C:
		return errors.New("sandbox: gVisor does not end")
	}
	for _, p := range all {
		if err := p.Gone(goneTimeout); err != nil {
			return err
		}
	}
	return nil
}

func (b *box) forget() {
	for _, p := range b.tree {
		p.Close()
	}
	b.tree = nil
}

// explain kills the box and says why it did not come up, in its own words if it
// has any.
func (b *box) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if gone := b.Kill(); gone != nil {
		return errors.Join(err, gone)
	}
	return guest.Explain(b.Stderr, err)
}

// release lets go of what a box that is gone still holds.
func (b *box) release() {
	b.forget()
	for _, f := range []*os.File{b.feed, b.Stdout, b.Stderr} {
		if f != nil {
			f.Close()
		}
	}
}

// cpu is the processor time that the box has used.
func (b *box) cpu() time.Duration {
	var used time.Duration
	for _, pid := range append(descendants(b.cmd.Process.Pid), b.cmd.Process.Pid) {
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
			used += guest.ProcessorTime(stat)
		}
	}
	return used
}

// descendants lists the processes below one, as far as they do not end
// meanwhile.
func descendants(pid int) (found []int) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is valid
	for _, task := range tasks {
		list, err := os.ReadFile(task)
		if err != nil {
			continue
		}
		for child := range strings.FieldsSeq(string(list)) {
			if n, err := strconv.Atoi(child); err == nil {
				found = append(append(found, n), descendants(n)...)
			}
		}
	}
	return found
}
