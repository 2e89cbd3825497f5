package program

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/telemetry/trace"
	"github.com/portico-run/portico/modules/account"
	"github.com/portico-run/portico/modules/catalogue"
	"github.com/portico-run/portico/modules/program/flat"
	"github.com/portico-run/portico/modules/ptc"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sdkbundle"
)

// Service runs programs.
type Service struct {
	deps    Deps
	work    *work
	keeping time.Duration // bounds how long the files of one program are stored
}

// settleTimeout bounds the final records of a program, whose caller may be
// gone.
const settleTimeout = time.Minute

// Execute runs a program for the actor and returns when it has ended and is
// recorded. A program that fails is an Outcome; errors are requests that could
// not be taken and outages. When ctx ends, so does the program.
func (s *Service) Execute(ctx context.Context, a actor.Actor, req Request) (Outcome, error) {
	o, err := s.Open(ctx, a, req)
	if err != nil {
		return Outcome{}, err
	}
	working, done := s.follow(ctx, o, false)
	defer done()
	return s.execute(ctx, working, o, nil)
}

// execute runs a program that is recorded, while working has not ended, and records its
// end. begun, where it is not nil, is called when the sandbox has taken the program.
func (s *Service) execute(ctx, working context.Context, o *Opened, begun func()) (Outcome, error) {
	o.stream()
	running := o.Begins()
	x, err := s.deps.Sandbox.Begin(working, o.Job)
	var result sandbox.Result
	if err == nil {
		x = running(x)
		if begun != nil {
			begun()
		}
		result, err = x.Result()
	}
	if cause := context.Cause(working); err != nil && (errors.Is(cause, errAborted) || errors.Is(cause, errStopped)) {
		result, err = sandbox.Result{Status: sandbox.Cancelled, ExitCode: sandbox.ExitKilled}, nil
	}
	return o.Close(ctx, result, err)
}

// Opened is a program that is recorded as running. Whoever opened it loads its
// files, runs its job, which may be added to, and closes it.
type Opened struct {
	// Job has the program's identity, its SDK and its way to the tools.
	Job sandbox.Job
	// Interpreter is what is recorded of the one that runs the code, if it stays.
	Interpreter Interpreter

	service  *Service
	actor    actor.Actor
	run      run.Run
	ours     bool // the end of the program is the end of the run
	call     record.Call
	log      *liveLog
	folder   folder
	warnings []string
	waits    *waits
	span     trace.Span
}

// Open makes a program ready: it decides whether it may call tools, and gives
// it a run, a record, an identity and the SDK.
func (s *Service) Open(ctx context.Context, a actor.Actor, req Request) (*Opened, error) {
	if err := req.prepare(s.deps.Settings, s.deps.Sandbox.Languages()); err != nil {
		return nil, err
	}
	given, err := s.give(ctx, a, req)
	if err != nil {
		return nil, err
	}
	r, ours, err := s.run(ctx, a, req)
	if err != nil {
		return nil, err
	}
	folder, late, err := s.folder(ctx, a, r.CanvasID)
	if err != nil {
		return nil, errors.Join(err, s.abandon(ctx, r, ours, err))
	}
	call, err := s.deps.Records.OpenProgram(ctx, a, r, record.ProgramInput{
		Code: req.Code, Language: string(req.Language), Toolsets: req.Toolsets, Plain: req.Plain, Tool: req.Tool,
		Selected: req.Selected, Shown: req.Shown, TimeoutMS: req.Timeout.Milliseconds(), KeyID: a.KeyID, Approval: string(req.Approval), ReadOnly: req.ReadOnly,
	})
	if err != nil {
		return nil, errors.Join(err, s.abandon(ctx, r, ours, err))
	}
	s.deps.Access.Functions.Lend(call.CallID, req.Functions)
	ctx, span := trace.Start(ctx, trace.Program)
	span.Set("portico.call.id", call.CallID)
	span.Set("portico.run.id", r.ResultID)
	span.Set("portico.language", string(req.Language))
	id := identity{key: given.key, call: call, trace: httpapi.TraceID(ctx), span: trace.Of(ctx)}
	o := &Opened{span: span, service: s, actor: a, run: r, ours: ours, call: call, log: s.openLog(ctx, call), warnings: append(given.warnings, late...), folder: folder, waits: newWaits()}
	o.Job = sandbox.Job{
		Owner: a.UID, Code: req.Code, Language: req.Language, Env: id.environment(s.deps.Access.Policy.SandboxDebug()), Files: given.files,
		Timeout: req.Timeout, Gateway: gateway{id: id, api: s.deps.Access.API, catalogue: given.catalogue, waits: o.waits}, Loopback: true, Stubs: given.stubs, Output: o.log.line,
		Collect: folder.collect,
	}
	if req.Plain {
		o.Job.Env, o.Job.Gateway, o.Job.Loopback = nil, closed{}, false
	}
	return o, nil
}

// CallID is the id of the program's record, ResultID that of its run.
func (o *Opened) CallID() string { return o.call.CallID }

// ResultID is the id of the run that the program works in.
func (o *Opened) ResultID() string { return o.run.ResultID }

