package approval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/portico-run/portico/internal/cached"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/wake"
	"github.com/portico-run/portico/modules/run/record"
)

// State is how far an approval is.
type State string

// The states. One that was settled stays as it is.
const (
	Waiting State = "waiting"
	Allowed State = "allowed"
	Refused State = "refused"
	Expired State = "expired"
)

// Decision is what somebody decided.
type Decision string

// The decisions: this call; every call of the tool in this run; every call of it
// with arguments that a pattern covers; no.
const (
	Allow       Decision = "allow"
	AllowRun    Decision = "allow_run"
	AllowAlways Decision = "allow_always"
	Refuse      Decision = "refuse"
)

// Errors of the service.
var (
	ErrMissing      = errs.New(errs.NotFound, "There is no such approval.").Do("Check the id of the call; GET /v1/tool/approvals lists what waits for you.")
	ErrNoRule       = errs.New(errs.NotFound, "There is no such rule.").Do("`portico approval policy` lists the rules.")
	ErrNoPermission = errs.New(errs.NotFound, "There is no such permission.").Do("GET /v1/tool/approvals/permissions lists yours.")
	ErrTooMany      = errs.New(errs.RateLimited, "Too many of your calls wait to be allowed.").Do("Decide some of them: GET /v1/tool/approvals lists them.").After(time.Second)

	// ErrLeft says that a call waits on, and that another process makes it.
	ErrLeft = errors.New("another process goes on with the call")

	// ErrAsked says that a call waited for the answer to a question, which nobody
	// wants any more.
	ErrAsked = errors.New("the call waited for an answer")

	errLate = errors.New("the approval is settled")
)

// What is noted where nobody decided.
const (
	noteTime   = "Nobody decided in time."
	noteCaller = "The caller went away before anybody decided."
	noteGone   = "The process of the call ended before anybody decided."
)

const (
	maxKnown  = 10_000
	knownLife = time.Second
	// recordTimeout bounds what is written when the caller is gone.
	recordTimeout = 15 * time.Second
	// rulesChanged and settled are the kinds of topics of what changed.
	rulesChanged = "approval-rules"
	settled      = "approval"
)

// Service decides which calls wait, and lets people decide. Methods that take an
// actor show and change the actor's own approvals only.
type Service struct {
	deps  Deps
	rows  repository
	rules *cached.Cache[string, []rule]

	quit  sync.Once
	quits chan struct{} // closed when calls of models wait for another process
}

// Quit has calls of models that wait, wait on for another process to Continue: Wait
// returns ErrLeft for those with a Question.Leave, from now on.
func (s *Service) Quit() { s.quit.Do(func() { close(s.quits) }) }

// Review says whether a call waits. What cannot be read is an error: no call goes
// on for that.
func (s *Service) Review(ctx context.Context, q Question) (Need, error) {
	rules, err := s.rules.Get(ctx, q.Actor.UID, func(ctx context.Context) ([]rule, error) { return s.readRules(ctx, q.Actor.UID) })
	if err != nil {
		return Need{}, unreadable(err)
	}
	top := strictest(q, rules, s.deps.Settings.Default)
	if top.level.strictness() <= Never.strictness() {
		return Need{}, nil
	}
	given, err := s.rows.permissions(s.deps.DB.Read(ctx), q.Actor.UID, q.Call.Toolset, q.Tool, q.Call.ResultID)
	if err != nil {
		return Need{}, unreadable(err)
	}
	var arguments json.RawMessage
	if len(given) > 0 {
		if arguments, err = json.Marshal(q.Arguments); err != nil {
			return Need{}, err
		}
	}
	for _, p := range given {
		switch {
		case p.Pattern != "" && matches(json.RawMessage(p.Pattern), arguments):
			return Need{}, nil
		case p.Pattern == "" && p.ResultID != "" && q.Call.InRun() && top.level == First:
			return Need{}, nil
		}
	}
	return Need{Waits: true, Reason: top.sentence()}, nil
}

