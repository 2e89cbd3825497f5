package agent

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/redact"
	"github.com/portico-run/portico/internal/telemetry/trace"
	"github.com/portico-run/portico/modules/agent/checkpoint"
	"github.com/portico-run/portico/modules/agent/loop"
	"github.com/portico-run/portico/modules/agent/running"
	"github.com/portico-run/portico/modules/model"
	"github.com/portico-run/portico/modules/ptc"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/bound"
	"github.com/portico-run/portico/modules/run/outside"
	"github.com/portico-run/portico/modules/tool/approval"
)

// Request asks an agent something.
type Request struct {
	Query    string
	Title    string
	Toolsets []string
	ResultID string
	CanvasID string
	Choice   model.Choice
	OneByOne bool
	// Code narrows the decision about programmatic tool calling.
	Code Code
	// History are the result ids of runs of the user's that this one continues,
	// in order.
	History []string
	// Model is the name of the model that answers; empty for the first.
	Model string
	// Selected are the only tools of a toolset that it may use, by the toolset's
	// key; all of a toolset that is not in it.
	Selected map[string][]string
	// Approval is when its calls wait for a person, at least.
	Approval approval.Level
	// Input is what is recorded of the message, an object.
	Input json.RawMessage `json:"-"`
	Asked run.Asked       `json:"-"`
	// Notes are what the user is told at the beginning, as warnings.
	Notes []string `json:",omitempty"`
}

// Code is what a request says about programmatic tool calling.
type Code string

// CodeAuto leaves it to the policy, as an empty Code does; CodeOff has the tools
// called plainly; CodeOn refuses the request where the policy says no, and keeps
// to code however few tools there are.
const (
	CodeAuto Code = "auto"
	CodeOff  Code = "off"
	CodeOn   Code = "on"
)

// Errors of the service.
var (
	ErrNoModel = errs.New(errs.Unavailable, "No model is configured.").Do("The administrator sets MODEL_NAME or MODEL_FILE.")
	errAborted = errors.New("aborted by the user")
	errOver    = errors.New("the work on the run is over")
)

// aborted is what a run says that was aborted.
const aborted = "The run was aborted."

// runType is the type of runs that are agents.
const runType = "skill"

// firstEvent is the number of the event with which a run starts.
const firstEvent = 1

// settleTimeout bounds the last records of a run.
const settleTimeout = 30 * time.Second

// The first pause before the end of a run is recorded again, and the longest.
const firstPause, longestPause = 100 * time.Millisecond, 30 * time.Second

// Invoke starts a run and returns when it is recorded. It goes on without the
// caller, until it ends, is aborted or the server stops.
func (s *Service) Invoke(ctx context.Context, a actor.Actor, req Request) (run.Run, error) {
	if s.deps.Model == nil {
		return run.Run{}, ErrNoModel
	}
	if req.Model == "" {
		req.Model = a.Model
	}
	if !s.deps.Model.Has(req.Model) {
		return run.Run{}, errs.Newf(errs.Invalid, "There is no model %.64q.", req.Model).Do("There are: " + strings.Join(s.deps.Model.Names(), ", ") + ".")
	}
	if !utf8.ValidString(req.Query) || strings.ContainsRune(req.Query, 0) {
		return run.Run{}, errs.New(errs.Invalid, "query must be UTF-8 without NUL.")
	}
	for _, id := range req.History {
		if _, err := s.deps.Records.Runs.Get(ctx, a, id, nil); err != nil {
			return run.Run{}, err
		}
	}
	decision := s.decide(a, req)
	if req.Code == CodeOn && !decision.Enabled {
		return run.Run{}, errs.New(errs.Forbidden, "Programmatic tool calling is off for this request.").
			Do(decision.Explanation() + " GET /v1/ptc/decision shows every check; with ptc auto, the tools are called plainly.")
	}
	visit, err := s.enter(ctx, a)
	if err != nil {
		return run.Run{}, err
	}
	r, err := s.create(ctx, a, req)
	if err != nil {
		visit.Leave()
		s.running.Leave()
		return run.Run{}, err
	}
	s.begin(ctx, task{actor: a, run: r, request: req, decision: decision, visit: visit}, s.execute)
	return r, nil
}

// enter counts a run in, among those of its user in all processes and those of all
// users in this one.
func (s *Service) enter(ctx context.Context, a actor.Actor) (*bound.Visit, error) {
	visit, err := s.deps.Settings.Limiter.Enter(ctx, s.limits(a.UID))
	if _, over := errors.AsType[*bound.Over](err); over {
		return nil, running.ErrUserBusy
	}
	if err != nil {
		return nil, err
	}
	if err := s.running.Enter(); err != nil {
		visit.Leave()
		return nil, err
	}
	return visit, nil
}