// Begins is called before a sandbox is given the job, and what it returns when the
// sandbox runs it: the clock of the program stands while a call of it waits for a
// person then. Whoever pauses the job besides uses the execution that comes back.
func (o *Opened) Begins() (begun func(x sandbox.Execution) sandbox.Execution) {
	o.waits.begins = true
	return func(x sandbox.Execution) sandbox.Execution {
		x = &counted{Execution: x}
		o.waits.begun(x)
		return x
	}
}

// Warn adds a warning to the outcome.
func (o *Opened) Warn(text string) { o.warnings = append(o.warnings, text) }

// Close records how the program ended, or that the sandbox did not take it or
// lost it, and returns that error; the outcome has the calls then, no more. It works when ctx has ended.
func (o *Opened) Close(ctx context.Context, result sandbox.Result, failed error) (Outcome, error) {
	s := o.service
	defer s.deps.Access.Functions.TakeBack(o.call.CallID)
	defer o.span.End()
	ctx = context.WithoutCancel(ctx)
	o.log.close()
	if failed != nil {
		o.span.Fail("not run")
		return s.refuse(ctx, o, failed)
	}
	if failure := result.Status.Failure(); failure != "" {
		o.span.Fail(string(failure))
	}
	kept, warnings := s.keep(ctx, o, result)
	return s.settle(ctx, o.actor, o.call, Outcome{
		Stdout: result.Stdout, Stderr: result.Stderr, ExitCode: result.ExitCode, Status: result.Status, ErrorCode: result.Status.Failure(),
		DurationMS: result.Duration.Milliseconds(), ResultID: o.run.ResultID, Version: o.run.Version, CallID: o.call.CallID,
		Files: kept, Warnings: append(o.warnings, warnings...), dropped: [2]int64{result.StdoutDropped, result.StderrDropped}, interpreter: o.Interpreter,
	}, o.ours)
}

// given is what a program gets of the tools.
type given struct {
	key       account.Plaintext
	files     []sandbox.File
	stubs     []sandbox.Stub
	catalogue *catalogue.Catalogue
	warnings  []string
}

func (s *Service) give(ctx context.Context, a actor.Actor, req Request) (g given, err error) {
	if req.Plain {
		return given{warnings: []string{}}, nil
	}
	if err := s.decide(ptc.Question{UID: a.UID, Toolsets: req.Toolsets, Title: req.Title}); err != nil {
		return g, err
	}
	named, err := s.named(ctx, a, req)
	if err != nil {
		return g, err
	}
	bundle, warnings, err := s.bundle(ctx, a, named.classes)
	if err != nil {
		return g, err
	}
	g = given{files: files(bundle), warnings: append(warnings, named.warnings...)}
	if g.stubs, g.catalogue, err = s.tools(ctx, a, req, named, bundle.Classes()); err != nil {
		return g, err
	}
	g.key, err = s.deps.Access.Keys.TemporaryKey(ctx, a)
	return g, err
}

// decide refuses a program where the policy says no, with the reason.
func (s *Service) decide(q ptc.Question) error {
	d := s.deps.Access.Policy.Decide(q)
	if d.Enabled {
		return nil
	}
	return errs.New(errs.Forbidden, "Programmatic tool calling is off for this request.").
		Do(d.Explanation() + " GET /v1/ptc/decision shows every check.")
}

// bundle returns the SDK for a program. What it lacks is a warning: plain
// Python works without it.
func (s *Service) bundle(ctx context.Context, a actor.Actor, keys []string) (sdkbundle.Bundle, []string, error) {
	warnings := []string{}
	b, err := s.deps.Access.SDK.Current(ctx, a)
	if errors.Is(err, sdkbundle.ErrMissing) {
		s.deps.Logger.WarnContext(ctx, "program runs without the SDK", "error", errors.Unwrap(err))
		return b, append(warnings, "There is no SDK: refly_tools cannot be imported. "+sdkbundle.ErrMissing.Detail), nil
	}
	if err != nil {
		return b, nil, err
	}
	for _, key := range b.Missing(keys) { // MCP servers are not in it
		if !ptc.IsBuiltin(key) {
			warnings = append(warnings, fmt.Sprintf("Toolset %s is not in the SDK and cannot be imported.", key))
		}
	}
	return b, warnings, nil
}

func files(b sdkbundle.Bundle) []sandbox.File {
	out := make([]sandbox.File, len(b.Files))
	for i, f := range b.Files {
		out[i] = sandbox.File{Path: f.Path, Content: f.Content}
	}
	return out
}

// tools are the tools of the toolsets that the program names, the plain functions
// of its user, and the functions that it is given besides, as functions and as the
// catalogue that it can look them up in.
func (s *Service) tools(ctx context.Context, a actor.Actor, req Request, n named, classes map[string]sdkbundle.Class) ([]sandbox.Stub, *catalogue.Catalogue, error) {
	sets := n.sets
	if len(req.Functions) > 0 {
		sets = append(sets, Own(req.Functions))
	}
	if s.deps.Access.Flat != nil {
		functions, err := s.deps.Access.Flat.For(ctx, a, req.Toolsets)
		if err != nil {
			return nil, nil, err
		}
		sets = flat.Join(sets, functions)
	}
	c := catalogue.New(sets, classes)
	c.Shape = func(ctx context.Context, key, name string) (string, error) {
		return s.deps.Records.LastShape(ctx, a, key, name)
	}
	return flat.Batched(catalogue.Stubs(req.Language, append(slices.Clone(sets), n.unlisted...))), c, nil
}