func unreadable(err error) error {
	return errs.New(errs.Unavailable, "Whether this call needs an approval cannot be read now.").Do("Nothing was sent; try again.").With(err)
}

// Verdict is how a wait ended.
type Verdict struct {
	State State
	Note  string // the reason, for the caller
	// Arguments are those that the decision changed; nil where it changed none.
	Arguments json.RawMessage
}

// Wait makes a call of this process wait, and returns when it was decided or
// nobody did in time. The call executes again then, and may be made only where the
// verdict is Allowed. When ctx ends, the call is not allowed any more. It returns
// ErrTooMany, and the call does not wait, where too many of its user do.
//
// Where ctx ends for q.Leave, the call goes on waiting, for another process to
// Continue, and Wait returns ErrLeft; so it does where another process has it already.
func (s *Service) Wait(ctx context.Context, q Question, n Need) (Verdict, error) {
	return s.wait(ctx, q, func() error { return s.hold(ctx, q, n, nil) })
}

// Continue is Wait for a call that waits already and is this process's now. Of q,
// only the call and Leave are looked at. It returns ErrAsked, and the call executes,
// for one that waits for an answer: it had been sent, and whoever asked is gone.
func (s *Service) Continue(ctx context.Context, q Question) (Verdict, error) {
	q.continued = true
	return s.wait(ctx, q, func() error { return nil })
}

// wait is Wait with what makes the call wait.
func (s *Service) wait(ctx context.Context, q Question, hold func() error) (Verdict, error) {
	woken, cancel := s.deps.Hub.Subscribe(wake.Topic(settled, q.Call.CallID))
	defer cancel()
	if err := hold(); err != nil {
		return Verdict{}, err
	}
	row, err := s.await(ctx, q, woken)
	// From here on the caller may be gone: how it ended is recorded anyway.
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer done()
	if err != nil {
		return Verdict{}, err
	}
	if row.Question != nil {
		return Verdict{}, errors.Join(ErrAsked, s.deps.Records.Take(ctx, q.Call, nil))
	}
	v := Verdict{State: row.State, Note: row.Note}
	var input json.RawMessage
	if row.State == Allowed && row.ChangedArguments != nil {
		v.Arguments = json.RawMessage(*row.ChangedArguments)
		if input, err = record.WrapInput(v.Arguments); err != nil {
			return Verdict{}, err
		}
	}
	err = s.deps.Records.Take(ctx, q.Call, input)
	if q.Leave != nil && errors.Is(err, record.ErrMissing) {
		err = ErrLeft // this process was late, and another one has the call
	}
	return v, err
}

// hold notes that a call waits. A caller that goes away meanwhile does not end the
// transaction: whether it was committed would not be known.
func (s *Service) hold(ctx context.Context, q Question, n Need, asked *Asked) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	return s.deps.Records.Hold(ctx, q.Call, func(tx database.Tx) (any, error) { return s.open(tx, q, n, asked) })
}

// open writes the row of a call that begins to wait: for an answer, or, without a
// question, to be allowed.
func (s *Service) open(tx database.Tx, q Question, n Need, asked *Asked) (any, error) {
	waiting, err := s.rows.waiting(tx.Handle, q.Call.UID)
	if err != nil {
		return nil, err
	}
	if waiting >= int64(s.deps.Settings.MaxWaiting) {
		return nil, ErrTooMany
	}
	arguments, err := json.Marshal(q.Arguments)
	if err != nil {
		return nil, err
	}
	question, err := asked.text()
	if err != nil {
		return nil, err
	}
	round, err := s.nextRound(tx, q)
	if err != nil {
		return nil, err
	}
	now := s.deps.Now()
	row := approvalRow{
		CallID: q.Call.CallID, UID: q.Call.UID, ResultID: q.Call.ResultID, Version: q.Call.Version, ParentID: q.Call.ParentID, Line: q.Call.Line,
		Toolset: q.Call.Toolset, Tool: q.Tool, Arguments: string(arguments), Host: q.Host, Price: q.Price, Reason: n.Reason,
		State: Waiting, CreatedAt: now, ExpiresAt: now.Add(s.deps.Settings.Expiry), Round: round, Question: question,
	}
	if s.deps.Settings.Webhook != "" {
		row.NotifyAt = &now
		if err := tx.Notify(wake.Topic(toTell, row.CallID)); err != nil {
			return nil, err
		}
	}
	return said{approvalSaid{State: Waiting, Reason: row.Reason, ExpiresAt: row.ExpiresAt.UnixMilli(), Question: asked}}, s.rows.insert(tx, row)
}

