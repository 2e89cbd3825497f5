package tool

import (
	"context"
	"encoding/json"
	"runtime/debug"

	"github.com/portico-run/portico/modules/internal/actor"
	"github.com/portico-run/portico/modules/internal/ids"
	"github.com/portico-run/portico/modules/run"
)

// Builtin is the toolset of tools that this server is itself.
const Builtin = "builtin"

// ExecuteForModel is Execute for a call that a model made in a run of the
// actor's. It returns the record, too, as it was when the call began.
func (s *Service) ExecuteForModel(ctx context.Context, a actor.Actor, r run.Run, toolset, name string, arguments json.RawMessage) (Call, Answer, error) {
	return s.execute(ctx, a, Request{
		Toolset: toolset, Tool: name, Arguments: arguments,
		Context: Context{ResultID: r.ResultID, Version: &r.Version, CanvasID: r.CanvasID, model: true},
	})
}

// Perform records a call that a model made in a run of the actor's of a tool
// that the server is itself, and executes it. What the tool does costs
// nothing. A panic in it costs this call only.
func (s *Service) Perform(ctx context.Context, a actor.Actor, r run.Run, name string, arguments json.RawMessage, work func(ctx context.Context) Answer) (Call, Answer, error) {
	input, err := json.Marshal(map[string]json.RawMessage{"input": arguments})
	if err != nil {
		return Call{}, Answer{}, err
	}
	c := Call{
		CallID: s.Settings.Calls.New(ids.Agent), Origin: ids.Agent, UID: a.UID, ResultID: r.ResultID, Version: r.Version,
		CanvasID: r.CanvasID, Toolset: Builtin, Tool: name, StepName: name, Input: input, Status: Executing, CreatedAt: s.Now(),
	}
	if _, _, err := s.begin(ctx, c, Request{}); err != nil {
		return c, Answer{}, err
	}
	s.alive.add(c.CallID)
	defer s.alive.drop(c.CallID)
	answer := s.work(ctx, c, work)
	answer, err = s.settle(context.WithoutCancel(ctx), c, result{answer: answer})
	return c, answer, err
}

func (s *Service) work(ctx context.Context, c Call, work func(ctx context.Context) Answer) (answer Answer) {
	ctx, cancel := context.WithTimeout(ctx, s.Settings.Timeout)
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			s.Logger.ErrorContext(ctx, "builtin tool panicked", "callId", c.CallID, "panic", v, "stack", string(debug.Stack()))
			answer = Refuse(CodeInternal, "The tool could not be executed because of a fault of the server.")
		}
	}()
	return work(ctx)
}

// Refuse is the answer of a tool that failed.
func Refuse(code, message string) Answer {
	return Answer{Status: errorStatus, Error: message, ErrorCode: code}
}
