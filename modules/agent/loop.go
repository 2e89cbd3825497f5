// Package agent lets a language model work with tools: it asks the model,
// executes the calls of the answer, gives the outputs back, and so on until
// the model has nothing more to call.
package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/portico-run/portico/modules/model"
)

// Model answers requests; model.Client does.
type Model interface {
	Respond(ctx context.Context, req model.Request, on func(model.Delta)) (model.Response, error)
}

// Observer sees what happens as it happens. Calls of tools that run at once
// come from several goroutines.
type Observer interface {
	Delta(d model.Delta)
	// Answered is told of a whole answer, before its calls are executed. An
	// error ends the turn.
	Answered(ctx context.Context, r model.Response) error
	// Called is told of a call before it is executed, Returned after it.
	Called(ctx context.Context, c Call)
	Returned(ctx context.Context, c Call, output string, failed error)
}

// Limits stop a turn. A zero field takes its default.
type Limits struct {
	// Requests is how often the model is asked. Default 25.
	Requests int
	// Wall is the time that all of it may take. Default 30 minutes.
	Wall time.Duration
	// Tokens are those of all requests together, in and out. Default 2,000,000.
	Tokens int64
	// Repeats is how often in a row the model may make the same calls with the
	// same arguments. Default 3.
	Repeats int
	// Parallel is how many calls are executed at once. Default 10.
	Parallel int
	// Output is the most of one output that the model is given, in bytes.
	// Default 64 KiB.
	Output int
}

func (l Limits) withDefaults() Limits {
	set := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	set(&l.Requests, 25)
	set(&l.Repeats, 3)
	set(&l.Parallel, 10)
	set(&l.Output, 64<<10)
	if l.Wall == 0 {
		l.Wall = 30 * time.Minute
	}
	if l.Tokens == 0 {
		l.Tokens = 2_000_000
	}
	return l
}

// Loop is an agent: a model with a prompt and tools.
type Loop struct {
	Model Model
	// System is prepended to every request and never part of the history.
	System string
	Tools  *Tools
	Limits Limits
	// Choice is a tool_choice as model.Choice returns it, empty for auto. One
	// that demands a call holds for the first request of a turn; otherwise the
	// turn would have no end.
	Choice json.RawMessage
	// OneByOne refuses all calls of an answer but the first.
	OneByOne bool
	Observer Observer
	// Refused, if set, is told of a call that is not recorded, because it was
	// not executed or did not get that far. Its arguments are any JSON value.
	Refused func(ctx context.Context, c Call, r Refusal)
	// Refresh, if set, is asked before every request but the first whether what
	// the model is told, and its tools, have changed. Calls that are executed
	// keep what they have.
	Refresh func(ctx context.Context) (system string, tools *Tools, changed bool)
}

// Outcome is how a turn ended. History is consistent also after an error: each
// call in it has an output.
type Outcome struct {
	Text     string // the model's answer
	History  []model.Item
	Model    string // the one that answered
	Usage    model.Usage
	Requests int
	Calls    int
}

// Errors that stop a turn. They wrap what the numbers were.
var (
	// ErrLimit is a limit that the turn went over.
	ErrLimit = errors.New("the run was stopped")
	// ErrEmpty is an answer without anything in it.
	ErrEmpty = errors.New("the model gave an empty answer")
	// ErrCut is an answer that the provider cut.
	ErrCut = errors.New("the model's answer was cut")
)

// Turn answers one message of the user's after what was said before.
func (l *Loop) Turn(ctx context.Context, history []model.Item, message string) (Outcome, error) {
	limits := l.Limits.withDefaults()
	begin := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, limits.Wall, errWall)
	defer cancel()
	user, err := json.Marshal(map[string]any{"type": "message", "role": "user", "content": message})
	if err != nil {
		return Outcome{History: history}, err
	}
	t := turn{loop: l, limits: limits, begin: begin, system: l.System, tools: l.Tools}
	t.History = append(append(t.History, history...), user)
	err = t.run(ctx)
	if errors.Is(context.Cause(ctx), errWall) && err != nil {
		err = fmt.Errorf("%w: it took %s, the limit is %s (%s)", ErrLimit, time.Since(begin).Round(time.Millisecond), limits.Wall, t.numbers())
	}
	return t.Outcome, err
}

var errWall = errors.New("wall clock")

// turn is one turn while it runs.
type turn struct {
	Outcome
	loop   *Loop
	system string
	tools  *Tools
	limits Limits
	begin  time.Time

	last    string // the calls of the answer before
	repeats int
	ended   bool // by a call
}

func (t *turn) numbers() string {
	return fmt.Sprintf("%d requests, %d calls, %d tokens", t.Requests, t.Calls, t.Usage.Total())
}