// said is what the events of a wait say.
type said struct {
	Approval approvalSaid `json:"approval"`
}

type approvalSaid struct {
	State     State    `json:"state"`
	Reason    string   `json:"reason,omitempty"`
	Decision  Decision `json:"decision,omitempty"`
	ExpiresAt int64    `json:"expiresAt,omitempty"`
	Question  *Asked   `json:"question,omitempty"`
}

// await returns the row of a call once it is settled. It settles it itself when
// time is up, or the caller goes away.
func (s *Service) await(ctx context.Context, q Question, woken <-chan struct{}) (approvalRow, error) {
	var end <-chan time.Time
	look := time.NewTicker(s.deps.Settings.Poll)
	defer look.Stop()
	var quits <-chan struct{}
	if q.Leave != nil {
		quits = s.quits
	}
	for {
		row, err := s.rows.find(s.deps.DB.Read(context.WithoutCancel(ctx)), q.Call.UID, q.Call.CallID)
		if err != nil || row.State != Waiting {
			return row, err
		}
		if row.Question != nil && q.continued {
			return s.expire(ctx, row, noteGone)
		}
		if end == nil {
			end = time.After(row.ExpiresAt.Sub(s.deps.Now()))
		}
		select {
		case <-woken:
		case <-look.C:
		case <-quits:
			return row, ErrLeft
		case <-end:
			return s.expire(ctx, row, noteTime)
		case <-ctx.Done():
			if q.Leave != nil && errors.Is(context.Cause(ctx), q.Leave) {
				return row, ErrLeft
			}
			return s.expire(ctx, row, noteCaller)
		}
	}
}

// expire ends a wait that nobody decided, unless somebody did at the last moment.
func (s *Service) expire(ctx context.Context, row approvalRow, note string) (approvalRow, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	err := s.settle(ctx, row, ending{columns: map[string]any{"state": Expired, "note": note}, say: approvalSaid{State: Expired, Reason: note}})
	if err != nil && !errors.Is(err, errLate) {
		return row, fmt.Errorf("end the wait of %s: %w", row.CallID, err)
	}
	return s.rows.find(s.deps.DB.Read(ctx), row.UID, row.CallID)
}

// ending is how a row that waits is settled.
type ending struct {
	before  time.Time // only where it has not expired by then; zero for whenever
	columns map[string]any
	say     approvalSaid
	then    func(tx database.Tx) error // in the same transaction; nil for nothing
}

// settle changes a row that waits, with its event. Exactly one of those who try at
// once succeeds; the others get errLate, as do those who come too late.
func (s *Service) settle(ctx context.Context, row approvalRow, e ending) error {
	e.columns["decided_at"], e.columns["notify_at"] = s.deps.Now(), nil
	err := s.deps.Records.Decided(ctx, row.UID, row.CallID, func(tx database.Tx) (any, error) {
		if err := s.rows.settle(tx, row.UID, row.CallID, e.before, e.columns); err != nil {
			return nil, err
		}
		if e.then != nil {
			if err := e.then(tx); err != nil {
				return nil, err
			}
		}
		return said{e.say}, tx.Notify(wake.Topic(settled, row.CallID))
	})
	if errors.Is(err, record.ErrMissing) {
		return errLate
	}
	return err
}
