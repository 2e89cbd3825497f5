package tool

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/run/bound"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/tool/approval"
	"github.com/portico-run/portico/modules/toolset"
)

// Codes of calls that nobody allowed.
const (
	CodeApprovalDenied  = "APPROVAL_DENIED"
	CodeApprovalTimeout = "APPROVAL_TIMEOUT"
	CodeTooManyWaiting  = "APPROVAL_TOO_MANY"
)

// job is a call that is being executed.
type job struct {
	actor     actor.Actor
	call      record.Call
	by        record.Grant // what the program that makes it was given
	asked     Context
	arguments map[string]any
	visit     *bound.Visit
	verdict   *approval.Verdict // how the call's wait ended; nil where it has not waited
}

// approved returns when a call may be made, and whether it waited for that. The
// error is why it may not be. ctx is for the wait, and soon for what is read before.
func (s *Service) approved(ctx, soon context.Context, j job, in *Invocation) (waited bool, err error) {
	if s.approvals == nil {
		return false, nil
	}
	if j.verdict != nil {
		return true, s.follow(ctx, j, in, *j.verdict)
	}
	q := question(j, *in)
	need, err := s.approvals.Review(soon, q)
	if err != nil || !need.Waits {
		return false, err
	}
	if least := in.Toolset.Prices.Estimate(priced(j.call, *in), in.Arguments); in.Toolset.Global && least > 0 {
		q.Price = least.String()
	}
	resume, err := PauseOf(ctx)(ctx)
	if err != nil {
		return false, tooMany(err)
	}
	back := j.visit.Rest()
	verdict, err := s.approvals.Wait(ctx, q, need)
	back()
	if resumed := resume(ctx); err == nil && verdict.State == approval.Allowed {
		err = resumed
	}
	if err != nil {
		return true, tooMany(err)
	}
	return true, s.follow(ctx, j, in, verdict)
}

// tooMany makes the refusal of one more wait an answer of the call.
func tooMany(err error) error {
	if errs.CodeOf(err) != errs.RateLimited {
		return err
	}
	return &Failure{Code: CodeTooManyWaiting, Message: "The call needs an approval, and cannot wait for one: " + errs.Message(err) + " Nothing was sent."}
}

// follow goes on as was decided, with the arguments that were.
func (s *Service) follow(ctx context.Context, j job, in *Invocation, v approval.Verdict) error {
	switch {
	case v.State == approval.Refused:
		return &Failure{Code: CodeApprovalDenied, Message: "A person refused the call: " + v.Note, Data: reason(v.Note)}
	case v.State != approval.Allowed:
		return &Failure{Code: CodeApprovalTimeout, Message: v.Note + " Nothing was sent.", Data: reason(v.Note)}
	case ctx.Err() != nil:
		return &Failure{Code: CodeNotExecuted, Message: "The caller went away before the call that was allowed could be made. Nothing was sent."}
	case v.Arguments == nil:
		return nil
	}
	d, err := Request{Toolset: j.call.Toolset, Tool: j.call.Tool, Arguments: v.Arguments}.decode()
	if err != nil {
		return err
	}
	in.Arguments = d.arguments
	return s.fits(in.Arguments, in.Method.Request)
}

// reason is the data of a refusal, for exceptions in programs.
func reason(note string) json.RawMessage {
	text, _ := json.Marshal(map[string]string{"reason": note}) // a text always becomes JSON
	return text
}

// question is what the policy needs to know of a call.
func question(j job, in Invocation) approval.Question {
	return approval.Question{
		Actor: j.actor, Call: j.call, Tool: in.Method.Name, Reads: in.Method.Reads(), Arguments: in.Arguments,
		Toolset: approval.Level(in.Toolset.Approval), Method: approval.Level(in.Method.Approval),
		Request: approval.Level(cmp.Or(j.by.Approval, string(j.asked.approval))), KeyID: cmp.Or(j.by.KeyID, j.actor.KeyID), Host: host(in), Leave: j.asked.leave,
	}
}

// host is where a call goes; empty where only its kind knows.
func host(in Invocation) string {
	for _, address := range []string{in.Method.Endpoint, in.Toolset.Domain} {
		if u, err := url.Parse(address); err == nil && u.Host != "" {
			return u.Host
		}
	}
	return ""
}

// CheckArguments refuses arguments that the schema of a tool of the actor's does
// not take. The error is Invalid.
func (s *Service) CheckArguments(ctx context.Context, a actor.Actor, key, name string, arguments json.RawMessage) error {
	d, err := Request{Toolset: key, Tool: name, Arguments: arguments}.decode()
	if err != nil {
		return err
	}
	t, err := s.catalogue.Identify(ctx, a, key)
	if err != nil {
		return err
	}
	method, _, err := s.catalogue.Method(ctx, a, t, name)
	if err != nil {
		return err
	}
	return s.checked(d, method)
}

func (s *Service) checked(d reading, m toolset.Method) error {
	err := s.fits(d.arguments, m.Request)
	if f, ok := err.(*Failure); ok { //nolint:errorlint // fits returns it as it is
		return errs.New(errs.Invalid, f.Message)
	}
	return err
}
