package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/modules/agent/builtin"
	"github.com/portico-run/portico/modules/agent/checkpoint"
	"github.com/portico-run/portico/modules/agent/live"
	"github.com/portico-run/portico/modules/agent/loop"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
)

const (
	// maxContinued is how often processes take a run over: one that ends them all
	// must not go on for ever.
	maxContinued = 20
	// lookForRuns is how often a process looks for runs to take over, and takeAtOnce
	// how many it looks at then.
	lookForRuns = 2 * time.Second
	takeAtOnce  = 100
)

// keeper keeps each answer with calls, so that another process can go on from there.
func (s *Service) keeper(t task, w *live.Writer, notices *notices) func(ctx context.Context, step loop.Step) error {
	n := 0
	if t.before != nil {
		n = t.before.Steps
	}
	return func(ctx context.Context, step loop.Step) error {
		n++
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
		defer cancel()
		return s.deps.Records.Turns.Add(ctx, checkpoint.Addition{
			Run: t.run.Ref(), Number: n,
			Step: checkpoint.Step{Step: step, Message: w.Said(), Shown: w.Shown(), Warnings: notices.warnings},
			Mine: func(tx database.Tx) error { return s.deps.Records.Runs.Mine(ctx, tx, t.run.Ref()) },
		})
	}
}

// origin is what another process begins a turn with.
func origin(a actor.Actor, req Request) (checkpoint.Origin, error) {
	request, err := json.Marshal(req)
	// Which rights its user has besides is asked again where it goes on.
	who := actor.Actor{UID: a.UID, KeyID: a.KeyID, Scope: a.Scope, Rights: a.Rights}
	return checkpoint.Origin{Actor: who, Request: request}, err
}

// leave lets another process go on with a run.
func (s *Service) leave(ctx context.Context, r run.Run) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	if err := s.deps.Records.Runs.Leave(ctx, r.Ref()); err != nil && !errors.Is(err, run.ErrTaken) {
		s.deps.Logger.WarnContext(ctx, "a run that is left is taken over later", "resultId", r.ResultID, "error", err)
	}
}

// madeCall is a call of the last answer that another process had begun.
type madeCall struct {
	callID string
	waits  bool
	text   string // for the model, where it has ended
	failed error
	// unsaid is what the process had not written down of what the model is given.
	unsaid string
}

// madeOf reads a call. given is what was written down of what the model was given,
// which the process may not have come to.
func madeOf(c record.Call, given string) (m madeCall, err error) {
	m = madeCall{callID: c.CallID, waits: c.Status == record.Waiting}
	if !c.Ended() {
		return m, nil
	}
	answer, err := c.Answer()
	if err != nil {
		return m, err
	}
	if answer.Status != record.Success {
		m.failed = errors.New(answer.Error)
	}
	switch {
	case given != "" && given != answer.Error:
		m.text = given
	case builtin.RunsCode(c.Toolset):
		m.text, m.failed, err = builtin.Retold(answer)
	case c.Toolset == record.Builtin:
		m.text = live.Words(answer.Data)
	default:
		m.text = string(answer.Data)
	}
	if given == "" {
		m.unsaid = cmp.Or(m.text, answer.Error)
	}
	return m, err
}

// earlier tells what became of the calls of an answer that another process had, and
// makes the rest of those that wait.
func (o *offers) earlier(made map[string]madeCall) loop.Earlier {
	return func(ctx context.Context, c loop.Call) (string, bool, error) {
		m, ok := made[c.ID]
		switch {
		case !ok:
			return "", false, nil
		case m.waits:
			text, err := o.calls.Continue(ctx, c, m.callID)
			return text, true, err
		case m.unsaid != "":
			o.calls.Given(ctx, c, m.callID, m.unsaid)
		default:
			c.Recorded(m.callID)
		}
		if m.failed != nil {
			return m.text, true, m.failed
		}
		return m.text, true, o.builtin.Made(ctx, c)
	}
}

