package dialogue

import (
	"context"
	"crypto/rand"
	"errors"
	"iter"
	"sync"
	"time"
)

// Why the work on a request ends.
var (
	errStopped = errors.New("the server is stopping")
	errLeft    = errors.New("the client went away")
	errIdle    = errors.New("nobody continued the conversation in time")
	errWall    = errors.New("the request took too long")
)

// turn is the work on one request. It implements Turn.
type turn struct {
	begun  Begun
	grace  time.Duration
	cancel context.CancelCauseFunc
	forget func() // ends the memory of it

	mu        sync.Mutex
	events    []Event
	size      int64 // of events, about
	changed   chan struct{}
	done      bool
	answer    Answer
	err       error
	followers int
	leaving   *time.Timer
	began     time.Time
	ran       bool // a program, or a tool of the server's
	delivered bool
}

func newTurn(grace time.Duration, compacted int, cancel context.CancelCauseFunc) *turn {
	t := &turn{grace: grace, cancel: cancel, changed: make(chan struct{}), began: time.Now(), begun: Begun{ID: rand.Text(), Compacted: compacted}}
	t.leaving = time.AfterFunc(grace, t.left)
	return t
}

// left ends work that nobody follows any more.
func (t *turn) left() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.done && t.followers == 0 {
		t.cancel(errLeft)
	}
}

// follow says that somebody waits for the answer until leave is called.
func (t *turn) follow() (leave func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.followers++
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.followers--; t.followers == 0 && !t.done {
			t.leaving.Reset(t.grace)
		}
	}
}

// tell adds an event.
func (t *turn) tell(e Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events = append(t.events, e)
	t.size += sizeOf(e)
	switch e.Part.(type) {
	case Program, OwnCall:
		t.ran = true
	}
	t.wake()
}

func (t *turn) wake() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// end gives the turn its answer.
func (t *turn) end(a Answer, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answer, t.err, t.done = a, err, true
	t.leaving.Stop()
	t.wake()
}

// next returns the event after the first n, if it is there; else whether there will be
// more, and what tells of them.
func (t *turn) next(n int) (e Event, there, over bool, changed <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n < len(t.events) {
		return t.events[n], true, false, nil
	}
	return Event{}, false, t.done, t.changed
}

// Events implements Turn.
func (t *turn) Events(ctx context.Context) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		defer t.follow()()
		for n := 0; ; {
			e, there, over, changed := t.next(n)
			switch {
			case there:
				n++
				if !yield(e) {
					return
				}
				continue
			case over:
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}
}

// Answer implements Turn.
func (t *turn) Answer(ctx context.Context) (Answer, error) {
	defer t.follow()()
	for {
		t.mu.Lock()
		done, changed := t.done, t.changed
		t.mu.Unlock()
		if done {
			return t.answer, t.err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Answer{}, ctx.Err()
		}
	}
}

// Begun implements Turn.
func (t *turn) Begun() Begun { return t.begun }

// Delivered implements Turn.
func (t *turn) Delivered() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.delivered = true
}

// shortly is how long after a request one that is the same is taken for a repetition,
// where a program was run for it and the client says nothing.
const shortly = time.Minute

// answers reports whether the turn is the answer to a request of the same content.
func (t *turn) answers(s Sent) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.done && t.err != nil:
		return false
	case s == SentAgain, !t.delivered:
		return true
	}
	return s == "" && t.ran && time.Since(t.began) < shortly
}

// ended reports whether nobody works on it any more.
func (t *turn) ended() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.done
}

// failed reports whether the turn ended with an error.
func (t *turn) failed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.done && t.err != nil
}

func (t *turn) bytes() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.size
}

// sizeOf is about how many bytes an event holds.
func sizeOf(e Event) int64 {
	n := 64
	if e.Delta != nil {
		n += len(e.Delta.Text)
	}
	switch p := e.Part.(type) {
	case Text:
		n += len(p.Text)
	case Thought:
		n += len(p.Text) + len(p.Token)
	case Call:
		n += len(p.Arguments)
	case Program:
		n += len(p.Code)
	case Output:
		n += len(p.Stdout) + len(p.Stderr)
	case Approval:
		n += len(p.Arguments)
	case OwnCall:
		n += len(p.Arguments)
	case OwnOutput:
		n += len(p.Result.Text)
	}
	return int64(n)
}
