package guest

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/portico-run/portico/modules/sandbox"
)

// threadStack is the stack of one thread: small enough for Processes threads
// within Memory, large enough for deep recursion in C code.
const threadStack = 2 << 20

// Session is one interpreter that waits for its job: from here on, all drivers
// are the same. Whoever made it closes it, and the parts it was made of, after
// Run.
type Session struct {
	Tree   Tree
	Slot   *Slot
	Limits sandbox.Limits
	// Control is the other end of the interpreter's descriptor 3.
	Control        net.Conn
	Stdout, Stderr *os.File
	Meter          Meter
	Files          Files
	// Addresses says that the kernel inside counts the addresses of a process,
	// not the memory that it can write.
	Addresses bool
	// Forward makes the sandbox carry what comes to a TCP port of its own
	// loopback to the tool socket. It is nil where the sandbox can give the host
	// a listening socket.
	Forward func(port int) error
	// Group bounds the sandbox; nil where there are none.
	Group *Group
	// Poller waits for what the program writes, for all sessions of a driver.
	Poller *Poller

	used atomic.Bool
}

// message is the job as the runtime reads it.
type message struct {
	Code        string            `json:"code"`
	Language    sandbox.Language  `json:"language"`
	Args        []string          `json:"args"`
	Env         map[string]string `json:"env"`
	Limits      map[string]int64  `json:"limits"`
	Memory      int64             `json:"memory"`
	ThreadStack int               `json:"thread_stack"`
	Addresses   bool              `json:"addresses"`
	Channel     bool              `json:"channel"`
	Loopback    int               `json:"loopback"` // the port to listen on; 0 for none
	Stubs       []sandbox.Stub    `json:"stubs"`
}

func (s *Session) message(job sandbox.Job) ([]byte, error) {
	env := Environment()
	maps.Copy(env, job.Env)
	if job.Language == "" {
		job.Language = sandbox.Python
	}
	m := message{
		Code:        job.Code,
		Language:    job.Language,
		Args:        job.Args,
		Env:         env,
		ThreadStack: threadStack,
		Memory:      s.Limits.Memory,
		Addresses:   s.Addresses,
		Channel:     job.Gateway != nil,
		Stubs:       job.Stubs,
		Limits: map[string]int64{
			"RLIMIT_FSIZE":  s.Limits.FileSize,
			"RLIMIT_NPROC":  int64(s.Limits.Processes),
			"RLIMIT_NOFILE": int64(s.Limits.OpenFiles),
			"RLIMIT_CORE":   0,
			// The wall clock ends the job first; this is for what a program
			// could burn if the server were suspended meanwhile.
			"RLIMIT_CPU": int64(job.Timeout/time.Second+2) * int64(runtime.NumCPU()),
		},
	}
	if job.Gateway != nil && job.Loopback && s.Forward == nil {
		m.Loopback = sandbox.LoopbackPort
	}
	body, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode job: %w", err)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...), nil
}

// Environment is what every program has, whatever its job says.
func Environment() map[string]string {
	return map[string]string{"PATH": "/usr/bin", "HOME": sandbox.WorkDir, "LANG": "C.UTF-8", "TMPDIR": "/tmp"}
}

// Ready waits until the interpreter can take a job.
func (s *Session) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = s.Control.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	return s.expect('R')
}

// expect reads one byte of the runtime's side of the conversation.
func (s *Session) expect(want byte) error {
	var got [1]byte
	if _, err := io.ReadFull(s.Control, got[:]); err != nil {
		return err
	}
	if got[0] != want {
		return fmt.Errorf("the interpreter said %q, not %q", got[0], want)
	}
	return nil
}

// Retire makes every later Run fail.
func (s *Session) Retire() { s.used.Store(true) }

// Close lets go of everything the session holds. The tree must be gone.
func (s *Session) Close() error {
	if s.Control != nil {
		s.Control.Close()
	}
	for _, f := range []*os.File{s.Stdout, s.Stderr} {
		if f != nil {
			f.Close()
		}
	}
	if s.Meter != nil {
		s.Meter.Close()
	}
	if s.Files != nil {
		s.Files.Close()
	}
	var err error
	if s.Group != nil {
		err = s.Group.Close()
	}
	return errors.Join(err, s.Slot.Release())
}

