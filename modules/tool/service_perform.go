package tool

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/budget"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/billing"
	"github.com/portico-run/portico/modules/ptc"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/tool/approval"
	"github.com/portico-run/portico/modules/tool/resource"
	"github.com/portico-run/portico/modules/toolset"
)

// fileNameTitle is the argument that names a result's file. It is the
// platform's own, so no upstream sees it.
const fileNameTitle = "file_name_title"

const internalFault = "The tool could not be executed because of a fault of the server."

// checkAndPerform executes a call of a toolset, or of a function of the
// server's own. It returns what a call that completed costs. Whatever goes wrong
// becomes the answer; a panic costs this call only. The error is approval.ErrLeft: the
// call waits on, and has no answer.
func (s *Service) checkAndPerform(ctx context.Context, j job) (answer record.Answer, charge billing.Charge, err error) {
	c := j.call
	charge = chargeOf(c, false, 0)
	var in Invocation
	unbounded, began := ctx, time.Now()
	defer func() { s.observe(in.Toolset.Kind, answer, err, time.Since(began)) }() // after what recovers
	ctx, cancel := context.WithTimeout(ctx, s.settings.Timeout)
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			s.logger.ErrorContext(ctx, "tool call panicked", "callId", c.CallID, "panic", v, "stack", string(debug.Stack()))
			answer = record.Refuse(CodeInternal, internalFault)
		}
	}()
	if c.Toolset == ptc.Own {
		in.Toolset.Kind = Functions
		return s.performOwn(ctx, j), charge, nil
	}
	var executor Executor
	in, executor, err = s.check(ctx, j)
	if err != nil {
		return s.refused(ctx, c, err), charge, nil
	}
	left := s.settings.Timeout - time.Since(began)
	waited, err := s.approved(unbounded, ctx, j, &in)
	if waited {
		began = time.Now()
	}
	switch {
	case errors.Is(err, approval.ErrLeft):
		return answer, charge, err
	case err != nil && waited:
		return s.refused(unbounded, c, err), charge, nil
	case err != nil:
		return s.refused(ctx, c, err), charge, nil
	case waited || in.Toolset.Kind == toolset.MCP: // the time of a wait does not count
		var c *clock
		ctx, c = newClock(unbounded, left)
		defer c.stop()
		in.Ask = s.asking(unbounded, j, in, c)
	}
	if err := s.ready(ctx, j, &in); err != nil {
		return s.refused(ctx, c, err), charge, nil
	}
	answer, price := s.perform(ctx, j.actor, c, in, executor)
	return answer, chargeOf(c, in.Toolset.Global, price), nil
}

// check identifies a call and checks it. The error is why it is not executed.
func (s *Service) check(ctx context.Context, j job) (in Invocation, executor Executor, err error) {
	a, c := j.actor, j.call
	t, err := s.catalogue.Identify(ctx, a, c.Toolset)
	if err != nil {
		return in, nil, err
	}
	in.Toolset = t
	if executor, err = s.admit(ctx, c, j.by, t); err != nil {
		return in, nil, err
	}
	method, credential, err := s.catalogue.Method(ctx, a, t, c.Tool)
	if err != nil {
		return in, nil, err
	}
	if err := callable(c, j.by, method); err != nil {
		return in, nil, err
	}
	title, _ := j.arguments[fileNameTitle].(string)
	delete(j.arguments, fileNameTitle)
	if c.Origin != ids.Agent { // those of a model are checked against what it was shown
		if err := s.fits(j.arguments, method.Request); err != nil {
			return in, nil, err
		}
	}
	return Invocation{
		CallID: c.CallID, UID: c.UID, Toolset: t, Method: method, Credential: credential, Arguments: j.arguments, FileNameTitle: title,
		Progress: func(ctx context.Context, text string) { s.progress(ctx, c, text) },
	}, executor, nil
}

