package stdio

import (
	"errors"
	"io"
	"sync"
	"time"

	"github.com/portico-run/portico/modules/sandbox/guest"
)

// Process is a server that runs.
type Process struct {
	// Stdin and Stdout are its two ends of the protocol.
	Stdin  io.WriteCloser
	Stdout io.ReadCloser

	tail   *tail
	grace  time.Duration
	end    func() error // kills all of it; nil before it began
	forget func()
	group  *guest.Group
	slot   *guest.Slot
	cell   *guest.Cell // nil where it is not isolated

	ending, exited chan struct{}
	once           sync.Once
	err            error

	mu       sync.Mutex
	exceeded Limit // what is known once the group is gone
}

// Limit is the setting that bounds a server.
type Limit string

// The limits.
const (
	MemoryLimit  Limit = "MCP_MEMORY"
	ProcessLimit Limit = "MCP_PROCESSES"
)

// Exceeded is the limit that the server ran into: the kernel killed some of it for
// its memory, or did not let it start a process. It is empty where there was none,
// and where this process may not make control groups.
func (p *Process) Exceeded() Limit {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.exceeded != "" || p.group == nil:
	case p.group.Killed():
		p.exceeded = MemoryLimit
	case p.group.Refused():
		p.exceeded = ProcessLimit
	}
	return p.exceeded
}

func newProcess(grace time.Duration) *Process {
	return &Process{grace: grace, tail: &tail{}, ending: make(chan struct{}), exited: make(chan struct{}), forget: func() {}}
}

// Stderr is the end of what the server wrote there.
func (p *Process) Stderr() string { return p.tail.String() }

// Note adds a line to what Stderr returns.
func (p *Process) Note(line []byte) {
	_, _ = p.tail.Write(append([]byte("(stdout) "), append(line, '\n')...)) // never fails
}

// drain keeps what an isolated server writes.
func (p *Process) drain() {
	defer close(p.exited)
	var work sync.WaitGroup
	for _, from := range []io.Reader{p.cell.Stdout, p.cell.Stderr} {
		work.Go(func() { _, _ = io.Copy(p.tail, from) }) // it ends with the server
	}
	work.Wait()
	<-p.cell.Exited()
}

// Close ends the server: its input ends, and after a while all of it is killed.
func (p *Process) Close() error {
	p.once.Do(func() {
		defer p.forget()
		close(p.ending)
		if p.Stdin != nil && p.cell == nil {
			_ = p.Stdin.Close() // a server that has gone closed the other end
		}
		if p.end != nil {
			p.wait()
			p.err = p.end()
			<-p.exited
		}
		if p.cell != nil {
			p.err = errors.Join(p.err, p.cell.Close())
		}
		if p.group != nil {
			p.Exceeded() // remembers it
			p.err = errors.Join(p.err, p.group.Kill(), p.group.Close())
		}
		if p.slot != nil {
			p.err = errors.Join(p.err, p.slot.Release())
		}
	})
	return p.err
}

// wait gives the server its time to end by itself.
func (p *Process) wait() {
	if p.cell != nil {
		return // its input is its output: it cannot be told
	}
	timer := time.NewTimer(p.grace)
	defer timer.Stop()
	select {
	case <-p.exited:
	case <-timer.C:
	}
}

// stderrKept is how much of what a server writes to stderr is kept, in bytes.
const stderrKept = 64 << 10

// tail keeps the end of what is written.
type tail struct {
	mu   sync.Mutex
	kept []byte
	cut  bool
}

// Write implements io.Writer. It never fails, so that no server stops for it.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	if len(p) > stderrKept {
		p, t.cut = p[len(p)-stderrKept:], true
	}
	if over := len(t.kept) + len(p) - stderrKept; over > 0 {
		t.kept, t.cut = append(t.kept[:0], t.kept[over:]...), true
	}
	t.kept = append(t.kept, p...)
	return n, nil
}

// String is what is kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cut {
		return "[…]" + string(t.kept)
	}
	return string(t.kept)
}
