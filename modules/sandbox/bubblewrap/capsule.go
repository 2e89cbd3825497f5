package bubblewrap

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/portico-run/portico/modules/sandbox"
)

const (
	// threadStack is the stack of one thread: small enough for Processes
	// threads within Memory, large enough for deep recursion in C code.
	threadStack = 2 << 20
	// goneTimeout bounds the wait for a killed tree. The kernel needs
	// milliseconds; more means that a process hangs inside it.
	goneTimeout = 10 * time.Second
)

// capsule implements sandbox.Capsule.
type capsule struct {
	driver *Driver
	slot   *slot

	cmd            *exec.Cmd
	init           *process // process 1 of the sandbox; its end is the tree's end
	watch          *watch
	control        net.Conn
	stdout, stderr *os.File
	exited         chan struct{} // closed when cmd was waited for

	used atomic.Bool

	mu     sync.Mutex // held while starting and while closing
	closed bool
	err    error
}

// message is what the bootstrap reads from the control descriptor.
type message struct {
	Code        string            `json:"code"`
	Env         map[string]string `json:"env"`
	Limits      map[string]int64  `json:"limits"`
	ThreadStack int               `json:"thread_stack"`
}

func (c *capsule) message(job sandbox.Job) ([]byte, error) {
	env := environment()
	maps.Copy(env, job.Env)
	l := c.driver.config.Limits
	m := message{
		Code:        job.Code,
		Env:         env,
		ThreadStack: threadStack,
		Limits: map[string]int64{
			"RLIMIT_AS":     l.Memory,
			"RLIMIT_FSIZE":  l.FileSize,
			"RLIMIT_NPROC":  int64(l.Processes),
			"RLIMIT_NOFILE": int64(l.OpenFiles),
			"RLIMIT_CORE":   0,
			// The wall clock ends the job first; this is for what a program
			// could burn if the server were suspended meanwhile.
			"RLIMIT_CPU": int64(job.Timeout/time.Second+2) * int64(runtime.NumCPU()),
		},
	}
	body, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode job: %w", err)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...), nil
}

// environment is what every program has, whatever its job says.
func environment() map[string]string {
	return map[string]string{"PATH": "/usr/bin", "HOME": sandbox.WorkDir, "LANG": "C.UTF-8", "TMPDIR": "/tmp"}
}

// Run implements sandbox.Capsule.
func (c *capsule) Run(ctx context.Context, job sandbox.Job) (sandbox.Result, error) {
	if err := job.Validate(); err != nil {
		return sandbox.Result{}, err
	}
	if c.used.Swap(true) {
		return sandbox.Result{}, sandbox.ErrCapsuleGone
	}
	if err := c.slot.write(job.Files); err != nil {
		return sandbox.Result{}, err
	}
	files, err := openWorkspace(c.watch.work, c.slot.id)
	if err != nil {
		return sandbox.Result{}, err
	}
	defer files.close()
	if err := files.put(job.Inputs); err != nil {
		return sandbox.Result{}, err
	}
	body, err := c.message(job)
	if err != nil {
		return sandbox.Result{}, err
	}
	if job.Gateway != nil {
		r, err := openRoad(ctx, c.slot.socket(), job.Gateway)
		if err != nil {
			return sandbox.Result{}, fmt.Errorf("tool socket: %w", err)
		}
		// After the tree is gone, so that every call is over, and recorded,
		// when Run returns.
		defer r.close()
	}
	result, err := c.execute(ctx, job, body)
	if err == nil && job.Collect.MaxFiles > 0 {
		// The tree is gone, so that nobody changes what is read.
		result.Outputs, result.OutputsDropped = files.take(job.Collect)
	}
	return result, err
}

// execute hands the job over and waits for its end.
func (c *capsule) execute(ctx context.Context, job sandbox.Job, body []byte) (sandbox.Result, error) {
	out := c.collect(job.Output)
	begin := time.Now()
	if err := c.hand(ctx, body, job.Timeout); err != nil {
		gone := c.kill()
		out.wait()
		return sandbox.Result{}, errors.Join(sandbox.ErrCapsuleGone.With(err), gone)
	}
	status, notice := c.await(ctx, job.Timeout)
	err := c.kill()
	took := time.Since(begin)
	out.wait()
	if err != nil {
		return sandbox.Result{}, err
	}
	result := sandbox.Result{
		Stdout:        out.stdout.text(),
		Stderr:        out.stderr.text(),
		StdoutDropped: out.stdout.dropped,
		StderrDropped: out.stderr.dropped,
		ExitCode:      c.exitCode(),
		Status:        status,
		Duration:      took,
	}
	c.judge(&result)
	if notice != "" {
		result.Stderr = withLine(result.Stderr, notice)
	}
	return result, nil
}