// ready fetches the files that go into a call that may be made, and holds its
// price.
func (s *Service) ready(ctx context.Context, j job, in *Invocation) (err error) {
	if in.Arguments, err = s.resources.Inputs(ctx, j.actor, in.Toolset.Egress, in.Method.Request, in.Arguments); err != nil {
		return err
	}
	least := in.Toolset.Prices.Estimate(priced(j.call, *in), in.Arguments)
	return s.billing.Admit(ctx, chargeOf(j.call, in.Toolset.Global, least))
}

// fits checks arguments against the schema of a method, and fills in its defaults.
func (s *Service) fits(arguments map[string]any, request json.RawMessage) error {
	schema, err := s.schemas.Get(request)
	if err != nil {
		return err
	}
	if problems := schema.Check(arguments); len(problems) > 0 {
		return &Failure{Code: CodeInvalidArguments, Message: "Invalid arguments: " + problems.String()}
	}
	return nil
}

// perform lets the executor make a call that may be made, and returns what it
// costs if it succeeded.
func (s *Service) perform(ctx context.Context, a actor.Actor, c record.Call, in Invocation, executor Executor) (record.Answer, money.Amount) {
	if decoded(in.Method) {
		budget.Heavy(ctx)
	}
	outcome, err := executor.Execute(ctx, in)
	if err != nil {
		return s.refused(ctx, c, err), 0
	}
	if outcome.Failure != nil && late(ctx) {
		return s.timedOut(), 0
	}
	raw := outcome.Data // what the upstream said, which prices may depend on
	files := s.storeFiles(ctx, a, c, in, &outcome)
	answer := s.conclude(ctx, c, outcome)
	answer.Files = files
	switch {
	case answer.Status != record.Success:
		return answer, 0
	case outcome.Cost != nil:
		return answer, *outcome.Cost
	}
	return answer, s.price(ctx, c, in, raw)
}

// decoded reports whether results of a method are decoded on their way, which
// takes many times their size.
func decoded(m toolset.Method) bool {
	return !m.Verbatim || bytes.Contains(m.Response, []byte(`"isResource"`))
}

// storeFiles stores the files of an outcome and puts their descriptions into its
// data. A file that cannot be stored does not undo the call.
func (s *Service) storeFiles(ctx context.Context, a actor.Actor, c record.Call, in Invocation, o *Outcome) []any {
	if o.Failure != nil {
		return nil
	}
	of := resource.Origin{Call: c, Title: cmp.Or(in.FileNameTitle, c.Tool), Egress: in.Toolset.Egress, Names: map[string]bool{}, Stored: o.StoredFiles}
	var files []any
	var problems []error
	if o.File != nil {
		kept, err := s.resources.Keep(ctx, a, of, *o.File)
		if err == nil {
			o.Data, err = json.Marshal(kept)
		}
		if err != nil {
			s.logger.ErrorContext(ctx, "a tool's file was not kept", "callId", c.CallID, "error", err)
			o.Failure = &Failure{Code: codeFileNotKept, Message: fmt.Sprintf("The tool returned a file of %d bytes, which could not be kept: %s", len(o.File.Content), errs.Message(err))}
			return nil
		}
		return []any{kept}
	}
	if len(o.Files) > 0 {
		return s.keepFiles(ctx, a, of, o)
	}
	o.Data, files, problems = s.resources.Outputs(ctx, a, of, in.Method.Response, o.Data)
	for _, err := range problems {
		s.logger.WarnContext(ctx, "a file of a result was not kept", "callId", c.CallID, "error", err)
	}
	return files
}