func (s *Service) limits(uid string) []bound.Limit {
	return []bound.Limit{{UID: uid, Name: "runs", Bound: bound.Bound{AtOnce: s.deps.Settings.MaxPerUser}}}
}

// AtOnce is how many runs a user has in this process, and how many there may be in all;
// 0 is no bound.
func (s *Service) AtOnce(a actor.Actor) (now, most int) {
	return s.deps.Settings.Limiter.Active(s.limits(a.UID)[0]), s.deps.Settings.MaxPerUser
}

// task is a run that this process works on.
type task struct {
	actor    actor.Actor
	run      run.Run
	request  Request
	decision ptc.Decision
	visit    *bound.Visit
	before   *checkpoint.Turn // where another process began it
	earlier  map[string]madeCall
}

// begin works on a run that was counted in.
func (s *Service) begin(ctx context.Context, t task, do func(ctx context.Context, t task)) {
	work := s.running.Add(context.WithoutCancel(ctx), t.run)
	go func() {
		defer s.running.Leave()
		defer t.visit.Leave()
		defer s.running.Forget(t.run)
		do(work, t)
	}()
}

// decide answers whether the model may write code.
func (s *Service) decide(a actor.Actor, req Request) ptc.Decision {
	d := s.deps.Access.Policy.Decide(ptc.Question{UID: a.UID, Toolsets: req.Toolsets, Title: req.Title})
	d.Enabled = d.Enabled && req.Code != CodeOff
	return d
}

// create records a run, with what the user said and with all that another process needs
// where this one dies before it works on it.
func (s *Service) create(ctx context.Context, a actor.Actor, req Request) (run.Run, error) {
	title := req.Title
	if title == "" {
		words := []rune(req.Query)
		title = string(words[:min(80, len(words))])
	}
	begins, err := origin(a, req)
	if err != nil {
		return run.Run{}, err
	}
	return s.deps.Records.Runs.Create(ctx, a, run.CreateParams{
		ResultID: req.ResultID, Title: title, CanvasID: req.CanvasID, Type: runType, Input: req.Input, Toolsets: req.Toolsets, History: req.History,
		Asked: req.Asked,
		Also: func(ctx context.Context, tx database.Tx, r run.Ref) error {
			if err := s.deps.Records.Turns.Begin(tx, r, begins); err != nil {
				return err
			}
			return s.deps.Records.Runs.AddMessage(ctx, tx, r, run.NewMessage{Event: firstEvent, Type: run.Human, Content: req.Query})
		},
	})
}

// execute is the whole of a run, from the decision to its end, or to where another
// process goes on with it.
func (s *Service) execute(ctx context.Context, t task) {
	r := t.run
	ctx, span := trace.Start(ctx, trace.Run)
	defer span.End()
	span.Set("portico.run.id", r.ResultID)
	span.Count("portico.run.version", r.Version)
	stop := s.watch(ctx, t.actor, r)
	defer stop()
	o, err := s.turn(ctx, t)
	s.running.Cancel(r, errOver) // an abort that comes now ends the run in the database
	finish := run.Finish{Status: run.Done, PTCEnabled: o.Code, Model: o.Model, Warnings: o.Warnings}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errAborted), errors.Is(cause, run.ErrEnded):
		finish.Status, finish.Errors = run.Aborted, []string{aborted}
	case errors.Is(err, loop.ErrLeft):
		s.leave(ctx, r)
		return
	case errors.Is(err, run.ErrTaken):
		s.deps.Logger.WarnContext(ctx, "another process goes on with a run", "resultId", r.ResultID, "version", r.Version)
		return
	case errors.Is(cause, running.ErrStopped):
		s.leave(ctx, r)
		return
	case err != nil:
		finish.Status, finish.Errors = run.Failed, []string{sentence(err)}
		s.deps.Logger.ErrorContext(ctx, "an agent's run failed", "resultId", r.ResultID, "version", r.Version, "error", redact.Text(err.Error()))
	case o.Ending != nil && o.Ending.Failed:
		finish.Status, finish.Errors = run.Failed, []string{o.Ending.Answer}
	case o.Ending != nil:
		finish.Handoff = o.Ending.Handoff
	}
	if finish.Status != run.Done {
		span.Fail(string(finish.Status))
	}
	s.finish(ctx, r, finish)
}

// Abandon leaves all runs of this process, to be taken over.
func (s *Service) Abandon() { s.running.Abandon() }

// Quit has every run of this process left to other processes, at its next moment at
// which nothing is lost. None begins any more.
func (s *Service) Quit() { s.running.Quit() }

// Running is how many runs this process works on.
func (s *Service) Running() int { return s.running.Count() }