// Bound puts the processes of these numbers, which are those of the sandbox with
// their children, into a group of its own, where there are any.
func (s *Session) Bound(groups *Groups, pids ...int) (err error) {
	if groups == nil {
		return nil
	}
	// The interpreter's own memory is not the program's.
	if s.Group, err = groups.Take(s.Limits.Memory+memorySlack, int64(s.Limits.Processes)+spareProcesses); err != nil {
		return err
	}
	for _, pid := range pids {
		if err := s.Group.Add(pid); err != nil {
			return err
		}
	}
	return nil
}

// Observe measures, and fills, the sandbox that has this process 1. The
// memory of the interpreter that waits in it is idle, or is found out if that
// is zero; it is returned. A sandbox in a group needs none.
func (s *Session) Observe(init *Process, idle int64) (_ int64, err error) {
	w := &watch{init: init}
	s.Meter = w
	if s.Files, err = openWorkspace(init, s.Slot.ID); err != nil {
		return 0, err
	}
	if idle == 0 && s.Group == nil { // it takes milliseconds
		idle = w.Measure(true, false).Memory
	}
	w.idle = idle
	return idle, nil
}

// Run does what sandbox.Capsule says.
func (s *Session) Run(ctx context.Context, job sandbox.Job) (sandbox.Result, error) {
	if err := job.Validate(); err != nil {
		return sandbox.Result{}, err
	}
	if s.used.Swap(true) {
		return sandbox.Result{}, sandbox.ErrCapsuleGone
	}
	if job.Clock == nil {
		job.Clock = sandbox.NewClock()
	}
	if err := s.Slot.write(job.Files); err != nil {
		return sandbox.Result{}, err
	}
	if err := s.Files.Put(ctx, job.Inputs); err != nil {
		return sandbox.Result{}, err
	}
	body, err := s.message(job)
	if err != nil {
		return sandbox.Result{}, err
	}
	var r *toolChannel
	if job.Gateway != nil {
		if r, err = openToolChannel(ctx, s.Poller, s.Slot.socket(), job.Gateway); err != nil {
			return sandbox.Result{}, fmt.Errorf("tool socket: %w", err)
		}
		// After the tree is gone, so that every call is over, and recorded,
		// when Run returns.
		defer r.close()
		if job.Loopback && s.Forward != nil {
			if err := s.Forward(sandbox.LoopbackPort); err != nil {
				return sandbox.Result{}, sandbox.ErrCapsuleGone.With(err) // no user code ran
			}
		}
	}
	return s.execute(ctx, job, body, r)
}

// execute hands the job over and waits for its end.
func (s *Session) execute(ctx context.Context, job sandbox.Job, body []byte, r *toolChannel) (sandbox.Result, error) {
	out, err := s.collect(job.Output)
	var listening *os.File
	if err == nil {
		listening, err = s.hand(ctx, body, job.Timeout)
	}
	if err == nil && listening != nil {
		err = r.listen(listening)
	}
	if err != nil {
		gone := s.Tree.Kill()
		out.wait()
		return sandbox.Result{}, errors.Join(sandbox.ErrCapsuleGone.With(err), gone)
	}
	job.Clock.Start()
	if r != nil {
		r.serve(s.Control)
	}
	status, notice := s.await(ctx, job)
	err = s.Tree.Stop()
	took, _ := job.Clock.Elapsed()
	var result sandbox.Result
	if err == nil && job.Collect.MaxFiles > 0 {
		// Nobody is left to change what is read.
		result.Outputs, result.OutputsDropped = s.Files.Take(job.Collect)
	}
	err = errors.Join(err, s.Tree.Kill())
	out.wait()
	if err != nil {
		return sandbox.Result{}, err
	}
	result = sandbox.Result{
		Outputs:        result.Outputs,
		OutputsDropped: result.OutputsDropped,
		Stdout:         out.stdout.text(),
		Stderr:         out.stderr.text(),
		StdoutDropped:  out.stdout.dropped,
		StderrDropped:  out.stderr.dropped,
		ExitCode:       s.Tree.ExitCode(),
		Status:         status,
		Duration:       took,
	}
	if status == "" && result.ExitCode == sandbox.ExitKilled && s.Group != nil && s.Group.Killed() {
		result.Status, notice = sandbox.OutOfMemory, memoryNotice(s.Limits)
	}
	judge(&result)
	if notice != "" {
		result.Stderr = withLine(result.Stderr, notice)
	}
	return result, nil
}