// turnOf reads the turn of a run whose process is gone, and the calls of its last
// answer, by the provider's ids. It returns checkpoint.ErrNone where nobody can go on
// with it.
func (s *Service) turnOf(ctx context.Context, r run.Ref) (checkpoint.Turn, map[string]madeCall, error) {
	turn, err := s.deps.Records.Turns.Load(ctx, r)
	if err != nil {
		return turn, nil, err
	}
	a := actor.Actor{UID: r.UID}
	var callIDs []string
	for _, shown := range turn.Last.Shown {
		callIDs = append(callIDs, shown.CallID)
	}
	records, err := s.deps.Records.Calls.Calls(ctx, a, callIDs)
	if err != nil {
		return turn, nil, err
	}
	if turn.Continued > maxContinued {
		return turn, nil, checkpoint.ErrNone
	}
	messages, err := s.deps.Records.Runs.Messages(ctx, a, run.MessageFilter{ResultID: r.ResultID, Version: r.Version})
	if err != nil {
		return turn, nil, err
	}
	given := map[string]string{}
	for _, m := range messages {
		given[m.CallID] = m.Content
	}
	made := map[string]madeCall{}
	for providerID, shown := range turn.Last.Shown {
		if c, ok := records[shown.CallID]; ok {
			if made[providerID], err = madeOf(c, given[c.CallID]); err != nil {
				return turn, nil, err
			}
		}
	}
	return turn, made, nil
}

// Spare reports whether a process will go on with a call that waits for a person,
// although its own is gone, and has it looked at again at another moment.
func (s *Service) Spare(ctx context.Context, c record.Call, now, until time.Time) (bool, error) {
	if c.Status != record.Waiting || c.Origin != ids.Agent || c.ParentID != "" || !c.InRun() {
		return false, nil
	}
	r, err := s.deps.Records.Runs.Get(ctx, actor.Actor{UID: c.UID}, c.ResultID, &c.Version)
	if err != nil || r.Status.Final() {
		return false, err
	}
	if goesOn, err := s.GoesOn(ctx, r); err != nil || !goesOn {
		return false, err
	}
	return true, s.deps.Records.Calls.Postpone(ctx, c, now, until)
}

// GoesOn reports whether a process will go on with a running run, although its own is
// gone.
func (s *Service) GoesOn(ctx context.Context, r run.Run) (bool, error) {
	if r.Type != runType || s.deps.Model == nil {
		return false, nil
	}
	_, _, err := s.turnOf(ctx, r.Ref())
	if errors.Is(err, checkpoint.ErrNone) {
		return false, nil
	}
	return err == nil, err
}

// Forget drops what was kept of the turn of a run that has ended without this service.
func (s *Service) Forget(tx database.Tx, r run.Ref) error { return s.deps.Records.Turns.Drop(tx, r) }

// TakeOver goes on with runs whose process is gone, as far as there is room here.
func (s *Service) TakeOver(ctx context.Context) error {
	refs, err := s.deps.Records.Turns.Orphans(ctx, takeAtOnce)
	if err != nil {
		return err
	}
	var failures []error
	for _, ref := range refs {
		if err := s.takeOver(ctx, ref); err != nil && !errors.Is(err, run.ErrTaken) && !errors.Is(err, checkpoint.ErrNone) && !errors.Is(err, record.ErrUnsettled) {
			failures = append(failures, err)
		}
	}
	return errors.Join(failures...)
}

