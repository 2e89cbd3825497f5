package execution

import (
	"crypto/sha256"
	"encoding/json"
	"sync"
	"time"
)

// answer is what a continuation was answered. The same one gets it again: its caller
// may have lost it on the way.
type answer struct {
	round   int
	results [sha256.Size]byte // digest of what came with it
	reply   Reply
}

// digest tells results apart.
func digest(results []ToolResult) (sum [sha256.Size]byte, err error) {
	text, err := json.Marshal(results)
	return sha256.Sum256(text), err
}

// Bounds of what is kept of answers: each, all of them, and how long after the end of
// a program.
const (
	maxAnswer  = 2 << 20
	maxAnswers = 64 << 20
	answerLife = time.Minute
)

// held is about how many bytes an answer takes.
func (a answer) held() int {
	n := len(a.reply.Result.Stdout) + len(a.reply.Result.Stderr) + 1<<10
	for _, c := range a.reply.Calls {
		n += len(c.Name) + len(c.Input) + 100
	}
	return n + 500*len(a.reply.Produced.Files)
}

// lasts are the last answers of programs that have ended.
type lasts struct {
	now func() time.Time

	mu    sync.Mutex
	kept  []last // the oldest first
	bytes int
}

type last struct {
	answer

	uid, execution string
	until          time.Time
}

// keep remembers the last answer of a program. All users together have the room, and
// one of them a quarter of it.
func (l *lasts) keep(e *execution, a answer) {
	a.reply.Result.Outputs = nil // they are files of the session
	if a.held() > maxAnswer {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = append(l.kept, last{a, e.who.UID, e.id, l.now().Add(answerLife)})
	l.bytes += a.held()
	l.forget(e.who.UID)
}

// forget lets go of what is too old or too much. Callers hold the lock.
func (l *lasts) forget(uid string) {
	now, own := l.now(), 0
	for _, one := range l.kept {
		if one.uid == uid {
			own += one.held()
		}
	}
	left := l.kept[:0]
	for _, one := range l.kept {
		switch {
		case now.After(one.until), l.bytes > maxAnswers, one.uid == uid && own > maxAnswers/4:
			l.bytes -= one.held()
			if one.uid == uid {
				own -= one.held()
			}
		default:
			left = append(left, one)
		}
	}
	clear(l.kept[len(left):])
	l.kept = left
}

// of returns what the continuation of a round was answered by a program that has ended.
// known is whether that round was its last one.
func (l *lasts) of(uid string, k ticket, results [sha256.Size]byte) (reply Reply, same, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(uid)
	for _, one := range l.kept {
		if one.uid == uid && one.execution == k.Execution {
			known = one.round == k.Round
			return one.reply, known && one.results == results, known
		}
	}
	return Reply{}, false, false
}
