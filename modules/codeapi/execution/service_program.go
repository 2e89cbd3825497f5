package execution

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/drain"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/peer"
	"github.com/portico-run/portico/modules/codeapi/session"
	"github.com/portico-run/portico/modules/program"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/stub"
	"github.com/portico-run/portico/modules/tool/approval"
)

// ProgramRequest is a program whose tools the caller executes.
type ProgramRequest struct {
	Language string // empty for Python
	Code     string
	// Tools are the caller's. Toolsets are Portico's, whose tools the server
	// executes while the program goes on.
	Tools    []stub.Tool
	Toolsets []string
	// Own are functions that whoever starts the program executes itself, besides the
	// caller's.
	Own     []stub.Tool
	Session string
	Files   []session.FileRef
	Timeout time.Duration
	// Selected are the only tools of a toolset that the program may call, by the
	// toolset's key, and Approval is when calls of toolsets wait for a person, at
	// least.
	Selected map[string][]string
	Approval approval.Level
	// Title is what the record of a program with toolsets is called; empty for what
	// is usual.
	Title string
	// Recorded, if set, is told of the record of a program with toolsets before the
	// program begins.
	Recorded func(callID, resultID string)
	// RequestID is what a client cancels the request by; it may be empty.
	RequestID string
	// Phrases asks that what goes wrong is answered with status 200 and in the
	// words that newer clients know.
	Phrases bool
}

// gatherBash is how long calls of bash programs wait for each other: each
// comes from a process of its own.
const gatherBash = 60 * time.Millisecond

// Start runs a program until it pauses or ends. When ctx ends before that, so
// does the program.
func (s *Service) Start(ctx context.Context, a actor.Actor, req ProgramRequest) (Reply, error) {
	if err := drain.Admit(ctx); err != nil {
		return Reply{}, err
	}
	e, job, err := s.prepare(ctx, a, req)
	if err != nil {
		return Reply{}, err
	}
	if !s.paused.add(e) {
		return Reply{}, s.abandon(ctx, e, sandbox.ErrUnavailable.Do("The server is stopping; send the program again.").AsPlanned())
	}
	s.paused.name(a.UID, req.RequestID, e)
	// The program outlives this request when it pauses.
	stop := context.AfterFunc(ctx, func() { e.cancel(errDisconnected) })
	running := func(x sandbox.Execution) sandbox.Execution { return x }
	if e.opened != nil {
		running = e.opened.Begins()
	}
	begun, err := s.sandbox.Begin(e.ctx, job) //nolint:contextcheck // see above
	if err != nil {
		stop()
		close(e.dead)
		s.paused.remove(e)
		s.paused.left()
		ended := e.interrupted(err)
		err = s.abandon(ctx, e, err)
		if ended != "" {
			return Reply{Session: e.work.Session, Cause: ended, Phrases: e.phrases}, nil
		}
		return Reply{}, err
	}
	e.sandbox = running(begun)
	go s.follow(e) //nolint:contextcheck // see above
	stop()
	return s.next(ctx, e)
}

// abandon closes what prepare opened for a program that was not begun.
func (s *Service) abandon(ctx context.Context, e *execution, cause error) error {
	e.cancel(cause)
	if e.opened != nil {
		_, err := e.opened.Close(ctx, sandbox.Result{}, cause)
		return err
	}
	return cause
}

// prepare checks a request and makes the job of it.
func (s *Service) prepare(ctx context.Context, a actor.Actor, req ProgramRequest) (*execution, sandbox.Job, error) {
	var job sandbox.Job
	if req.Language == "" {
		req.Language = "python"
	}
	lang, err := s.language(req.Language)
	if err == nil && lang != sandbox.Python && lang != sandbox.Bash {
		err = errs.Newf(errs.Invalid, "Unsupported language: %s", req.Language).Do("Programs that call tools are Python or bash.")
	}
	if err != nil {
		return nil, job, err
	}
	if req.Code, err = sandbox.PrepareCode(req.Code); err != nil {
		return nil, job, err
	}
	timeout, err := s.timeout(req.Timeout)
	if err != nil {
		return nil, job, err
	}
	if len(req.Tools) > s.settings.MaxTools {
		return nil, job, errs.Newf(errs.Invalid, "A request may bring %d tools at most.", s.settings.MaxTools)
	}
	stubs, names, err := s.stubs(lang, slices.Concat(req.Tools, req.Own))
	if err != nil {
		return nil, job, err
	}
	w, err := s.sessions.Workspace(ctx, a, req.Session, req.Files)
	if err != nil {
		return nil, job, err
	}
	e := &execution{
		id: session.NewID(), who: a, work: w, phrases: req.Phrases, dead: make(chan struct{}), finished: make(chan struct{}),
	}
	e.ctx, e.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	e.calls = &exchange{limits: s.settings, tools: names, ctx: e.ctx, cancel: e.cancel, arrived: make(chan struct{}, 1)}
	if lang == sandbox.Bash {
		e.calls.gather = gatherBash
	}
	job = sandbox.Job{Timeout: timeout, Code: req.Code, Language: lang}
	if len(req.Toolsets) > 0 {
		e.opened, err = s.programs.Open(ctx, a, program.Request{
			Code: req.Code, Language: lang, Toolsets: req.Toolsets, Timeout: timeout, Title: cmp.Or(req.Title, "Code interpreter"),
			Selected: req.Selected, Approval: req.Approval,
		})
		if err != nil {
			return nil, job, err
		}
		if req.Recorded != nil {
			req.Recorded(e.opened.CallID(), e.opened.ResultID())
		}
		job = e.opened.Job
		e.calls.tooling = job.Gateway
	}
	job.Owner, job.Gateway, job.Inputs, job.Collect = a.UID, e.calls, w.Inputs, w.Collect()
	job.Pauses = len(req.Tools)+len(req.Own) > 0
	job.Stubs = append(stubs, without(job.Stubs, stubs)...)
	return e, job, nil
}

