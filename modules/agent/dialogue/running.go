package dialogue

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/codeapi/execution"
	"github.com/portico-run/portico/modules/codeapi/session"
	"github.com/portico-run/portico/modules/model"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/stub"
	"github.com/portico-run/portico/modules/tool/approval"
)

// running is a program of the conversation's.
type running struct {
	Program

	index   int
	begun   bool
	reads   bool                   // it can read outputs that were left out
	own     []execution.ToolResult // of what it reads, while it waits
	token   string                 // continues it while it waits for the client
	replies chan replied           // of what is under way; nil when nothing is
	// record is set when known is closed.
	record recorded
	known  chan struct{}
}

// recorded is the record of a program that calls the user's tools.
type recorded struct{ callID, resultID string }

type replied struct {
	execution.Reply
	err error
	// continued says that a continuation was answered, and not the beginning.
	continued bool
}

// drive lets programs run, one after the other, until the client is needed or all
// have ended.
func (w *work) drive(ctx context.Context) error {
	for len(w.answer.queue) > 0 {
		p := w.answer.queue[0]
		switch {
		case !p.begun:
			if err := w.start(ctx, p); err != nil {
				return err
			}
		case p.replies == nil:
			return errOver
		}
		got, waiting, err := w.await(ctx, p)
		switch {
		case err != nil:
			return err
		case len(waiting) > 0:
			return w.askPerson(ctx, p, waiting)
		case got.Paused():
			if w.pause(p, got.Reply); len(w.calls) > 0 {
				return nil
			}
			continue
		}
		w.finish(p, got)
	}
	return nil
}

// errOver is a program from which nothing comes any more.
var errOver = ErrCallGone.Do("The program that waited for them has expired, or has ended. Begin the conversation anew.")

// start begins a program.
func (w *work) start(ctx context.Context, p *running) error {
	if err := w.touch(ctx); err != nil {
		return err
	}
	o := w.req.Programs
	p.begun, p.known, w.ran = true, make(chan struct{}), true
	var own []stub.Tool
	if p.reads = w.left > 0; p.reads {
		own = append(own, w.programs.readingTool())
	}
	w.under(p, func() (execution.Reply, error) {
		return w.service.deps.Programs.Executions.Start(w.ctx, w.who, execution.ProgramRequest{
			Code: p.Code, Tools: w.programs.stubs, Own: own, Toolsets: w.programs.toolsets, Session: w.session, Files: o.Files, Timeout: o.Timeout,
			Selected: o.Selected, Approval: o.Approval, Title: "Conversation",
			Recorded: func(callID, resultID string) {
				p.record = recorded{callID, resultID}
				close(p.known)
			},
		})
	})
	return nil
}

// touch makes the session of the conversation live.
func (w *work) touch(ctx context.Context) (err error) {
	w.session, w.until, err = w.service.deps.Programs.Sessions.Touch(ctx, w.who, w.session)
	return gone(err)
}

// gone puts the error of a session that is over into the words for clients.
func gone(err error) error {
	if errors.Is(err, session.ErrMissing) {
		return ErrSessionGone.Do("Leave the container out for a new one.")
	}
	return err
}

// under lets a program go on in the background until it needs its caller, or ends. It
// outlives the request when it waits for a person.
func (w *work) under(p *running, step func() (execution.Reply, error)) {
	replies := make(chan replied, 1)
	continued := p.token != ""
	p.replies = replies
	w.service.working.Go(func() {
		got, err := step()
		replies <- replied{got, err, continued}
	})
}

const (
	// lookAgain is how often a program is looked at that nothing is heard of, between
	// the least time between two looks.
	lookAgain, between = time.Second, 100 * time.Millisecond
	// together is how long calls that wait for a person are waited for, so that those
	// which were made at once are asked about at once.
	together = 300 * time.Millisecond
)

