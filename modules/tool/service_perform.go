package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"unicode/utf8"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/budget"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/internal/schema/jsonschema"
	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/ptc"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/tool/resource"
	"github.com/portico-run/portico/modules/toolset"
)

// fileNameTitle is the argument that names a result's file. It is the
// platform's own, so no upstream sees it.
const fileNameTitle = "file_name_title"

// perform identifies the call, checks it and runs it. Whatever goes wrong
// becomes the answer; a panic costs this call only.
func (s *Service) perform(ctx context.Context, a actor.Actor, c Call, p program, arguments map[string]any, hold *budget.Hold) (r result) {
	defer func() {
		if v := recover(); v != nil {
			s.Logger.ErrorContext(ctx, "tool call panicked", "callId", c.CallID, "panic", v, "stack", string(debug.Stack()))
			r = failed(CodeInternal, "The tool could not be executed because of a fault of the server.")
		}
	}()
	if c.Toolset == ptc.Own {
		return s.performLent(ctx, c, arguments)
	}
	t, err := s.Catalogue.Identify(ctx, a, c.Toolset)
	if err != nil {
		return s.refused(ctx, c, err)
	}
	executor, refusal := s.admit(c, p, t)
	if refusal != nil {
		return *refusal
	}
	method, credential, err := s.Catalogue.Method(ctx, a, t, c.Tool)
	if err != nil {
		return s.refused(ctx, c, err)
	}
	if refusal := callable(c, method); refusal != nil {
		return *refusal
	}
	title, _ := arguments[fileNameTitle].(string)
	delete(arguments, fileNameTitle)
	schema, err := s.schemas.Get(method.Request)
	if err != nil {
		return s.refused(ctx, c, err)
	}
	if problems := schema.Check(arguments); len(problems) > 0 {
		return failed(CodeInvalidArguments, "Invalid arguments: "+join(problems))
	}
	if arguments, err = s.Resources.Inputs(ctx, a, t.Egress, method.Request, arguments); err != nil {
		return s.refusedInput(ctx, c, err)
	}
	if err := s.Billing.Admit(ctx, chargeOf(c, t.Global, t.Prices.Estimate(c.Tool, arguments))); err != nil {
		return s.refused(ctx, c, err)
	}
	if decoded(method) {
		hold.Heavy()
	}
	outcome, err := executor.Execute(ctx, Invocation{
		CallID: c.CallID, UID: c.UID, Toolset: t, Method: method, Credential: credential,
		Arguments: arguments, FileNameTitle: title,
		Progress: func(ctx context.Context, text string) { s.progress(ctx, c, text) },
	})
	if err != nil {
		return s.refused(ctx, c, err)
	}
	if outcome.Failure != nil && late(ctx) {
		return s.timedOut()
	}
	raw := outcome.Data // what the upstream said, which prices may depend on
	files := s.keep(ctx, a, c, t, method, title, &outcome)
	if r = s.conclude(ctx, c, outcome); r.answer.Status == Success {
		r.price, r.global = s.price(ctx, c, t, outcome.Cost, arguments, raw), t.Global
	}
	r.answer.Files = files
	return r
}

// decoded reports whether results of a method are decoded on their way, which
// takes many times their size.
func decoded(m toolset.Method) bool {
	return !m.Verbatim || bytes.Contains(m.Response, []byte(`"isResource"`))
}

// refusedInput is the answer for a file that cannot be used.
func (s *Service) refusedInput(ctx context.Context, c Call, err error) result {
	if e, ok := errors.AsType[*errs.Error](err); ok && errors.Is(err, resource.ErrInput) {
		return failed(CodeInvalidArguments, e.Detail)
	}
	return s.refused(ctx, c, err)
}

// keep stores the files of an outcome and puts their descriptions into its
// data. A file that cannot be kept does not undo the call.
func (s *Service) keep(ctx context.Context, a actor.Actor, c Call, t toolset.Toolset, m toolset.Method, title string, o *Outcome) []any {
	if o.Failure != nil {
		return nil
	}
	of := resource.Call{ID: c.CallID, CreatedAt: c.CreatedAt, CanvasID: c.CanvasID, Title: title, Egress: t.Egress, Stored: o.StoredFiles}
	if c.InRun() {
		of.ResultID, of.Version = c.ResultID, c.Version
	}
	if title == "" {
		of.Title = c.Tool
	}
	var files []any
	var problems []error
	if o.File != nil {
		kept, err := s.Resources.Keep(ctx, a, of, *o.File)
		if err == nil {
			o.Data, err = json.Marshal(kept)
		}
		if err != nil {
			s.Logger.ErrorContext(ctx, "a tool's file was not kept", "callId", c.CallID, "error", err)
			o.Failure = &Failure{Code: "FILE_NOT_KEPT", Message: fmt.Sprintf("The tool returned a file of %d bytes, which could not be kept: %s", len(o.File.Content), errs.Message(err))}
			return nil
		}
		return []any{kept}
	}
	o.Data, files, problems = s.Resources.Outputs(ctx, a, of, m.Response, o.Data)
	for _, err := range problems {
		s.Logger.WarnContext(ctx, "a file of a result was not kept", "callId", c.CallID, "error", err)
	}
	return files
}

// progress shows a sentence about a call that takes long. What cannot be shown
// is no reason to end the call.
func (s *Service) progress(ctx context.Context, c Call, text string) {
	if !c.InRun() {
		return
	}
	err := s.Stores.DB.InTx(ctx, func(tx database.Tx) error {
		_, err := s.Stores.Runs.Append(ctx, tx, c.UID, c.ResultID, c.Version, run.NewEvent{
			Type: run.Log, CallID: c.CallID, Payload: map[string]any{"log": map[string]any{"level": "info", "content": text}},
		})
		return err
	})
	if err != nil && !errors.Is(err, run.ErrEnded) {
		s.Logger.WarnContext(ctx, "progress is not shown", "callId", c.CallID, "error", err)
	}
}