// keepFiles stores what came besides the data of an outcome.
func (s *Service) keepFiles(ctx context.Context, a actor.Actor, of resource.Origin, o *Outcome) []any {
	files := make([]any, len(o.Files))
	for i, f := range o.Files {
		if f.Name == "" && len(o.Files) > 1 {
			of.Title = fmt.Sprintf("%s-%d", cmp.Or(of.Title, of.Call.Tool), i+1)
		}
		kept, err := s.resources.Keep(ctx, a, of, f)
		if err != nil {
			s.logger.ErrorContext(ctx, "a tool's file was not kept", "callId", of.Call.CallID, "error", err)
			o.Failure = &Failure{Code: codeFileNotKept, Message: fmt.Sprintf("The tool returned a file of %d bytes, which could not be kept: %s", len(f.Content), errs.Message(err))}
			return nil
		}
		files[i] = kept
	}
	if o.WithFiles == nil {
		return files
	}
	var err error
	if o.Data, err = o.WithFiles(files); err != nil {
		s.logger.ErrorContext(ctx, "the files of a result cannot be described", "callId", of.Call.CallID, "error", err)
		o.Failure = &Failure{Code: CodeInternal, Message: internalFault}
	}
	return files
}

// progress shows a sentence about a call that takes long. What cannot be shown
// is no reason to end the call.
func (s *Service) progress(ctx context.Context, c record.Call, text string) {
	if err := s.records.Progress(ctx, c, text); err != nil {
		s.logger.WarnContext(ctx, "progress is not shown", "callId", c.CallID, "error", err)
	}
}

// conclude turns what an executor returned into a result that every database
// and reader takes: valid JSON, valid UTF-8, no NUL.
func (s *Service) conclude(ctx context.Context, c record.Call, o Outcome) record.Answer {
	if f := o.Failure; f != nil {
		a := record.Refuse(f.Code, strings.ReplaceAll(strings.ToValidUTF8(f.Message, "\uFFFD"), "\x00", "\uFFFD"))
		if json.Valid(f.Data) {
			a.Data = validText(f.Data)
		}
		return a
	}
	if len(o.Data) == 0 {
		o.Data = json.RawMessage("null")
	}
	if !json.Valid(o.Data) {
		return s.refused(ctx, c, errors.New("the executor returned data that is not JSON"))
	}
	if o.Data = validText(o.Data); len(o.Data) > s.settings.ResultCap {
		f := upstream.TooLarge(int64(len(o.Data)), int64(s.settings.ResultCap))
		return record.Refuse(f.Code, f.Message)
	}
	return record.Answer{Status: record.Success, Data: o.Data}
}

// validText is bytes.ToValidUTF8 without the copy of a text that is valid.
func validText(text []byte) []byte {
	if utf8.Valid(text) {
		return text
	}
	return bytes.ToValidUTF8(text, []byte("\uFFFD"))
}

// admit decides whether this call may reach this kind of toolset.
func (s *Service) admit(ctx context.Context, c record.Call, by record.Grant, t toolset.Toolset) (Executor, error) {
	switch t.Kind {
	case toolset.MCP:
		if !s.executesMCP(ctx, c) {
			return nil, &Failure{Code: CodeUnsupportedType, Message: fmt.Sprintf("Toolset %s not supported: MCP tool execution is not supported.", c.Toolset)}
		}
	case toolset.Builtin:
		return nil, &Failure{Code: CodeUnsupportedType, Message: fmt.Sprintf("Toolset %s not supported: builtin tool execution is not supported.", c.Toolset)}
	}
	if c.Origin == ids.PTC {
		if !s.policy.AllowsToolset(t.Key) {
			return nil, &Failure{Code: CodeNotAllowed, Message: fmt.Sprintf("Toolset %s may not be called from code: the administrator's lists exclude it.", t.Key)}
		}
		if !by.Selects(t.Key, c.Tool) {
			return nil, &Failure{Code: CodeNotAllowed, Message: fmt.Sprintf("Tool %s of toolset %s was not selected for this run; it may call: %s.", c.Tool, t.Key, strings.Join(by.Selected[t.Key], ", "))}
		}
		if !by.Allows(t.Key) {
			given := "it may call: " + strings.Join(by.Toolsets, ", ")
			if len(by.Toolsets) == 0 {
				given = "it was given none"
			}
			return nil, &Failure{Code: CodeNotAllowed, Message: fmt.Sprintf("Toolset %s was not given to this program; %s.", t.Key, given)}
		}
	}
	executor, ok := s.executors[t.Kind]
	if !ok {
		return nil, &Failure{Code: CodeUnsupportedType, Message: fmt.Sprintf("Toolset %s is of type %s, which this server cannot execute.", t.Key, t.Kind)}
	}
	return executor, nil
}

