package tool

import (
	"context"
	"encoding/json"
	"runtime/debug"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/modules/run"
)

// Builtin is the toolset of tools that this server is itself.
const Builtin = "builtin"

// Shown is how a call was shown while a model wrote it, before there was a
// record of it. The record has the same id and the same place in the run.
type Shown struct {
	CallID string // from NewCallID; empty makes one
	Event  int64  // the number of the event that showed it first; 0 where none did
}

// ModelCall is a call that a model makes.
type ModelCall struct {
	Shown
	Toolset   string // empty for Builtin
	Tool      string
	Arguments json.RawMessage
}

// NewCallID makes the id of a call of a model's that is not recorded yet.
func (s *Service) NewCallID() string { return s.Settings.Calls.New(ids.Agent) }

// ExecuteForModel is Execute for a call that a model made in a run of the
// actor's. It returns the record, too, as it was when the call began.
func (s *Service) ExecuteForModel(ctx context.Context, a actor.Actor, r run.Run, m ModelCall) (Call, Answer, error) {
	return s.execute(ctx, a, Request{
		Toolset: m.Toolset, Tool: m.Tool, Arguments: m.Arguments,
		Context: Context{ResultID: r.ResultID, Version: &r.Version, CanvasID: r.CanvasID, model: &m.Shown},
	})
}

// Perform records a call that a model made in a run of the actor's of a tool
// that the server is itself, and executes it. What the tool does costs
// nothing. A panic in it costs this call only.
func (s *Service) Perform(ctx context.Context, a actor.Actor, r run.Run, m ModelCall, work func(ctx context.Context) Answer) (Call, Answer, error) {
	input, err := json.Marshal(map[string]json.RawMessage{"input": m.Arguments})
	if err != nil {
		return Call{}, Answer{}, err
	}
	c := s.modelCall(a, r, m.Shown)
	c.Toolset, c.Tool, c.StepName, c.Input = m.Toolset, m.Tool, m.Tool, input
	if c.Toolset == "" {
		c.Toolset = Builtin
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

// modelCall is the record of a call that a model makes, without what it calls.
func (s *Service) modelCall(a actor.Actor, r run.Run, shown Shown) Call {
	c := Call{
		CallID: shown.CallID, Origin: ids.Agent, UID: a.UID, ResultID: r.ResultID, Version: r.Version, CanvasID: r.CanvasID,
		Status: Executing, CreatedAt: s.Now(), shown: shown.Event,
	}
	if c.CallID == "" {
		c.CallID = s.NewCallID()
	}
	return c
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