// finish records the end of a run that this process works on. It tries again until
// that succeeds: nobody else ends a run whose process lives.
func (s *Service) finish(ctx context.Context, r run.Run, finish run.Finish) {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := s.settle(ctx, r, finish)
		if err == nil || errors.Is(err, run.ErrEnded) || errors.Is(err, run.ErrTaken) {
			return
		}
		s.deps.Logger.ErrorContext(ctx, "the end of a run is not recorded yet", "resultId", r.ResultID, "version", r.Version, "error", err)
		if s.running.Pause(pause) != nil {
			return // another process goes on with the run
		}
	}
}

// settle records the end of a run that this process works on, once.
func (s *Service) settle(ctx context.Context, r run.Run, finish run.Finish) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	if finish.Status == run.Aborted {
		return s.endAborted(ctx, r, finish) // its user was told so, whoever works on it by now
	}
	return s.deps.Records.DB.InTx(ctx, func(tx database.Tx) error {
		if err := s.deps.Records.Runs.Mine(ctx, tx, r.Ref()); err != nil {
			return err
		}
		if finish.Status == run.Failed {
			if err := s.tellError(ctx, tx, r, finish.Errors[0]); err != nil {
				return err
			}
		}
		if err := s.deps.Records.Turns.Drop(tx, r.Ref()); err != nil {
			return err
		}
		return s.deps.Records.Runs.Finish(ctx, tx, r.Ref(), finish)
	})
}

// sentence is what the user may know of an error.
func sentence(err error) string {
	if refusal, ok := errors.AsType[*model.Error](err); ok {
		return refusal.Error()
	}
	for _, known := range []error{loop.ErrLimit, loop.ErrEmpty, loop.ErrCut} {
		if errors.Is(err, known) {
			return err.Error()
		}
	}
	return errs.Message(err)
}

// tellError shows the failure of a run in its stream.
func (s *Service) tellError(ctx context.Context, tx database.Tx, r run.Run, text string) error {
	_, err := s.deps.Records.Runs.Append(ctx, tx, r.Ref(), run.NewEvent{Type: run.Error, Payload: map[string]any{
		"error":       map[string]any{"success": false, "errCode": string(errs.Internal), "errMsg": "The run failed."},
		"originError": text,
	}})
	return err
}

// lookAgain is how late an abort may be whose wake-up was lost.
const lookAgain = 5 * time.Second

// watch ends the context of a run that somebody ended in the database: an
// abort may arrive at any server.
func (s *Service) watch(ctx context.Context, a actor.Actor, r run.Run) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	woken, unsubscribe := s.deps.Records.Wake.Subscribe(run.AbortTopic(r.ResultID))
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		tick := time.NewTicker(lookAgain)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-woken:
			case <-tick.C:
			}
			now, err := s.deps.Records.Runs.Get(ctx, a, r.ResultID, &r.Version)
			if err == nil && now.Status.Final() {
				s.running.Cancel(r, run.ErrEnded)
				return
			}
		}
	}()
	return func() {
		cancel()
		unsubscribe()
		<-finished
	}
}

// Abort ends a run of the actor's, wherever it runs. It reports false when it
// had ended before, and returns run.ErrMissing when there is none.
func (s *Service) Abort(ctx context.Context, a actor.Actor, resultID string, version *int) (bool, error) {
	r, err := s.deps.Records.Runs.Get(ctx, a, resultID, version)
	if err != nil {
		return false, err
	}
	if r.Status.Final() {
		return false, nil
	}
	if s.running.Cancel(r, errAborted) || s.deps.Access.Programs.Abort(r.Ref()) {
		return true, nil
	}
	if !r.ExpiresAt.IsZero() { // a service beside this server executes it
		_, _, err = s.deps.Records.Outside.Finish(ctx, a, outside.Ending{ResultID: r.ResultID, Version: r.Version, Status: run.Aborted})
	} else {
		err = s.endAborted(ctx, r, run.Finish{Status: run.Aborted, Errors: []string{aborted}})
	}
	if errors.Is(err, run.ErrEnded) {
		return false, nil
	}
	return err == nil, err
}

// endAborted ends a run of any process. One that works on it sees the end in the
// database.
func (s *Service) endAborted(ctx context.Context, r run.Run, finish run.Finish) error {
	return s.deps.Records.DB.InTx(ctx, func(tx database.Tx) error {
		if err := s.deps.Records.Runs.Finish(ctx, tx, r.Ref(), finish); err != nil {
			return err
		}
		if err := s.deps.Records.Turns.Drop(tx, r.Ref()); err != nil {
			return err
		}
		return tx.Notify(run.AbortTopic(r.ResultID))
	})
}
