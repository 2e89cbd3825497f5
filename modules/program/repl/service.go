package repl

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/program"
	"github.com/portico-run/portico/modules/sandbox"
)

// Service runs code in interpreters that stay.
type Service struct {
	deps Deps
	rows repository

	mu       sync.Mutex
	stopped  bool
	sessions map[place]*session
	loans    map[string]loan
	work     sync.WaitGroup
}

// place is whose an interpreter is.
type place struct{ uid, name string }

// Answer is what became of a piece of code.
type Answer struct {
	program.Outcome
	program.Interpreter
}

// Errors of the service.
var (
	ErrBusy      = errs.New(errs.RateLimited, "All persistent interpreters are in use.").Do("Wait for one to end, or run a program of its own.").After(time.Second)
	errAbandoned = errors.New("others have given up this process")
	errReset     = errors.New("the interpreter was reset")
	errIdle      = errors.New("the interpreter was not used for long")
	errReplaced  = errors.New("another interpreter took the place")
	errStopping  = errors.New("the server stops")
	errOverTime  = errors.New("the code did not end when its time was up")
)

// runHere is Run for an interpreter of this process.
func (s *Service) runHere(ctx context.Context, a actor.Actor, name string, req program.Request) (Answer, error) {
	opened, err := s.deps.Programs.Open(ctx, a, req)
	if err != nil {
		return Answer{}, err
	}
	var out Answer
	result, err := s.run(ctx, place{a.UID, name}, opened, &out)
	opened.Interpreter = out.Interpreter
	out.Outcome, err = opened.Close(ctx, result, err)
	return out, err
}

func (s *Service) run(ctx context.Context, p place, opened *program.Opened, out *Answer) (sandbox.Result, error) {
	for {
		x, err := s.take(ctx, p, opened)
		if err != nil {
			return sandbox.Result{}, err
		}
		result, err := x.run(ctx, opened, out)
		x.release(s.deps.Settings.Idle)
		if !errors.Is(err, errGone) {
			return result, err
		}
		// It ended between two pieces of code.
	}
}

// resetHere is Reset for an interpreter of this process.
func (s *Service) resetHere(a actor.Actor, name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.sessions[place{a.UID, name}]
	if x == nil {
		return false
	}
	x.end(errReset)
	delete(s.sessions, x.place)
	return true
}

// take returns the interpreter of a place, for this caller alone.
func (s *Service) take(ctx context.Context, p place, opened *program.Opened) (*session, error) {
	for {
		x, err := s.find(ctx, p, opened)
		if err != nil {
			return nil, err
		}
		select {
		case x.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		x.idle.Stop()
		if x.ctx.Err() == nil {
			return x, nil
		}
		<-x.turn // it ended while its turn was waited for
		s.forget(x)
	}
}

// find returns the interpreter of a place, or begins one.
func (s *Service) find(ctx context.Context, p place, opened *program.Opened) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil, sandbox.ErrUnavailable.Do("The server is stopping; send the code again.").AsPlanned()
	}
	if x := s.sessions[p]; x != nil && x.ctx.Err() == nil {
		return x, nil
	}
	if err := s.room(p); err != nil {
		return nil, err
	}
	x := newSession(ctx, p)
	s.sessions[p] = x
	s.work.Go(func() {
		defer s.forget(x)
		x.live(s.deps.Sandbox, opened)
	})
	return x, nil
}

// room makes one more interpreter possible. One that rests gives way, that was
// not used for longest: of the user's own where the user has as many as may be,
// otherwise of the user's own before anybody else's.
func (s *Service) room(p place) error {
	for {
		own := 0
		for at := range s.sessions {
			if at.uid == p.uid {
				own++
			}
		}
		full := own >= s.deps.Settings.share()
		if !full && len(s.sessions) < s.deps.Settings.Max {
			return nil
		}
		oldest := s.oldest(func(x *session) bool { return x.place.uid == p.uid })
		if oldest == nil && !full {
			oldest = s.oldest(func(*session) bool { return true })
		}
		if oldest == nil {
			return ErrBusy
		}
		oldest.end(errReplaced)
		delete(s.sessions, oldest.place)
	}
}

// oldest is the resting interpreter of some that was not used for longest.
func (s *Service) oldest(of func(x *session) bool) (oldest *session) {
	for _, x := range s.sessions {
		if x.resting() && of(x) && (oldest == nil || x.last().Before(oldest.last())) {
			oldest = x
		}
	}
	return oldest
}

// Resting is how many interpreters of this process wait for code.
func (s *Service) Resting() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.sessions {
		if x.resting() {
			n++
		}
	}
	return n
}

func (s *Service) forget(x *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[x.place] == x {
		delete(s.sessions, x.place)
	}
}
