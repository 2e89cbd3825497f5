package repl

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/peer"
	"github.com/portico-run/portico/modules/program"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/tool"
)

// Peers are the other processes. Each interpreter is in one of them, which the table
// interpreters names.
type Peers interface {
	// Self is the id of this process.
	Self() string
	// Ask asks another process. The errors are those of package peer, or what it
	// answered.
	Ask(ctx context.Context, to string, c peer.Call, out any) error
}

// What other processes are asked for.
const (
	runOp      = "interpreter.run"
	resetOp    = "interpreter.reset"
	functionOp = "interpreter.function"
)

const (
	// patience is how long a process is waited for that does not answer although its
	// lease lives, lookAgain how often it is asked, and soon when another one is.
	patience, lookAgain, soon = time.Minute, time.Second, 10 * time.Millisecond
	// keep is how long after its end a place is remembered.
	keep = 48 * time.Hour
)

var errLost = errs.New(errs.Unavailable, "The answer of the interpreter was lost with the server process that had it.").
	Do("Its variables may be gone. Look at what the code has done before you run it again.")

// asked is code for the interpreter of another process. That process records it and
// gives it tools; what whoever asks executes itself, it asks for by the name of the loan.
type asked struct {
	Place     string
	Request   program.Request
	Functions []lent
	Lender    string
	Loan      string
	Trace     string
}

// lent is a function that whoever asks executes.
type lent struct {
	Name, Description string
	Schema            json.RawMessage
}

// answered is what became of it. Moved says that the interpreter is of another process
// now, and that nothing was done.
type answered struct {
	Answer Answer
	Moved  bool
}

// called is a call of a lent function.
type called struct {
	Loan, Name string
	Arguments  json.RawMessage
}

// loan is what the code of a user was lent.
type loan struct {
	uid       string
	functions []tool.Function
}

// claim returns the process that has the interpreter of a place: this one where no
// other has it.
func (s *Service) claim(ctx context.Context, p place) (owner string, err error) {
	err = s.deps.DB.InTx(ctx, func(tx database.Tx) error {
		owner, err = s.rows.claim(tx, p, s.deps.Peers.Self(), s.deps.DB.Now())
		return err
	})
	return owner, err
}

// Run runs code in the interpreter of a place, such as a canvas, in whichever process it
// is, and makes that if there is none. The request is that of a program; a program that
// fails is an answer. Ending ctx ends the interpreter.
func (s *Service) Run(ctx context.Context, a actor.Actor, name string, req program.Request) (Answer, error) {
	if s.deps.Peers == nil {
		return s.runHere(ctx, a, name, req)
	}
	var out Answer
	err := s.where(ctx, func() (string, error) { return s.claim(ctx, place{a.UID, name}) }, func(owner string) (moved bool, err error) {
		if owner == s.deps.Peers.Self() {
			out, err = s.runHere(ctx, a, name, req)
			return false, err
		}
		q := asked{Place: name, Request: req, Lender: s.deps.Peers.Self(), Trace: httpapi.TraceID(ctx)}
		var end func()
		q.Loan, end = s.lend(a.UID, req.Functions)
		defer end()
		for _, f := range req.Functions {
			q.Functions = append(q.Functions, lent{f.Name, f.Description, f.Schema})
		}
		var got answered
		err = s.deps.Peers.Ask(ctx, owner, peer.Call{Op: runOp, Who: a, In: q}, &got)
		out = got.Answer
		return got.Moved, err
	})
	return out, err
}

// Reset ends the interpreter of a place, in whichever process it is. It reports false
// when there is none.
func (s *Service) Reset(ctx context.Context, a actor.Actor, name string) (ended bool, err error) {
	if s.deps.Peers == nil {
		return s.resetHere(a, name), nil
	}
	holder := func() (string, error) { return s.rows.holder(s.deps.DB.Read(ctx), place{a.UID, name}, s.deps.DB.Now()) }
	err = s.where(ctx, holder, func(owner string) (bool, error) {
		if owner == "" || owner == s.deps.Peers.Self() {
			ended = s.resetHere(a, name)
			return false, nil
		}
		return false, s.deps.Peers.Ask(ctx, owner, peer.Call{Op: resetOp, Who: a, In: name}, &ended)
	})
	return ended, err
}

