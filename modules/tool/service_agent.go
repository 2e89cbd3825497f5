package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/tool/approval"
)

// ModelCall is a call that a model makes.
type ModelCall struct {
	record.Shown
	Toolset   string // empty for record.Builtin
	Tool      string
	Arguments json.RawMessage
	// Name and Schema are the tool as the model was shown it. ExecuteForModel
	// checks the arguments against the schema.
	Name   string
	Schema json.RawMessage
	// Approval is what the request wants that began the run; empty for nothing.
	Approval approval.Level
	// Leave is why the run ends here and goes on in another process; nil where it
	// never does.
	Leave error
}

// ExecuteForModel is Execute for a call that a model made in a run of the
// actor's. It returns the record, too, as it was when the call began. Arguments
// that the shown schema does not take are a Failure with CodeInvalidArguments,
// in words for the model; such a call is not recorded. Where the context ends for
// m.Leave while the call waits for a person, it goes on waiting, for another process
// to ContinueForModel, and the error is approval.ErrLeft.
func (s *Service) ExecuteForModel(ctx context.Context, a actor.Actor, r run.Run, m ModelCall) (record.Call, record.Answer, error) {
	schema, err := s.schemas.Get(m.Schema)
	if err != nil {
		return record.Call{}, record.Answer{}, err
	}
	arguments, err := schema.Arguments(m.Arguments)
	if err != nil {
		return record.Call{}, record.Answer{}, &Failure{Code: CodeInvalidArguments, Message: fmt.Sprintf("%s was not executed: %v.", m.Name, err)}
	}
	whole, err := json.Marshal(arguments) // with the defaults of the schema
	if err != nil {
		return record.Call{}, record.Answer{}, err
	}
	req := Request{
		Toolset: m.Toolset, Tool: m.Tool, Arguments: whole,
		Context: Context{ResultID: r.ResultID, Version: &r.Version, CanvasID: r.CanvasID, model: &m.Shown, approval: m.Approval, leave: m.Leave},
	}
	if err := req.validate(); err != nil {
		return record.Call{}, record.Answer{}, err
	}
	return s.execute(ctx, a, req, reading{arguments: arguments})
}

// ContinueForModel goes on with a call that a model of the actor's made, that waits
// for a person, and that is this process's now. For leave, see ModelCall.Leave.
func (s *Service) ContinueForModel(ctx context.Context, a actor.Actor, callID string, leave error) (record.Answer, error) {
	c, err := s.records.Call(ctx, a, callID)
	if err == nil && (c.Status != record.Waiting || s.approvals == nil) {
		err = record.ErrMissing
	}
	if err != nil {
		return record.Answer{}, err
	}
	var input struct{ Input json.RawMessage }
	if err := json.Unmarshal(c.Input, &input); err != nil {
		return record.Answer{}, err
	}
	d, err := Request{Toolset: c.Toolset, Tool: c.Tool, Arguments: input.Input}.decode()
	if err != nil {
		return record.Answer{}, err
	}
	defer s.records.Work(c.CallID)()
	verdict, err := s.approvals.Continue(ctx, approval.Question{Actor: a, Call: c, Leave: leave})
	if errors.Is(err, approval.ErrLeft) {
		return record.Answer{}, err
	}
	if errors.Is(err, approval.ErrAsked) {
		lost := record.Refuse(record.CodeInterrupted, record.AskedMessage)
		return s.records.Settle(context.WithoutCancel(ctx), c, lost, s.bill(chargeOf(c, false, 0)))
	}
	if err != nil {
		return s.records.Settle(context.WithoutCancel(ctx), c, s.refused(ctx, c, err), s.bill(chargeOf(c, false, 0)))
	}
	// It was let in where it was made, whatever the bounds are.
	visit := s.limiter.Let(s.limitsOf(a, Context{ResultID: c.ResultID}))
	defer visit.Leave()
	ctx, hold := s.large.Open(ctx, a.UID)
	defer hold.Release()
	answer, charge, err := s.checkAndPerform(ctx, job{actor: a, call: c, arguments: d.arguments, visit: visit, verdict: &verdict})
	if err != nil {
		return answer, err
	}
	return s.records.Settle(context.WithoutCancel(ctx), c, answer, s.bill(charge))
}

// Perform records a call that a model made in a run of the actor's of a tool
// that the server is itself, and executes it. What the tool does costs
// nothing. A panic in it costs this call only.
func (s *Service) Perform(ctx context.Context, a actor.Actor, r run.Run, m ModelCall, work func(ctx context.Context) record.Answer) (record.Call, record.Answer, error) {
	input, err := record.WrapInput(m.Arguments)
	if err != nil {
		return record.Call{}, record.Answer{}, err
	}
	c := s.records.FromModel(a, r, m.Shown)
	c.Toolset, c.Tool, c.StepName, c.Input = m.Toolset, m.Tool, m.Tool, input
	if c.Toolset == "" {
		c.Toolset = record.Builtin
	}
	if _, _, err := s.records.Begin(ctx, c, record.Once{}); err != nil {
		return c, record.Answer{}, err
	}
	defer s.records.Work(c.CallID)()
	answer := s.work(ctx, c, work)
	answer, err = s.records.Settle(context.WithoutCancel(ctx), c, answer, s.bill(chargeOf(c, false, 0)))
	return c, answer, err
}

func (s *Service) work(ctx context.Context, c record.Call, work func(ctx context.Context) record.Answer) (answer record.Answer) {
	ctx, cancel := context.WithTimeout(ctx, s.settings.Timeout)
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			s.logger.ErrorContext(ctx, "builtin tool panicked", "callId", c.CallID, "panic", v, "stack", string(debug.Stack()))
			answer = record.Refuse(CodeInternal, internalFault)
		}
	}()
	return work(ctx)
}
