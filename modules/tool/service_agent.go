package tool

import (
	"context"
	"encoding/json"
	"runtime/debug"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
)

// Shown is how a call was shown while a model wrote it.
type Shown = record.Shown

// ModelCall is a call that a model makes.
type ModelCall struct {
	Shown
	Toolset   string // empty for record.Builtin
	Tool      string
	Arguments json.RawMessage
}

// ExecuteForModel is Execute for a call that a model made in a run of the
// actor's. It returns the record, too, as it was when the call began.
func (s *Service) ExecuteForModel(ctx context.Context, a actor.Actor, r run.Run, m ModelCall) (record.Call, Answer, error) {
	return s.execute(ctx, a, Request{
		Toolset: m.Toolset, Tool: m.Tool, Arguments: m.Arguments,
		Context: Context{ResultID: r.ResultID, Version: &r.Version, CanvasID: r.CanvasID, model: &m.Shown},
	})
}

// Perform records a call that a model made in a run of the actor's of a tool
// that the server is itself, and executes it. What the tool does costs
// nothing. A panic in it costs this call only.
func (s *Service) Perform(ctx context.Context, a actor.Actor, r run.Run, m ModelCall, work func(ctx context.Context) Answer) (record.Call, Answer, error) {
	input, err := record.WrapInput(m.Arguments)
	if err != nil {
		return record.Call{}, Answer{}, err
	}
	c := s.records.FromModel(a, r, m.Shown)
	c.Toolset, c.Tool, c.StepName, c.Input = m.Toolset, m.Tool, m.Tool, input
	if c.Toolset == "" {
		c.Toolset = record.Builtin
	}
	if _, _, err := s.records.Begin(ctx, c, record.Once{}); err != nil {
		return c, Answer{}, err
	}
	defer s.records.Work(c.CallID)()
	answer := s.work(ctx, c, work)
	answer, err = s.settle(context.WithoutCancel(ctx), c, answer, chargeOf(c, false, 0))
	return c, answer, err
}

func (s *Service) work(ctx context.Context, c record.Call, work func(ctx context.Context) Answer) (answer Answer) {
	ctx, cancel := context.WithTimeout(ctx, s.settings.Timeout)
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			s.logger.ErrorContext(ctx, "builtin tool panicked", "callId", c.CallID, "panic", v, "stack", string(debug.Stack()))
			answer = Refuse(CodeInternal, internalFault)
		}
	}()
	return work(ctx)
}