// await waits until a program needs its client, a person, or has ended.
func (w *work) await(ctx context.Context, p *running) (got replied, waiting []approval.Approval, err error) {
	tick := time.NewTicker(between)
	defer tick.Stop()
	known := p.known
	var woken <-chan struct{}
	var looked, since time.Time // since when nothing but a person can go on
	for heard := false; ; {
		select {
		case <-known:
			var cancel func()
			woken, cancel = w.service.deps.Hub.Subscribe(run.Topic(p.record.resultID))
			defer cancel()
			known = nil
		case got = <-p.replies:
			p.replies = nil
			return got, nil, w.refused(got)
		case <-ctx.Done():
			return got, nil, context.Cause(ctx)
		case <-woken: // by every event of the run
			heard = true
			continue
		case <-tick.C:
		}
		if known != nil || !heard && since.IsZero() && time.Since(looked) < lookAgain {
			continue
		}
		stuck, calls, err := w.stuck(ctx, p)
		heard, looked = false, time.Now()
		switch {
		case err != nil:
			return got, nil, err
		case !stuck:
			since = time.Time{}
			continue
		case since.IsZero():
			since = looked
			continue
		case looked.Sub(since) < together:
			continue
		}
		if waiting, err = w.asked(ctx, calls, since); err != nil || len(waiting) > 0 {
			return got, waiting, err
		}
	}
}

// asked are the calls that the client is asked about. One that cannot ask waits until
// nobody has decided in time.
func (w *work) asked(ctx context.Context, calls []string, since time.Time) ([]approval.Approval, error) {
	if w.req.Programs.Asks {
		return w.waiting(ctx, calls)
	}
	if time.Since(since) > w.service.deps.Settings.Idle {
		return nil, w.refuseAll(ctx, calls)
	}
	return nil, nil
}

// refused is the error of a continuation that was not taken. What the client sent may
// be sent again, corrected.
func (w *work) refused(got replied) error {
	if got.err == nil || !got.continued {
		return nil
	}
	for _, gone := range []error{execution.ErrGone, execution.ErrElsewhere, execution.ErrTokenExpired} {
		if errors.Is(got.err, gone) {
			return errOver
		}
	}
	w.calls, w.more, w.rejected = w.before, w.more[:w.moreBefore], true
	return got.err
}

// stuck reports whether nothing but a person can go on with a program, and the ids of
// the calls that wait for one.
func (w *work) stuck(ctx context.Context, p *running) (stuck bool, calls []string, err error) {
	st, err := w.service.deps.Toolsets.State(ctx, w.who, p.record.callID, true)
	if err != nil || st.Ended {
		return false, nil, err
	}
	for _, c := range st.ToolCalls {
		switch c.Status {
		case record.Waiting:
			calls = append(calls, c.CallID)
		case record.Executing:
			return false, nil, nil
		}
	}
	return len(calls) > 0, calls, nil
}

// waiting are the approvals of calls, as far as they still wait.
func (w *work) waiting(ctx context.Context, calls []string) (list []approval.Approval, err error) {
	for _, id := range calls {
		a, err := w.service.deps.Approvals.Get(ctx, w.who, id)
		if err != nil {
			return nil, err
		}
		if a.State == approval.Waiting {
			list = append(list, a)
		}
	}
	return list, nil
}

// refuseAll refuses calls about which nobody has decided in time.
func (w *work) refuseAll(ctx context.Context, calls []string) error {
	for _, id := range calls {
		err := w.decide(ctx, Decision{CallID: id, Reason: fmt.Sprintf("Nobody decided within %s.", w.service.deps.Settings.Idle)})
		if err != nil {
			return err
		}
	}
	return nil
}

// decide settles a call that waits. What was settled before stays as it is.
func (w *work) decide(ctx context.Context, d Decision) error {
	r := approval.Ruling{CallID: d.CallID, Decision: approval.Refuse, Reason: d.Reason}
	if d.Allow {
		r.Decision, r.Reason = approval.Allow, ""
	}
	_, err := w.service.deps.Approvals.Decide(ctx, w.who, r)
	if errs.CodeOf(err) == errs.Settled {
		return nil
	}
	return err
}

// askPerson asks the client about calls that wait.
func (w *work) askPerson(_ context.Context, p *running, waiting []approval.Approval) error {
	for _, a := range waiting {
		id := strings.ReplaceAll(a.CallID, ":", "_") // which clients' ids do not have
		w.calls[id] = &asked{approval: true, program: p, record: a.CallID}
		w.tell(Approval{CallID: id, Program: p.ID, Toolset: a.Toolset, Tool: a.Tool, Arguments: a.Arguments, Reason: a.Reason})
	}
	return nil
}

