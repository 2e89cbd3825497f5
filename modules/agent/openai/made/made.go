// Package made remembers the answers that were made, for clients that lost one and ask
// again: they get the same, to the byte.
package made

import (
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/portico-run/portico/modules/agent/dialogue"
)

// What is remembered of one user.
const (
	life       = 10 * time.Minute
	maxAnswers = 64
	maxBytes   = 16 << 20
	maxPending = 256
)

// Memory remembers what users were answered. The zero value remembers nothing.
type Memory struct {
	mu    sync.Mutex
	users map[string]*user
}

type user struct {
	answers []*Answer // the oldest first
	pending []pending
}

// pending are the approvals that a program waits for.
type pending struct {
	program   string
	approvals []dialogue.Approval
	until     time.Time
}

// Answer is the answer of a turn.
type Answer struct {
	turn  dialogue.Turn
	until time.Time

	mu   sync.Mutex
	text []byte
}

// Make returns the text of the answer. The first one to ask makes it; where that fails,
// the next one does.
func (a *Answer) Make(write func() ([]byte, error)) ([]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.text != nil {
		return a.text, nil
	}
	text, err := write()
	if err != nil {
		return nil, err
	}
	a.text = text
	return text, nil
}

// Sent is what a client of the vendor's says of a request: docs/wire/openai.md#retries.
func Sent(r *http.Request) dialogue.Sent {
	switch r.Header.Get("X-Stainless-Retry-Count") {
	case "":
		return ""
	case "0":
		return dialogue.SentFirst
	}
	return dialogue.SentAgain
}

// of is what is known of a user, without what is over.
func (m *Memory) of(uid string, now time.Time) *user {
	if m.users == nil {
		m.users = map[string]*user{}
	}
	for id, u := range m.users {
		u.answers = slices.DeleteFunc(u.answers, func(a *Answer) bool { return now.After(a.until) })
		u.pending = slices.DeleteFunc(u.pending, func(p pending) bool { return now.After(p.until) })
		if len(u.answers)+len(u.pending) == 0 {
			delete(m.users, id)
		}
	}
	if m.users[uid] == nil {
		m.users[uid] = &user{}
	}
	return m.users[uid]
}

// Of is the answer of a turn of the user's. The oldest ones make room.
func (m *Memory) Of(uid string, turn dialogue.Turn) *Answer {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	u := m.of(uid, now)
	size := 0
	for n, a := range slices.Backward(u.answers) {
		if a.turn == turn {
			return a
		}
		if size += a.size(); size > maxBytes {
			u.answers = slices.Clone(u.answers[n+1:])
			break
		}
	}
	if len(u.answers) >= maxAnswers {
		u.answers = slices.Clone(u.answers[1:])
	}
	a := &Answer{turn: turn, until: now.Add(life)}
	u.answers = append(u.answers, a)
	return a
}

func (a *Answer) size() int {
	if !a.mu.TryLock() {
		return 0 // it is being made
	}
	defer a.mu.Unlock()
	return len(a.text)
}

// Wait remembers which approvals a program of the user's waits for, until then. The
// oldest ones make room.
func (m *Memory) Wait(uid, program string, approvals []dialogue.Approval, until time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.of(uid, time.Now())
	u.pending = slices.DeleteFunc(u.pending, func(p pending) bool { return p.program == program })
	if len(u.pending) >= maxPending {
		u.pending = slices.Clone(u.pending[1:])
	}
	u.pending = append(u.pending, pending{program, approvals, until})
}

// Waiting are the approvals that a program of the user's waits for; nil for none.
func (m *Memory) Waiting(uid, program string) []dialogue.Approval {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.of(uid, time.Now()).pending {
		if p.program == program {
			return p.approvals
		}
	}
	return nil
}
