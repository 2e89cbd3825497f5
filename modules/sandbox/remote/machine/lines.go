package machine

import (
	"bytes"
	"io"
	"sync"

	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/remote/wire"
)

// held is how many bytes of lines wait until the program does.
const held = 64 << 10

// lines sends output as it comes: lines that come while others are sent leave together.
type lines struct {
	send func(body io.Reader) error

	mu     sync.Mutex
	change sync.Cond
	buffer bytes.Buffer
	begun  bool
	closed bool
	broken bool // nobody takes lines any more
	done   chan struct{}
}

func newLines(send func(body io.Reader) error) *lines {
	l := &lines{send: send, done: make(chan struct{})}
	l.change.L = &l.mu
	return l
}

// add sends a line. It waits while too many wait.
func (l *lines) add(s sandbox.Stream, line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.begun {
		l.begun = true
		go func() {
			defer close(l.done)
			_ = l.send(l) // whoever took them is gone, and the program ends with them
			l.mu.Lock()
			defer l.mu.Unlock()
			l.broken = true
			l.change.Broadcast()
		}()
	}
	for l.buffer.Len() >= held && !l.broken {
		l.change.Wait()
	}
	if l.broken {
		return
	}
	_ = wire.WriteLine(&l.buffer, s, line) // memory takes everything
	l.change.Broadcast()
}

// Read implements io.Reader for whoever sends the lines.
func (l *lines) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.buffer.Len() == 0 && !l.closed && !l.broken {
		l.change.Wait()
	}
	if l.buffer.Len() == 0 {
		return 0, io.EOF
	}
	n, err := l.buffer.Read(p)
	l.change.Broadcast()
	return n, err
}

// close returns when the last line has arrived, or nobody takes any.
func (l *lines) close() {
	l.mu.Lock()
	l.closed = true
	begun := l.begun
	l.change.Broadcast()
	l.mu.Unlock()
	if begun {
		<-l.done
	}
}