// where does something at the process that has an interpreter. It finds that process
// again where it has gone, and waits for one that does not answer until its lease is
// over.
func (s *Service) where(ctx context.Context, find func() (string, error), do func(owner string) (moved bool, err error)) error {
	for until := time.Now().Add(patience); ; {
		owner, err := find()
		if err != nil {
			return err
		}
		moved, err := do(owner)
		switch {
		case err == nil && !moved:
			return nil
		case errors.Is(err, peer.ErrLost), errors.Is(err, peer.ErrBroken):
			return errLost.With(err)
		case err != nil && !errors.Is(err, peer.ErrGone) && !errors.Is(err, peer.ErrUnreachable):
			return err
		case time.Now().After(until):
			return errors.Join(err, peer.ErrUnreachable)
		}
		wait := soon
		if errors.Is(err, peer.ErrUnreachable) {
			wait = lookAgain
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Handlers are where other processes come to.
type Handlers interface {
	Handle(op string, h peer.Handler)
}

// Serve answers other processes.
func (m *Module) Serve(h Handlers) {
	s := m.Service
	h.Handle(runOp, s.serveRun)
	h.Handle(resetOp, func(_ context.Context, who actor.Actor, body io.Reader) (any, error) {
		var name string
		if err := json.NewDecoder(body).Decode(&name); err != nil {
			return nil, err
		}
		return s.resetHere(who, name), nil
	})
	h.Handle(functionOp, s.serveFunction)
}

// serveRun runs code that came to another process, where the interpreter is this one's.
func (s *Service) serveRun(ctx context.Context, who actor.Actor, body io.Reader) (any, error) {
	var q asked
	if err := json.NewDecoder(body).Decode(&q); err != nil {
		return nil, err
	}
	owner, err := s.claim(ctx, place{who.UID, q.Place})
	if err != nil {
		return nil, err
	}
	if owner != s.deps.Peers.Self() {
		return answered{Moved: true}, nil
	}
	for _, f := range q.Functions {
		q.Request.Functions = append(q.Request.Functions, tool.Function{
			Name: f.Name, Description: f.Description, Schema: f.Schema,
			Run: func(ctx context.Context, arguments json.RawMessage) (out record.Answer) {
				err := s.deps.Peers.Ask(ctx, q.Lender, peer.Call{Op: functionOp, Who: who, In: called{q.Loan, f.Name, arguments}}, &out)
				if err != nil {
					return record.Refuse(string(errs.CodeOf(err)), errs.Message(err))
				}
				return out
			},
		})
	}
	got, err := s.runHere(httpapi.WithTrace(ctx, q.Trace), who, q.Place, q.Request)
	return answered{Answer: got}, err
}

// lend lets code that runs in another process call functions of this one.
func (s *Service) lend(uid string, functions []tool.Function) (name string, end func()) {
	name = rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loans[name] = loan{uid, functions}
	return name, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.loans, name)
	}
}

var errNotLent = errs.New(errs.NotFound, "The code was not given this function, or has ended.")

func (s *Service) serveFunction(ctx context.Context, who actor.Actor, body io.Reader) (any, error) {
	var c called
	if err := json.NewDecoder(body).Decode(&c); err != nil {
		return nil, err
	}
	s.mu.Lock()
	l := s.loans[c.Loan]
	s.mu.Unlock()
	i := slices.IndexFunc(l.functions, func(f tool.Function) bool { return f.Name == c.Name })
	if i < 0 || l.uid != who.UID {
		return nil, errNotLent
	}
	return l.functions[i].Run(ctx, c.Arguments), nil
}

// Abandon ends every interpreter: others have given up what this process works on.
func (s *Service) Abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, x := range s.sessions {
		x.end(errAbandoned)
		delete(s.sessions, p)
	}
}

// Purge forgets places that nobody has used for long.
func (m *Module) Purge(ctx context.Context) error {
	s := m.Service
	if s.deps.Peers == nil {
		return nil
	}
	return s.deps.DB.InTx(ctx, func(tx database.Tx) error {
		return s.rows.purge(tx, s.deps.DB.Now().Add(-s.deps.Settings.Idle-keep))
	})
}