// hand sends the job and waits until the interpreter took it. Once all of it
// is sent and only the waiting ends early, the interpreter may have taken it:
// that is no error, so that nobody runs the program again. A sandbox that was
// to listen on its loopback sends the socket along.
func (s *Session) hand(ctx context.Context, body []byte, timeout time.Duration) (listening *os.File, err error) {
	if err := s.Control.SetDeadline(time.Now().Add(timeout)); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = s.Control.SetDeadline(time.Unix(1, 0)) })
	if _, err = s.Control.Write(body); err == nil {
		if listening, err = started(s.Control); errors.Is(err, os.ErrDeadlineExceeded) {
			err = nil
		}
	}
	if stop() { // otherwise the job is about to be cancelled
		err = errors.Join(err, s.Control.SetDeadline(time.Time{}))
	}
	if err != nil {
		if listening != nil {
			listening.Close()
		}
		return nil, fmt.Errorf("hand over the job: %w", err)
	}
	return listening, nil
}

// await returns how the job ended, with an empty status when by itself, and a
// line that tells the program's author about a limit.
func (s *Session) await(ctx context.Context, job sandbox.Job) (sandbox.Status, string) {
	timer, tick := time.NewTimer(job.Timeout), time.NewTimer(watchEvery)
	defer timer.Stop()
	defer tick.Stop()
	var before time.Duration // processor time at the last look while paused
	for {
		select {
		case <-s.Tree.Exited():
			return "", ""
		case <-ctx.Done():
			return sandbox.Cancelled, ""
		case <-job.Clock.Changed():
			before = 0
		case <-timer.C:
		case <-tick.C:
			_, paused := job.Clock.Elapsed()
			status, notice, used := s.look(paused)
			if status != "" {
				return status, notice
			}
			tick.Reset(watchEvery)
			if paused {
				tick.Reset(restEvery)
				if before > 0 && used > before {
					job.Clock.Charge(used - before)
				}
				before = max(used, 1)
			}
		}
		elapsed, paused := job.Clock.Elapsed()
		switch {
		case elapsed >= job.Timeout:
			return sandbox.TimedOut, ""
		case paused:
			timer.Stop()
		default:
			timer.Reset(job.Timeout - elapsed)
		}
	}
}

// look judges what the sandbox uses. Of a paused one it says, besides, how much
// processor time its processes have used.
func (s *Session) look(paused bool) (sandbox.Status, string, time.Duration) {
	m := s.Meter.Measure(s.Group == nil, paused)
	status, notice := m.judge(s.Limits)
	// Part of a program that lost a process to its memory limit may wait for
	// it forever.
	if status == "" && s.Group != nil && s.Group.Killed() {
		status, notice = sandbox.OutOfMemory, memoryNotice(s.Limits)
	}
	return status, notice, m.CPU
}

// judge sets the status and the exit code that belong together.
func judge(r *sandbox.Result) {
	switch r.Status {
	case sandbox.TimedOut:
		r.ExitCode = sandbox.ExitTimedOut
		return
	case sandbox.Cancelled, sandbox.OutOfMemory, sandbox.Killed:
		r.ExitCode = sandbox.ExitKilled
		return
	}
	if r.ExitCode < 0 {
		r.ExitCode = sandbox.ExitKilled
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
	return last == "MemoryError" || strings.HasPrefix(last, "MemoryError:") ||
		strings.HasPrefix(last, "numpy._core._exceptions._ArrayMemoryError:")
}