// hand sends the job and waits until the interpreter took it. Once all of it
// is sent and only the waiting ends early, the interpreter may have taken it:
// that is no error, so that nobody runs the program again.
func (c *capsule) hand(ctx context.Context, body []byte, timeout time.Duration) error {
	if err := c.control.SetDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.control.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := c.control.Write(body); err != nil {
		return fmt.Errorf("hand over the job: %w", err)
	}
	if err := c.expect('S'); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("hand over the job: %w", err)
	}
	return nil
}

// await returns how the job ended, with an empty status when by itself, and a
// line that tells the program's author about a limit.
func (c *capsule) await(ctx context.Context, timeout time.Duration) (sandbox.Status, string) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-c.exited:
			return "", ""
		case <-timer.C:
			return sandbox.TimedOut, ""
		case <-ctx.Done():
			return sandbox.Cancelled, ""
		case <-tick.C:
			if status, notice := c.watch.check(c.driver.config.Limits); status != "" {
				return status, notice
			}
		}
	}
}

// judge sets the status and the exit code that belong together.
func (c *capsule) judge(r *sandbox.Result) {
	switch r.Status {
	case sandbox.TimedOut:
		r.ExitCode = sandbox.ExitTimedOut
		return
	case sandbox.Cancelled, sandbox.OutOfMemory, sandbox.Killed:
		r.ExitCode = sandbox.ExitKilled
		return
	}
	switch {
	case r.ExitCode == 0:
		r.Status = sandbox.Completed
	case r.ExitCode == sandbox.ExitKilled:
		r.Status = sandbox.Killed
	case r.ExitCode == 1 && endsWithMemoryError(r.Stderr):
		r.Status = sandbox.OutOfMemory
	default:
		r.Status = sandbox.Failed
	}
}

// endsWithMemoryError recognises an uncaught MemoryError by the last line of
// its traceback.
func endsWithMemoryError(stderr string) bool {
	stderr = strings.TrimRight(stderr, "\n")
	last := stderr[strings.LastIndexByte(stderr, '\n')+1:]
	return last == "MemoryError" || strings.HasPrefix(last, "MemoryError:")
}

// exitCode is that of the program, which bwrap passes on.
func (c *capsule) exitCode() int {
	if code := c.cmd.ProcessState.ExitCode(); code >= 0 {
		return code
	}
	return sandbox.ExitKilled
}

// outputs are the two collectors of one job.
type outputs struct {
	stdout, stderr collector
	done           sync.WaitGroup
}

func (o *outputs) wait() { o.done.Wait() }

// collect reads both streams until nobody has them open any more.
func (c *capsule) collect(emit func(sandbox.Stream, string)) *outputs {
	var mu sync.Mutex
	o := &outputs{}
	read := func(into *collector, from *os.File, s sandbox.Stream) {
		into.limit = c.driver.config.Limits.Output
		into.emit = func(line string) {
			if emit == nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			emit(s, line)
		}
		o.done.Go(func() { into.drain(from) })
	}
	read(&o.stdout, c.stdout, sandbox.Stdout)
	read(&o.stderr, c.stderr, sandbox.Stderr)
	return o
}

// kill ends every process of the sandbox and returns when there is none.
func (c *capsule) kill() error {
	if c.cmd == nil || c.cmd.Process == nil {
		return nil
	}
	if c.init == nil {
		c.init = c.findInit()
	}
	if c.init != nil {
		c.init.kill()
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
	return c.init.gone(goneTimeout)
}

// findInit finds process 1 of a sandbox that is ended before bwrap told about
// it. bwrap is stopped meanwhile: one that it made a moment later would not
// yet end with it.
func (c *capsule) findInit() *process {
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
	p, err := openProcess(child)
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
	c.used.Store(true)
	c.err = c.kill()
	if c.control != nil {
		c.control.Close()
	}
	for _, f := range []*os.File{c.stdout, c.stderr} {
		if f != nil {
			f.Close()
		}
	}
	if c.watch != nil {
		c.watch.close()
	}
	if c.init != nil {
		c.init.close()
	}
	c.err = errors.Join(c.err, c.slot.release())
	c.driver.forget(c)
	return c.err
}