// stubs are the functions for the caller's tools.
func (*Service) stubs(l sandbox.Language, tools []stub.Tool) ([]sandbox.Stub, map[string]bool, error) {
	stubs := make([]sandbox.Stub, 0, len(tools))
	names, taken := map[string]bool{}, map[string]string{}
	for _, t := range tools {
		made := stub.New(l, t)
		if made.Identifier == "" {
			continue // no program can call it
		}
		if other, twice := taken[made.Identifier]; twice {
			return nil, nil, errs.Newf(errs.Invalid, "The tools %q and %q would both be called %s.", other, t.Name, made.Identifier).
				Do("Rename one, or leave it out.")
		}
		taken[made.Identifier], names[t.Name] = t.Name, true
		stubs = append(stubs, made)
	}
	return stubs, names, nil
}

// without leaves out functions whose names the caller's tools have.
func without(stubs, taken []sandbox.Stub) []sandbox.Stub {
	used := map[string]bool{}
	for _, t := range taken {
		used[t.Identifier] = true
	}
	var left []sandbox.Stub
	for _, t := range stubs {
		if !used[t.Identifier] {
			left = append(left, t)
		}
	}
	return left
}

// follow waits for the end of a program and settles it. A program that ends
// while its caller executes calls is kept for the next continuation.
func (s *Service) follow(e *execution) {
	defer s.paused.left()
	result, err := e.sandbox.Result()
	close(e.dead)
	ctx := context.WithoutCancel(e.ctx)
	reply := Reply{Session: e.work.Session, Result: result, Phrases: e.phrases}
	if err == nil {
		reply.Cause = cause(e.ctx, result)
	} else if reply.Cause = e.interrupted(err); reply.Cause != "" {
		err = nil // it was ended before it had begun
	}
	reply.Made = e.calls.made()
	if e.opened != nil {
		var outcome program.Outcome
		outcome, err = e.opened.Close(ctx, result, err)
		reply.Made += outcome.ToolCallsMade
	}
	if err != nil && sandbox.FailureOf(err) == sandbox.FailedUnavailable {
		// An answer, with what is known of it: it may have made calls.
		s.logger.ErrorContext(ctx, "a program was lost", "execution", e.id, "error", err)
		reply.Cause, err = Lost, nil
	}
	if err == nil && reply.Cause == "" {
		reply.Produced = s.keep(ctx, e.work, result)
	}
	if err != nil {
		s.logger.ErrorContext(ctx, "a program did not end well", "execution", e.id, "error", err)
	}
	e.reply, e.err = reply, err
	awaited := e.calls.close()
	s.recordEnd(ctx, e)
	if awaited {
		s.paused.removeAfter(e, s.settings.Idle) // Continue removes it before
	} else {
		// Before the reply is out: whoever has it finds the program gone.
		s.paused.remove(e)
	}
	s.observer.Ended(ended(reply.Cause)) // who is told finds it gone, too
	close(e.finished)
	e.cancel(nil)
}

func ended(c Cause) string {
	if c == "" {
		return string(sandbox.Completed)
	}
	return string(c)
}