func (t *turn) run(ctx context.Context) error {
	choice := t.loop.Choice
	for {
		if t.Requests == t.limits.Requests {
			return fmt.Errorf("%w: the model was asked %d times, the limit is %d (%s)", ErrLimit, t.Requests, t.limits.Requests, t.numbers())
		}
		calls, err := t.ask(ctx, choice)
		if err != nil {
			return err
		}
		if len(calls) == 0 {
			return nil
		}
		if err := t.answer(ctx, calls, choice); err != nil || t.ended {
			return err
		}
		if demands(choice) {
			choice = nil
		}
	}
}

// demands reports whether a choice makes the model call something.
func demands(choice json.RawMessage) bool {
	var mode struct {
		Mode string `json:"mode"`
	}
	_ = json.Unmarshal(choice, &mode) // a word has none
	return string(choice) == `"required"` || model.Forced(choice) != "" || mode.Mode == "required"
}

// output is what is read of an item.
type output struct {
	Type    string `json:"type"`
	Content []struct {
		Type    string `json:"type"`
		Text    string `json:"text"`
		Refusal string `json:"refusal"`
	} `json:"content"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// call is a call before anything is known of its arguments.
func (o output) call() Call {
	arguments := json.RawMessage(o.Arguments)
	if !json.Valid(arguments) {
		arguments, _ = json.Marshal(o.Arguments) // texts always marshal
	}
	return Call{ID: o.CallID, Name: o.Name, Arguments: arguments, record: new(string)}
}

// ask sends one request and takes its answer into the history. It returns the
// calls in it.
func (t *turn) ask(ctx context.Context, choice json.RawMessage) ([]output, error) {
	if t.loop.Refresh != nil && t.Requests > 0 {
		if system, tools, changed := t.loop.Refresh(ctx); changed {
			t.system, t.tools = system, tools
		}
	}
	input := t.History
	if t.system != "" {
		system, err := json.Marshal(map[string]any{"type": "message", "role": "system", "content": t.system})
		if err != nil {
			return nil, err
		}
		input = append([]model.Item{system}, t.History...)
	}
	r, err := t.loop.Model.Respond(ctx, model.Request{
		Input: input, Tools: t.tools.Definitions(), Choice: choice, Parallel: !t.loop.OneByOne,
	}, t.loop.Observer.Delta)
	t.Requests++
	t.Usage.Add(r.Usage)
	if err != nil {
		return nil, err
	}
	t.Model = r.Model
	observed := t.loop.Observer.Answered(ctx, r)
	t.History = append(t.History, r.Output...)
	text, calls := read(r.Output)
	switch {
	case observed != nil:
		t.refuse(ctx, calls, "not executed: the answer could not be recorded")
		return nil, observed
	case r.Incomplete != nil:
		t.refuse(ctx, calls, "not executed: the answer that asks for it was cut")
		return nil, fmt.Errorf("%w: %s (%s)", ErrCut, r.Incomplete.Reason, t.numbers())
	case len(r.Output) == 0 || len(calls) == 0 && text == "":
		return nil, fmt.Errorf("%w (%s)", ErrEmpty, t.numbers())
	}
	t.Text = text
	if len(calls) == 0 {
		return nil, nil
	}
	if stop := t.stop(calls); stop != nil && !slices.ContainsFunc(calls, t.ends) {
		t.refuse(ctx, calls, "not executed: "+stop.Error())
		return nil, stop
	}
	return calls, nil
}

// read returns the words and the calls of an answer.
func read(items []model.Item) (string, []output) {
	var calls []output
	var text strings.Builder
	for _, raw := range items {
		var o output
		if json.Unmarshal(raw, &o) != nil {
			continue // of a form that nobody here knows; it goes back as it is
		}
		switch o.Type {
		case "message":
			for _, part := range o.Content {
				text.WriteString(part.Text + part.Refusal)
			}
		case "function_call":
			calls = append(calls, o)
		}
	}
	return text.String(), calls
}

// stop judges the limits that hold before calls are executed.
func (t *turn) stop(calls []output) error {
	if used := t.Usage.Total(); used >= t.limits.Tokens {
		return fmt.Errorf("%w: it used %d tokens, the limit is %d (%s)", ErrLimit, used, t.limits.Tokens, t.numbers())
	}
	var signature strings.Builder
	for _, c := range calls {
		fmt.Fprintf(&signature, "%q %q\n", c.Name, c.Arguments)
	}
	if signature.String() == t.last {
		t.repeats++
	} else {
		t.last, t.repeats = signature.String(), 1
	}
	if t.repeats > t.limits.Repeats {
		return fmt.Errorf("%w: the model made the same calls %d times in a row, the limit is %d (%s)", ErrLimit, t.repeats, t.limits.Repeats, t.numbers())
	}
	return nil
}

// refuse gives every call an output, so that the history can be continued.
func (t *turn) refuse(ctx context.Context, calls []output, why string) {
	for _, c := range calls {
		t.tell(ctx, c.call(), Refusal{Reason: why})
		t.put(c.CallID, why)
	}
}

func (t *turn) put(callID, text string) {
	item, err := json.Marshal(map[string]string{"type": "function_call_output", "call_id": callID, "output": text})
	if err != nil {
		return // texts always marshal
	}
	t.History = append(t.History, item)
}