func (s *Service) takeOver(ctx context.Context, ref run.Ref) error {
	if s.running.Has(ref) {
		return run.ErrTaken // this process gave it up, and has not ended its work on it
	}
	_, _, err := s.turnOf(ctx, ref)
	if err != nil {
		return err
	}
	if s.running.Enter() != nil { // another process may have room
		return s.deps.Records.Runs.Postpone(ctx, ref, s.deps.Records.DB.Now().Add(s.deps.Settings.Lease))
	}
	if err := s.claim(ctx, ref); err != nil {
		s.running.Leave()
		return err
	}
	t, err := s.claimed(ctx, ref)
	t.visit = s.deps.Settings.Limiter.Let(s.limits(ref.UID)) // it was let in where it began
	if err != nil {
		s.deps.Logger.ErrorContext(ctx, "a run of another process cannot go on", "resultId", ref.ResultID, "version", ref.Version, "error", err)
		t.run = run.Run{UID: ref.UID, ResultID: ref.ResultID, Version: ref.Version}
		s.begin(ctx, t, s.interrupt)
		return nil
	}
	s.deps.Logger.InfoContext(ctx, "a run of another process goes on", "resultId", ref.ResultID, "version", ref.Version)
	s.begin(ctx, t, s.execute)
	return nil
}

// interrupt ends a run that cannot go on.
func (s *Service) interrupt(ctx context.Context, t task) {
	s.running.Cancel(t.run, errOver)
	s.finish(ctx, t.run, run.Finish{Status: run.Failed, Errors: []string{"The run was interrupted, and could not go on. Run it again."}})
}

// claim makes a run and its calls that wait those of this process. The calls come
// first, as in every transaction that locks both: a decision of one of them appends
// its event to the run.
func (s *Service) claim(ctx context.Context, ref run.Ref) error {
	return s.deps.Records.DB.InTx(ctx, func(tx database.Tx) error {
		if err := s.deps.Records.Calls.Adopt(tx, ref); err != nil {
			return err
		}
		if err := s.deps.Records.Runs.TakeOver(ctx, tx, ref); err != nil {
			return err
		}
		return s.deps.Records.Turns.Continue(tx, ref)
	})
}

// claimed reads a run that was claimed: nobody else changes it any more.
func (s *Service) claimed(ctx context.Context, ref run.Ref) (t task, err error) {
	turn, made, err := s.turnOf(ctx, ref)
	if err != nil {
		return t, err
	}
	t = task{actor: turn.Actor, before: &turn, earlier: made}
	if err := json.Unmarshal(turn.Request, &t.request); err != nil {
		return t, err
	}
	t.decision = s.decide(t.actor, t.request)
	if err := s.unsay(ctx, ref, turn); err != nil {
		return t, err
	}
	t.run, err = s.deps.Records.Runs.Get(ctx, t.actor, ref.ResultID, &ref.Version)
	return t, err
}

// unsay takes the words from answers after the last step: the process died after it had
// recorded them, and they are given anew.
func (s *Service) unsay(ctx context.Context, ref run.Ref, turn checkpoint.Turn) error {
	if turn.Steps > 0 && turn.Last.Message == "" {
		return nil // kept by a version that did not say which message it was
	}
	messages, err := s.deps.Records.Runs.Messages(ctx, actor.Actor{UID: ref.UID}, run.MessageFilter{ResultID: ref.ResultID, Version: ref.Version, Spoken: true})
	if err != nil {
		return err
	}
	after := turn.Steps == 0
	return s.deps.Records.DB.InTx(ctx, func(tx database.Tx) error {
		for _, m := range messages {
			if m.Type == run.AI && after && m.Content != "" {
				if err := s.deps.Records.Runs.ChangeMessage(ctx, tx, ref, run.MessageChange{MessageID: m.MessageID, Content: new(string)}); err != nil {
					return err
				}
			}
			after = after || m.MessageID == turn.Last.Message
		}
		return nil
	})
}

// look looks for runs to take over until ctx ends.
func (s *Service) look(ctx context.Context) {
	tick := time.NewTicker(lookForRuns)
	defer tick.Stop()
	for {
		if err := s.TakeOver(ctx); err != nil && ctx.Err() == nil {
			s.deps.Logger.ErrorContext(ctx, "runs of processes that are gone do not go on", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
