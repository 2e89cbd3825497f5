package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/model"
)

// answer executes the calls of one answer, at once as far as they do not
// conflict, and puts their outputs into the history in the order of the calls. Over a
// limit, only those that would end the turn are executed.
func (t *turn) answer(ctx context.Context, calls []model.Call, choice model.Choice) error {
	t.stopped = t.over()
	outputs := make([]string, len(calls))
	var group errgroup.Group
	group.SetLimit(t.limits.Parallel)
	var serial queue
	for i, c := range calls {
		t.Calls++
		if t.ends(c) {
			continue
		}
		wait, done := func() {}, func() {}
		if e := t.tools.byName[c.Name]; e != nil && e.Serial {
			wait, done = serial.join()
		}
		group.Go(func() error {
			defer done()
			wait()
			outputs[i] = t.call(ctx, c, i, choice)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if t.left.Load() {
		return ErrLeft
	}
	for i, c := range calls {
		if t.ends(c) {
			outputs[i] = t.call(ctx, c, i, choice)
		}
	}
	for i, c := range calls {
		t.put(c.ID, outputs[i])
	}
	switch {
	case t.ended:
		return nil
	case t.stopped != nil:
		return t.stopped
	}
	return context.Cause(ctx)
}

// queue has calls wait for those that joined it before them. The zero value is
// empty; calls join from one goroutine.
type queue struct {
	previous chan struct{} // closed when the last one that joined has ended
}

// join returns what waits for all before, and what lets the next one go.
func (q *queue) join() (wait, done func()) {
	previous, own := q.previous, make(chan struct{})
	q.previous = own
	wait = func() {
		if previous != nil {
			<-previous
		}
	}
	return wait, func() { close(own) }
}

// ends reports whether a call would end the turn.
func (t *turn) ends(c model.Call) bool {
	e := t.tools.byName[c.Name]
	return e != nil && e.Ends
}

// Refusal says why a call was not executed, or failed before it was recorded.
type Refusal struct {
	Kind   RefusalKind
	Reason string
}

// Error makes a refusal what a tool returns that checks its arguments itself.
func (r Refusal) Error() string { return r.Reason }

// RefusalKind says what is wrong with a call; empty says that nothing is.
type RefusalKind string

// What may be wrong with a call.
const (
	UnknownTool    RefusalKind = "unknown tool"
	WrongArguments RefusalKind = "wrong arguments"
)

// call executes one call. Whatever goes wrong with it is its output.
func (t *turn) call(ctx context.Context, o model.Call, n int, choice model.Choice) string {
	if text, made := t.before(ctx, o); made {
		return text
	}
	e := t.tools.byName[o.Name]
	arguments, refusal := t.judge(ctx, e, o, n, choice)
	if refusal != nil {
		return t.refused(ctx, o, *refusal)
	}
	c := Call{ID: o.ID, Name: o.Name, Arguments: arguments, record: new(string)}
	t.loop.Observer.Called(ctx, c)
	text, err := execute(ctx, e, c)
	if errors.Is(err, ErrLeft) {
		t.left.Store(true)
		return ""
	}
	t.loop.Observer.Returned(ctx, c, text, err)
	if refusal, ok := errors.AsType[Refusal](err); ok {
		return t.refused(ctx, o, refusal)
	}
	if *c.record == "" && err != nil {
		t.tell(ctx, c, Refusal{Reason: Explain(err)})
	}
	return t.told(c, text, err)
}

// told is what the model is told of a call that was executed. One that ends the turn
// has ended it.
func (t *turn) told(c Call, text string, err error) string {
	if e := t.tools.byName[c.Name]; err == nil && e != nil && e.Ends {
		t.Text, t.ended = text, true
	}
	if err != nil {
		text = strings.TrimSpace(fmt.Sprintf("Error: %v\n%s", err, text))
	}
	t.remember(c)
	return cut(text, t.limits.Output, *c.record)
}

// refused is what the model is told of a call that was not executed. The call is
// recorded as the model wrote it.
func (t *turn) refused(ctx context.Context, o model.Call, r Refusal) string {
	t.tell(ctx, CallOf(o), r)
	return "Error: " + r.Reason
}

// judge returns the arguments of a call, or why it is not executed.
func (t *turn) judge(ctx context.Context, e *entry, o model.Call, n int, choice model.Choice) (json.RawMessage, *Refusal) {
	switch {
	case e == nil:
		return nil, &Refusal{UnknownTool, fmt.Sprintf("there is no tool %q. The tools are: %s.", o.Name, t.tools.names())}
	case t.stopped != nil && !e.Ends:
		return nil, &Refusal{Reason: "not executed: " + t.stopped.Error()}
	case e.Ends && t.ended:
		return nil, &Refusal{Reason: "not executed, because the run had been ended."}
	case !choice.Allows(o.Name):
		return nil, &Refusal{Reason: fmt.Sprintf("%s may not be called in this turn.", o.Name)}
	case n > 0 && t.loop.OneByOne:
		return nil, &Refusal{Reason: "not executed, because tools are called one at a time here. Call it again alone."}
	}
	arguments, err := e.arguments(o.Arguments)
	if err != nil {
		return nil, &Refusal{WrongArguments, fmt.Sprintf("%s was not executed: %v.", o.Name, err)}
	}
	if ctx.Err() != nil {
		return nil, &Refusal{Reason: "not executed, because the run was stopped."}
	}
	return arguments, nil
}

// Explain is what a model may know of an error, with what to do about it.
func Explain(err error) string {
	e, ok := errors.AsType[*errs.Error](err)
	if !ok {
		return "the server has a fault"
	}
	return strings.TrimSpace(e.Message + " " + e.Detail)
}

func (t *turn) tell(ctx context.Context, c Call, r Refusal) {
	if t.loop.Refused != nil {
		t.loop.Refused(ctx, c, r)
	}
}

func execute(ctx context.Context, e *entry, c Call) (text string, err error) {
	defer func() {
		if v := recover(); v != nil {
			text, err = "", &panicError{v, debug.Stack()}
		}
	}()
	return e.Run(ctx, c)
}

// panicError is a tool that panicked, which costs nobody else anything. It
// keeps the panic for the log; the model is told less.
type panicError struct {
	value any
	stack []byte
}

func (*panicError) Error() string { return "the tool failed inside" }

// Panic is the value and the stack of a tool that panicked, for logs; ok is
// false for other errors.
func Panic(err error) (value any, stack []byte, ok bool) {
	p, ok := errors.AsType[*panicError](err)
	if !ok {
		return nil, nil, false
	}
	return p.value, p.stack, true
}
