package agent

import (
	"context"
	"errors"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/modules/agent/builtin"
	"github.com/portico-run/portico/modules/agent/live"
	"github.com/portico-run/portico/modules/agent/loop"
	"github.com/portico-run/portico/modules/agent/running"
	"github.com/portico-run/portico/modules/billing/price"
	"github.com/portico-run/portico/modules/model"
	"github.com/portico-run/portico/modules/ptc"
	"github.com/portico-run/portico/modules/run"
)

// turnRecord is what is recorded of a turn.
type turnRecord struct {
	Model    string // the one that answered
	Code     bool   // it wrote code
	Warnings []string
	Ending   *builtin.Ending // how the model itself ended the run; nil when it did not
}

// turn lets the model answer what the user said.
func (s *Service) turn(ctx context.Context, t task) (turnRecord, error) {
	r, req := t.run, t.request
	w := live.New(ctx, s.shownWith(), r)
	defer w.Close()
	offers := s.offers(w, t)
	defer offers.builtin.Close(ctx)
	defer func() {
		if errors.Is(context.Cause(ctx), running.ErrStopped) {
			w.Delta(model.Delta{Kind: model.Restart}) // the answer is given anew
		}
	}()
	if t.before != nil {
		w.Restore(t.before.Last.Shown)
		offers.notices.warnings = t.before.Last.Warnings
	}
	if t.before == nil || t.before.Steps == 0 {
		for _, note := range t.request.Notes {
			offers.notices.caution(ctx, note)
		}
	}
	if _, err := offers.toolsets.refresh(ctx); err != nil {
		return turnRecord{}, err
	}
	given, err := offers.decide(ctx)
	if err != nil {
		return turnRecord{}, err
	}
	offers.calls.Offer(given.tools)
	facts := s.deps.Settings.Facts(req.Model)
	limits := s.deps.Settings.Limits
	limits.Context, limits.Answer = facts.Context, facts.Answer
	l := &loop.Loop{
		Model: metered{s, r, req.Model, offers.notices}, System: given.system, Tools: given.tools, Limits: limits, Choice: req.Choice, OneByOne: req.OneByOne,
		Observer: w, Refresh: offers.again, Leaves: s.running.Quits, Refused: offers.calls.Refused, Keep: s.keeper(t, w, offers.notices), Removed: offers.notices.removed,
	}
	var o loop.Outcome
	if t.before != nil && t.before.Steps > 0 {
		l.Records = t.before.Records
		o, err = l.Continue(ctx, t.before.History, t.before.Last.Step, offers.earlier(t.earlier))
	} else {
		var history []model.Item
		if history, err = s.conversation(ctx, t.actor, r, req.History); err != nil {
			return turnRecord{}, err
		}
		o, err = l.Turn(ctx, history, req.Query)
	}
	ending := offers.builtin.Ending()
	if err == nil && ending != nil {
		err = w.Conclude(ctx, ending.Answer)
	}
	return turnRecord{o.Model, offers.writes, offers.notices.warnings, ending}, err
}

// shownWith is what runs are shown and recorded with.
func (s *Service) shownWith() live.Deps {
	return live.Deps{
		DB: s.deps.Records.DB, Runs: s.deps.Records.Runs, Billing: s.deps.Billing, Price: func(name string) price.Tokens { return s.deps.Settings.Facts(name).Price }, Flush: s.deps.Settings.Flush,
		NewCallID: func() string { return s.deps.Records.Calls.NewID(ids.Agent) }, Logger: s.deps.Logger,
	}
}

// offers are those of one run.
func (s *Service) offers(w *live.Writer, t task) *offers {
	a, r, req := t.actor, t.run, t.request
	var keys []string
	for _, k := range req.Toolsets {
		if !ptc.IsBuiltin(k) {
			keys = append(keys, k)
		}
	}
	settings := s.deps.Settings
	calls := live.NewCalls(s.deps.Tools, w, a)
	calls.Approval, calls.Leave = req.Approval, running.ErrStopped
	notices := &notices{writer: w, logger: s.deps.Logger, resultID: r.ResultID}
	return &offers{
		service: s, actor: a, calls: calls, notices: notices, canvas: r.CanvasID != "", decision: t.decision, insists: req.Code == CodeOn,
		toolsets: &toolsets{catalogue: s.deps.Access.Tools, actor: a, keys: keys, selected: req.Selected, notices: notices},
		builtin: builtin.New(s.deps.Builtin, builtin.Task{
			Actor: a, Run: r, Title: req.Title, Toolsets: keys, Selected: req.Selected, Approval: req.Approval,
			CodeTool: settings.CodeTool, CodeTimeout: settings.CodeTimeout, Lifecycle: settings.Lifecycle,
		}, calls),
	}
}

// conversation is what was said in earlier runs of the user's: the questions
// and the answers. What their tools returned stays out; read_agent_result and
// read_tool_result find it.
func (s *Service) conversation(ctx context.Context, a actor.Actor, now run.Run, ids []string) ([]model.Item, error) {
	var history []model.Item
	for _, id := range ids {
		var version *int // the newest
		if id == now.ResultID {
			version = new(now.Version - 1) // the one before this
		}
		r, err := s.deps.Records.Runs.Get(ctx, a, id, version)
		if err != nil {
			return nil, err
		}
		messages, err := s.deps.Records.Runs.Messages(ctx, a, run.MessageFilter{ResultID: r.ResultID, Version: r.Version, Spoken: true})
		if err != nil {
			return nil, err
		}
		for _, m := range messages {
			switch {
			case m.Content == "":
			case m.Type == run.AI:
				history = append(history, model.Assistant(m.Content))
			default:
				history = append(history, model.User(m.Content))
			}
		}
	}
	return history, nil
}