// run finds the run a program works in, or creates it. ours is true when the
// end of the program is the end of the run.
func (s *Service) run(ctx context.Context, a actor.Actor, req Request) (r run.Run, ours bool, err error) {
	if req.ResultID != "" {
		r, err = s.deps.Runs.Get(ctx, a, req.ResultID, nil)
		switch {
		case errors.Is(err, run.ErrMissing):
		case err != nil:
			return r, false, err
		case !r.Status.Final():
			return r, false, s.sameCanvas(r, req)
		}
	}
	r, err = s.deps.Runs.Create(ctx, a, run.CreateParams{
		ResultID: req.ResultID, Title: req.Title, CanvasID: req.CanvasID, Toolsets: req.Toolsets, Type: record.Program,
	})
	return r, true, err
}

func (s *Service) sameCanvas(r run.Run, req Request) error {
	if req.CanvasID != "" && req.CanvasID != r.CanvasID {
		return errs.New(errs.Conflict, "The run belongs to another canvas.").Do("Leave canvasId out, or start a run of its own.")
	}
	return nil
}

// settle records the end of a program, and of its run if that is ours.
func (s *Service) settle(ctx context.Context, a actor.Actor, call record.Call, o Outcome, ours bool) (Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	var unlisted error // its end is recorded all the same
	o.ToolCalls, unlisted = s.children(ctx, a, call)
	o.ToolCallsMade = len(o.ToolCalls)
	answer, err := o.answer()
	if err != nil {
		return o, err
	}
	err = s.deps.Records.CloseProgram(ctx, call, answer, func(tx database.Tx) error {
		if !ours {
			return nil
		}
		return unlessEnded(s.deps.Runs.Finish(ctx, tx, call.Run(), o.finish()))
	})
	if errors.Is(err, record.ErrMissing) {
		return o, errs.New(errs.Unavailable, "The program was given up as dead while it ran.").Do("Run it again.").With(err)
	}
	return o, errors.Join(err, unlisted)
}

// abandon ends a run whose program could not even be recorded.
func (s *Service) abandon(ctx context.Context, r run.Run, ours bool, cause error) error {
	if !ours {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	return s.deps.DB.InTx(ctx, func(tx database.Tx) error {
		return s.deps.Runs.Finish(ctx, tx, r.Ref(), run.Finish{Status: run.Failed, Errors: []string{errs.Message(cause)}})
	})
}

// refuse records that the sandbox did not take a program, or lost it, and
// returns the error for its caller, with the calls that it had made.
func (s *Service) refuse(ctx context.Context, o *Opened, cause error) (Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	made, unlisted := s.children(ctx, o.actor, o.call)
	failure := sandbox.FailureOf(cause)
	answer := record.Answer{
		Status: record.Error, Error: errs.Message(cause) + " " + sandbox.CallsMade(len(made)), ErrorCode: strings.ToUpper(string(failure)),
	}
	err := s.deps.Records.CloseProgram(ctx, o.call, answer, func(tx database.Tx) error {
		if !o.ours {
			return nil
		}
		return unlessEnded(s.deps.Runs.Finish(ctx, tx, o.call.Run(), run.Finish{Status: run.Failed, Errors: []string{answer.Error}}))
	})
	if e, ok := errors.AsType[*errs.Error](cause); ok && failure == sandbox.FailedUnavailable {
		cause = e.Do(fmt.Sprintf("%s (%s) %s", sandbox.CallsMade(len(made)), failure, e.Detail))
	}
	return Outcome{ToolCalls: made, ToolCallsMade: len(made)}, errors.Join(cause, unlisted, err)
}

// children lists the calls a program made.
func (s *Service) children(ctx context.Context, a actor.Actor, call record.Call) ([]ToolCall, error) {
	calls := []ToolCall{}
	q := httpapi.PageQuery{Limit: httpapi.MaxPageSize}
	for {
		page, err := s.deps.Records.List(ctx, a, record.Filter{ParentID: call.CallID}, q)
		if err != nil {
			return calls, err
		}
		for _, c := range page.Items {
			calls = append(calls, ToolCall{
				CallID: c.CallID, ToolsetKey: c.Toolset, ToolName: c.Tool, Status: c.Status, Error: c.Error,
				DurationMS: c.UpdatedAt.Sub(c.CreatedAt).Milliseconds(),
			})
		}
		if page.NextCursor == "" {
			return calls, nil
		}
		q.Cursor = page.NextCursor
	}
}

// version is how a version is written where it is written at all: clients leave
// out the first, which is 0.
func version(v int) string {
	if v == 0 {
		return ""
	}
	return strconv.Itoa(v)
}