// conclude turns what an executor returned into a result that every database
// and reader takes: valid JSON, valid UTF-8, no NUL.
func (s *Service) conclude(ctx context.Context, c Call, o Outcome) result {
	if f := o.Failure; f != nil {
		r := failed(f.Code, strings.ReplaceAll(strings.ToValidUTF8(f.Message, "\uFFFD"), "\x00", "\uFFFD"))
		if json.Valid(f.Data) {
			r.answer.Data = validText(f.Data)
		}
		return r
	}
	if len(o.Data) == 0 {
		o.Data = json.RawMessage("null")
	}
	if !json.Valid(o.Data) {
		return s.refused(ctx, c, errors.New("the executor returned data that is not JSON"))
	}
	if o.Data = validText(o.Data); len(o.Data) > s.Settings.ResultCap {
		f := upstream.TooLarge(int64(len(o.Data)), int64(s.Settings.ResultCap))
		return failed(f.Code, f.Message)
	}
	return result{answer: Answer{Status: Success, Data: o.Data}}
}

// validText is bytes.ToValidUTF8 without the copy of a text that is valid.
func validText(text []byte) []byte {
	if utf8.Valid(text) {
		return text
	}
	return bytes.ToValidUTF8(text, []byte("\uFFFD"))
}

// admit decides whether this call may reach this kind of toolset.
func (s *Service) admit(c Call, p program, t toolset.Toolset) (Executor, *result) {
	if t.Unsupported != "" {
		r := failed(CodeUnsupportedType, fmt.Sprintf("Toolset %s not supported: %s", c.Toolset, t.Unsupported))
		return nil, &r
	}
	if c.Origin == ids.PTC {
		if !s.Policy.AllowsToolset(t.Key) {
			r := failed(CodeNotAllowed, fmt.Sprintf("Toolset %s may not be called from code: the administrator's lists exclude it.", t.Key))
			return nil, &r
		}
		if !p.selects(t.Key, c.Tool) {
			r := failed(CodeNotAllowed, fmt.Sprintf("Tool %s of toolset %s was not selected for this run; it may call: %s.", c.Tool, t.Key, strings.Join(p.selected[t.Key], ", ")))
			return nil, &r
		}
		if !p.allows(t.Key) {
			given := "it may call: " + strings.Join(p.toolsets, ", ")
			if len(p.toolsets) == 0 {
				given = "it was given none"
			}
			r := failed(CodeNotAllowed, fmt.Sprintf("Toolset %s was not given to this program; %s.", t.Key, given))
			return nil, &r
		}
	}
	executor, ok := s.Executors[t.Kind]
	if !ok {
		r := failed(CodeUnsupportedType, fmt.Sprintf("Toolset %s is of type %s, which this server cannot execute.", t.Key, t.Kind))
		return nil, &r
	}
	return executor, nil
}

// callable decides whether this caller may call a method. People and scripts
// may call all of them.
func callable(c Call, m toolset.Method) *result {
	var r result
	switch callers := m.Callers(); {
	case c.Origin == ids.PTC && !callers.Code:
		r = failed(CodeCallerNotAllowed, fmt.Sprintf("Tool %s may not be called from code; it is a tool call of its own.", m.Name))
	case c.Origin == ids.Agent && !callers.Direct:
		r = failed(CodeCallerNotAllowed, fmt.Sprintf("Tool %s may be called from code only.", m.Name))
	default:
		return nil
	}
	return &r
}

// price is what a successful call costs. The call had its effect and is not
// lost for a price that cannot be found; the operator must know, since it goes
// out for less, or nothing.
func (s *Service) price(ctx context.Context, c Call, t toolset.Toolset, cost *money.Amount, arguments map[string]any, raw json.RawMessage) money.Amount {
	if cost != nil {
		return *cost
	}
	q, err := t.Prices.Price(c.Tool, arguments, raw)
	switch {
	case err != nil:
		s.Logger.ErrorContext(ctx, "call has no price and is not billed", "callId", c.CallID, "toolset", c.Toolset, "tool", c.Tool, "error", err)
		return 0
	case q.Problem != nil:
		s.Logger.ErrorContext(ctx, "the formula of a call gave no price; its other price is billed", "callId", c.CallID, "toolset", c.Toolset, "tool", c.Tool, "error", q.Problem)
	}
	return q.Price
}

// late tells whether the call's time is up. Whatever fails then, in a query or
// in the executor, failed for that.
func late(ctx context.Context) bool { return errors.Is(ctx.Err(), context.DeadlineExceeded) }

func (s *Service) timedOut() result {
	return failed(CodeTimeout, fmt.Sprintf("The call did not finish within %s.", s.Settings.Timeout))
}

// refused is the answer for an error of our own: its public sentence, or a
// general one with the cause in the log.
func (s *Service) refused(ctx context.Context, c Call, err error) result {
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
		r := failed(f.Code, f.Message)
		r.answer.Data = f.Data
		return r
	}
	if e, ok := errors.AsType[*errs.Error](err); ok && (e.Code.Status() < 500 || e.Code == errs.Unavailable) {
		return failed(code, strings.TrimSpace(e.Message+" "+e.Detail))
	}
	s.Logger.ErrorContext(ctx, "tool call failed inside the server", "callId", c.CallID, "error", err)
	return failed(CodeInternal, "The tool could not be executed because of a fault of the server.")
}

func failed(code, message string) result {
	return result{answer: Answer{Status: errorStatus, Error: message, ErrorCode: code}}
}

func join(problems []jsonschema.Problem) string {
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "; ")
}