// callable decides whether this caller may call a method. People and scripts
// may call all of them.
func callable(c record.Call, by record.Grant, m toolset.Method) error {
	switch callers := m.Callers(); {
	case c.Origin == ids.PTC && !callers.Code:
		return &Failure{Code: CodeCallerNotAllowed, Message: fmt.Sprintf("Tool %s may not be called from code; it is a tool call of its own.", m.Name)}
	case c.Origin == ids.Agent && !callers.Direct:
		return &Failure{Code: CodeCallerNotAllowed, Message: fmt.Sprintf("Tool %s may be called from code only.", m.Name)}
	case by.ReadOnly && !m.Reads():
		return mayChange(m.Name)
	}
	return nil
}

// priced is what the prices of a toolset call the tool of a call.
func priced(c record.Call, in Invocation) string { return cmp.Or(in.Method.Priced, c.Tool) }

// price is what a successful call costs. The call had its effect and is not
// lost for a price that cannot be found; the operator must know, since it goes
// out for less, or nothing.
func (s *Service) price(ctx context.Context, c record.Call, in Invocation, raw json.RawMessage) money.Amount {
	q, err := in.Toolset.Prices.Price(priced(c, in), in.Arguments, raw)
	switch {
	case err != nil:
		s.logger.ErrorContext(ctx, "call has no price and is not billed", "callId", c.CallID, "toolset", c.Toolset, "tool", c.Tool, "error", err)
		return 0
	case q.Problem != nil:
		s.logger.ErrorContext(ctx, "the formula of a call gave no price; its other price is billed", "callId", c.CallID, "toolset", c.Toolset, "tool", c.Tool, "error", q.Problem)
	}
	return q.Price
}

// late tells whether the call's time is up. Whatever fails then, in a query or
// in the executor, failed for that. A connection has a timer of its own, which may
// ring a moment before the context's.
func late(ctx context.Context) bool {
	end, bounded := ctx.Deadline()
	return errors.Is(context.Cause(ctx), context.DeadlineExceeded) || bounded && ctx.Err() == nil && !time.Now().Before(end)
}

func (s *Service) timedOut() record.Answer {
	return record.Refuse(CodeTimeout, fmt.Sprintf("The call did not finish within %s.", s.settings.Timeout))
}

// refused is the answer for an error of our own: its public sentence, or a
// general one with the cause in the log.
func (s *Service) refused(ctx context.Context, c record.Call, err error) record.Answer {
	if late(ctx) {
		return s.timedOut()
	}
	code := CodeInternal
	switch errs.CodeOf(err) {
	case errs.ToolsetMissing:
		code = CodeToolsetNotFound
	case errs.NotFound:
		code = CodeMethodNotFound
	case errs.Forbidden:
		code = CodeNotAuthorized
	case errs.Unavailable:
		code = upstream.CodeUnavailable
	case errs.NoCredits:
		code = CodeSpendingLimit
	}
	if f, ok := errors.AsType[*Failure](err); ok { // what a provider said
		a := record.Refuse(f.Code, f.Message)
		a.Data = f.Data
		return a
	}
	e, ok := errors.AsType[*errs.Error](err)
	if ok && errors.Is(err, resource.ErrInput) {
		return record.Refuse(CodeInvalidArguments, e.Detail)
	}
	if ok && (e.Code.Status() < 500 || e.Code == errs.Unavailable) {
		return record.Refuse(code, strings.TrimSpace(e.Message+" "+e.Detail))
	}
	s.logger.ErrorContext(ctx, "tool call failed inside the server", "callId", c.CallID, "error", err)
	return record.Refuse(CodeInternal, internalFault)
}

// mayChange refuses a program that may only read.
func mayChange(name string) error {
	return &Failure{Code: CodeCallerNotAllowed, Message: fmt.Sprintf("Tool %s may change something, and this program may only read.", name)}
}
