package tool

import (
	"cmp"
	"context"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/internal/telemetry/trace"
	"github.com/portico-run/portico/modules/billing"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
)

// Execute runs one tool for the actor. The answer is as it is recorded: data
// over the output cap is shortened, and the whole is returned besides; who gets
// it closes it.
//
// A tool that fails is an Answer, not an error: the request worked. Errors
// are requests that could not be taken (malformed, foreign ids, a program
// that has ended, a key used twice) and outages; none of them leaves a record
// that is executing.
func (s *Service) Execute(ctx context.Context, a actor.Actor, req Request) (record.Answer, *record.Whole, error) {
	d, err := req.decode()
	if err != nil {
		return record.Answer{}, nil, err
	}
	call, answer, err := s.execute(ctx, a, req, d)
	if err != nil {
		return answer, nil, err
	}
	whole, err := s.records.Whole(ctx, a, call.CallID, answer)
	return answer, whole, err
}

// execute runs a call whose request was read, and returns its record as
// it was when the call began.
func (s *Service) execute(ctx context.Context, a actor.Actor, req Request, d reading) (record.Call, record.Answer, error) {
	visit, err := s.enter(ctx, a, req.Context)
	if err != nil {
		return record.Call{}, record.Answer{}, err
	}
	defer visit.Leave()
	call, grant, err := s.place(ctx, a, req)
	if err != nil {
		return call, record.Answer{}, err
	}
	recorded, answer, err := s.records.Begin(ctx, call, d.once)
	if err != nil || recorded != call.CallID {
		call.CallID = recorded
		return call, answer, cmp.Or(err, s.stillCalls(ctx, a, call))
	}
	defer s.records.Work(call.CallID)()

	ctx, span := trace.Start(ctx, trace.Call)
	defer span.End()
	span.Set("portico.call.id", call.CallID)
	span.Set("portico.run.id", call.ResultID)
	span.Set("portico.toolset", call.Toolset)
	span.Set("portico.tool", call.Tool)
	ctx, hold := s.large.Open(ctx, a.UID)
	defer hold.Release()
	answer, charge, err := s.checkAndPerform(ctx, job{actor: a, call: call, by: grant, asked: req.Context, arguments: d.arguments, visit: visit})
	if how := went(answer, err); how != Succeeded {
		span.Fail(string(how))
	}
	if err != nil {
		return call, answer, err
	}
	// From here on the caller may be gone: what happened is recorded anyway.
	answer, err = s.records.Settle(context.WithoutCancel(ctx), call, answer, s.bill(charge))
	return call, answer, err
}

// stillCalls refuses the answer of an earlier request to a program that has
// ended: it is not a call that Begin would refuse.
func (s *Service) stillCalls(ctx context.Context, a actor.Actor, c record.Call) error {
	if c.ParentID == "" {
		return nil
	}
	_, _, err := s.records.CallerNow(ctx, a, c.ParentID)
	return err
}

// place checks where the call claims to be made and returns its record, with what
// the program that makes it may call.
func (s *Service) place(ctx context.Context, a actor.Actor, req Request) (c record.Call, by record.Grant, err error) {
	c = record.Call{
		Origin: ids.Standalone, UID: a.UID, ResultID: req.Context.ResultID, CanvasID: req.Context.CanvasID,
		Toolset: req.Toolset, Tool: req.Tool, Line: req.Context.Line, Status: record.Executing, CreatedAt: s.settings.Now(),
	}
	if req.Context.Version != nil {
		c.Version = *req.Context.Version
	}
	if m := req.Context.model; m != nil {
		c.Origin, c.StepName = ids.Agent, req.Tool
		c.CallID, c.ShownBy = m.CallID, m.Event
	}
	if req.Context.ParentID != "" || a.Scope == actor.ToolExecute {
		parent, given, err := s.records.Caller(ctx, a, req.Context.ParentID)
		if err != nil {
			return c, by, err
		}
		if c.ResultID != "" && (c.ResultID != parent.ResultID || (req.Context.Version != nil && c.Version != parent.Version)) {
			return c, by, record.ErrResultForeign.Do("The program belongs to another run: send its own run, or leave the header out.")
		}
		c.ResultID, c.Version = parent.ResultID, parent.Version
		c.Origin, c.ParentID, c.StepName = ids.PTC, parent.CallID, parent.StepName
		by = given
	}
	if err := s.records.CheckClaims(ctx, c); err != nil {
		return c, by, err
	}
	if c.ResultID == "" {
		c.ResultID, c.Version = run.NoResult, 0
	}
	if c.CallID == "" {
		c.CallID = s.records.NewID(c.Origin)
	}
	c.Input, err = req.input()
	return c, by, err
}

// bill charges a call in the transaction that records its end.
func (s *Service) bill(charge billing.Charge) func(ctx context.Context, tx database.Tx) error {
	return func(ctx context.Context, tx database.Tx) error {
		_, err := s.billing.Charge(ctx, tx, charge)
		return err
	}
}

// chargeOf is what a call of somebody's own toolset costs, or, where the toolset
// is global, of everybody's.
func chargeOf(c record.Call, global bool, price money.Amount) billing.Charge {
	charge := billing.Charge{
		CallID: c.CallID, UID: c.UID, Version: c.Version, Toolset: c.Toolset, Tool: c.Tool, Global: global, Price: price,
	}
	if c.InRun() {
		charge.ResultID = c.ResultID
	}
	return charge
}