// Continue gives a paused program the results of its calls and waits until it
// pauses again or ends. The last continuation gets the same answer again. The error is a
// peer.Elsewhere where another process holds the program.
func (s *Service) Continue(ctx context.Context, a actor.Actor, token string, results []ToolResult, request string) (Reply, error) {
	k, err := s.tokens.read(token, a.UID, s.now())
	if err != nil {
		return Reply{}, err
	}
	sum, err := digest(results)
	if err != nil {
		return Reply{}, err
	}
	e := s.paused.get(k.Execution)
	if e == nil || e.who.UID != a.UID {
		return s.absent(ctx, a, k, sum)
	}
	alive, err := e.calls.claim(k.Round, results)
	if reply, same := e.calls.again(k.Round, sum); same && errors.Is(err, ErrTokenUsed) {
		return reply, nil
	}
	if err != nil {
		return Reply{}, err
	}
	if !alive {
		return s.next(ctx, e)
	}
	s.paused.name(a.UID, request, e)
	if err := e.sandbox.Resume(ctx); err != nil {
		e.calls.unclaim()
		return Reply{}, err
	}
	e.calls.deliver(results)
	reply, err := s.next(ctx, e)
	s.remember(e, answer{k.Round, sum, reply}, err)
	return reply, err
}

// Waits reports whether this process holds the program of a token, so that it can be
// continued.
func (s *Service) Waits(a actor.Actor, token string) bool {
	k, err := s.tokens.read(token, a.UID, s.now())
	if err != nil {
		return false
	}
	e := s.paused.get(k.Execution)
	return e != nil && e.who.UID == a.UID
}

// remember keeps what a continuation is answered, for when that is lost. A program that
// has ended is forgotten only then: whoever asks again meanwhile finds one or the other.
func (s *Service) remember(e *execution, a answer, err error) {
	if err == nil && a.reply.Paused() {
		e.calls.answered(a)
		return
	}
	<-e.finished // its end is recorded
	if err == nil {
		s.lasts.keep(e, a)
	}
	s.paused.remove(e)
}

// absent answers for a program that this process does not hold.
func (s *Service) absent(ctx context.Context, a actor.Actor, k ticket, results [sha256.Size]byte) (Reply, error) {
	reply, same, known := s.lasts.of(a.UID, k, results)
	switch {
	case same:
		return reply, nil
	case known:
		return Reply{}, ErrTokenUsed.Do("The program has ended. Run it again.")
	case s.peers != nil && k.Node != "" && k.Node != s.settings.Owner:
		return Reply{}, s.elsewhere(a, k, k.Node)
	}
	return Reply{}, s.gone(ctx, a, k, false)
}

func (s *Service) elsewhere(a actor.Actor, k ticket, node string) error {
	return &peer.Elsewhere{Node: node, Gone: func(ctx context.Context) error { return s.gone(ctx, a, k, true) }}
}

// gone says what became of a program that this process does not hold. dead is set when
// the process that held it is gone.
func (s *Service) gone(ctx context.Context, a actor.Actor, k ticket, dead bool) error {
	row, err := s.rows.execution(s.db.Read(ctx), a.UID, k.Execution)
	switch {
	case errors.Is(err, database.ErrNotFound):
		return ErrGone.Do("Run the program again.")
	case err != nil:
		return err
	case row.Status == statusOpen && dead:
		return ErrLost.Do("Run the program again.")
	case row.Status == statusOpen && s.peers != nil && row.Owner != s.settings.Owner:
		return s.elsewhere(a, k, row.Owner) // a token of a version that named no process
	case dead:
		return ErrGone.Do("It has ended (" + row.Status + "), and its answer was lost with the server process. Find out what it has done before you run it again.")
	case row.Status == statusOpen:
		return ErrElsewhere.Do("Send it to the address that answered the first request. If nothing answers there any more, run the program again.")
	}
	return ErrGone.Do("It has ended before (" + row.Status + "). Run the program again.")
}

// CancelOp is the name under which other processes are asked to cancel.
const CancelOp = "program.cancel"

// Cancel ends the program that came with a request, or was continued by it, in
// whichever process it is, and returns when nothing of it runs any more. It reports
// false when there is none, or it has ended.
func (s *Service) Cancel(ctx context.Context, a actor.Actor, request string) (bool, error) {
	ended, err := s.CancelHere(ctx, a, request)
	if ended || err != nil || s.peers == nil {
		return ended, err
	}
	err = s.peers.Others(ctx, CancelOp, a, request, func(answer json.RawMessage) { ended = ended || string(answer) == "true" })
	if ended {
		return true, nil
	}
	return false, err
}

// CancelHere is Cancel for the programs of this process.
func (s *Service) CancelHere(ctx context.Context, a actor.Actor, request string) (bool, error) {
	if strings.TrimSpace(request) == "" {
		return false, errs.New(errs.Invalid, "request_id is required").Do("Send the X-LibreChat-Code-Request-ID of the request.")
	}
	e := s.paused.byRequest(a.UID, request)
	if e == nil {
		return false, nil
	}
	select {
	case <-e.finished:
		return false, nil
	default:
	}
	e.cancel(errCancelled)
	select {
	case <-e.dead:
		return true, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}