// pause asks the client for the calls of a program. One that calls nothing of the
// client's goes on.
func (w *work) pause(p *running, got execution.Reply) {
	p.token = got.Token
	theirs := w.own(p, got.Calls)
	if len(theirs) == 0 {
		w.goOn(p, nil)
	}
	for _, c := range theirs {
		id := newCallID()
		w.calls[id] = &asked{program: p, execution: c.ID}
		w.tell(Call{ID: id, Name: c.Name, Arguments: c.Input, Program: p.ID})
	}
}

func newCallID() string {
	var b [18]byte
	_, _ = rand.Read(b[:]) // it cannot fail
	return "p" + base64.RawURLEncoding.EncodeToString(b[:])
}

// finish shows how a program ended.
func (w *work) finish(p *running, got replied) {
	o := outputOf(p.ID, got)
	w.answer.queue = w.answer.queue[1:]
	w.answer.outputs[p.index] = ProgramOutput(o, w.service.deps.Settings.Output)
	w.tell(o)
}

// outputOf is how a program ended, or why it was not taken.
func outputOf(id string, got replied) Output {
	if got.err != nil {
		o := Output{Program: id, ExitCode: 1, Failure: sandbox.FailureOf(got.err), Why: errs.Message(got.err)}
		if e, ok := errors.AsType[*errs.Error](got.err); ok && e.Detail != "" {
			o.Why += " " + e.Detail
		}
		if o.Busy = errs.CodeOf(got.err) == errs.RateLimited; o.Busy || o.Failure == "" {
			o.Failure = sandbox.FailedUnavailable
		}
		return o
	}
	r := got.Result
	o := Output{
		Program: id, Stdout: kept(r.Stdout, r.StdoutDropped), Stderr: kept(r.Stderr, r.StderrDropped), ExitCode: r.ExitCode, Failure: got.Cause.Failure(),
	}
	if o.Failure != "" {
		o.Why = r.Sentence() + " " + sandbox.CallsMade(got.Made)
	}
	for _, f := range got.Produced.Files {
		if !f.Inherited {
			o.Files = append(o.Files, f.File)
		}
	}
	if n := got.Produced.Dropped + got.Produced.Undelivered; n > 0 {
		o.Stderr = sandbox.Note(o.Stderr, fmt.Sprintf("[%d files were not kept.]", n))
	}
	return o
}

// kept is what is kept of a stream, with what is not.
func kept(text string, dropped int64) string {
	if dropped == 0 {
		return text
	}
	return sandbox.Note(text, fmt.Sprintf("[%d more bytes were printed and are not kept.]", dropped))
}

// take gives what the client did to those who wait for it. Without results and decisions
// it is words that were added to those which were taken before.
func (w *work) take(ctx context.Context, with *Continue) error {
	if len(with.Results)+len(with.Decisions) == 0 {
		w.more = append(w.more, with.More...)
		return nil
	}
	var results []execution.ToolResult
	var waits *running
	for _, r := range with.Results {
		one := w.calls[r.CallID]
		if one == nil || one.approval {
			return &Missing{Unknown: []string{cmp.Or(r.As, r.CallID)}}
		}
		if one.program == nil {
			w.answer.outputs[one.index] = directOutput(r)
			continue
		}
		waits = one.program
		results = append(results, execution.ToolResult{CallID: one.execution, Result: r.Value, Failed: r.Failed, Error: r.Error})
	}
	for _, d := range with.Decisions {
		one := w.calls[d.CallID]
		if one == nil || !one.approval {
			return &Missing{Undecided: []string{cmp.Or(d.As, d.CallID)}}
		}
		if d.Elsewhere {
			continue
		}
		d.CallID = one.record
		if err := w.decide(ctx, d); err != nil {
			return err
		}
	}
	w.before, w.calls = w.calls, map[string]*asked{}
	w.moreBefore, w.more = len(w.more), append(w.more, with.More...)
	if waits != nil {
		w.goOn(waits, results)
	}
	return nil
}

func directOutput(r Result) model.Item {
	switch {
	case r.Failed:
		return model.FailedOutput(r.CallID, r.Error)
	case len(r.Parts) > 0:
		return model.OutputParts(r.CallID, r.Parts)
	}
	return model.Output(r.CallID, r.Text)
}
