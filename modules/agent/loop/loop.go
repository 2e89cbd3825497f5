// Package loop lets a language model work with tools: it asks the model,
// executes the calls of the answer, gives the outputs back, and so on until
// the model has nothing more to call. It knows no database.
package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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
	// Context is how many tokens the model reads and writes in one request, Answer
	// how many of these are for its answer; without a Context, nobody looks, and
	// without an Answer, an eighth is kept for it.
	Context, Answer int64
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
	// Choice says which tools may be called. One that demands a call holds for
	// the first request of a turn; otherwise the turn would have no end.
	Choice model.Choice
	// OneByOne refuses all calls of an answer but the first.
	OneByOne bool
	Observer Observer
	// Refused, if set, is told of a call that is not recorded, because it was
	// not executed or did not get that far. Its arguments are any JSON value.
	Refused func(ctx context.Context, c Call, r Refusal)
	// Keep, if set, is told of each answer that has calls before they are executed,
	// so that another process can go on from there. An error ends the turn.
	Keep func(ctx context.Context, s Step) error
	// Records are under which ids the results of earlier calls are kept, by the
	// provider's ids; for a turn that another process began.
	Records map[string]string
	// Removed, if set, is told when so many results were removed from what the model
	// reads.
	Removed func(ctx context.Context, results int)
	// Leaves, if set, is asked before every request but the first whether another
	// process is to go on with the turn. It ends with ErrLeft then.
	Leaves func() bool
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
	t := turn{loop: l, limits: limits, begin: begin, system: l.System, tools: l.Tools}
	t.History = append(append(t.History, history...), model.User(message))
	return t.end(t.run(ctx))
}

// end is how the turn ended. What failed for another reason than the time is that, also
// when the time is over: the run may go on in another process.
func (t *turn) end(err error) (Outcome, error) {
	if errors.Is(err, errWall) {
		err = fmt.Errorf("%w: it took %s, the limit is %s (%s)", ErrLimit, time.Since(t.begin).Round(time.Millisecond), t.limits.Wall, t.numbers())
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
	ended   bool              // by a call
	stopped error             // a limit that the last answer went over
	left    atomic.Bool       // to another process, by a call
	kept    int               // items of the history
	counted counted           // what the provider said of the conversation
	records map[string]string // under which ids results are kept
	fresh   map[string]string // those since the last step was kept
	lookup  sync.Mutex        // calls end at once
	earlier Earlier           // nil but for the calls of an answer that another process had
}

func (t *turn) numbers() string {
	return fmt.Sprintf("%d requests, %d calls, %d tokens", t.Requests, t.Calls, t.Usage.Total())
}

func (t *turn) run(ctx context.Context) error {
	choice := t.loop.Choice
	if t.Requests > 0 && choice.Demands() {
		choice = model.Choice{}
	}
	for {
		if t.loop.Leaves != nil && t.Requests > 0 && t.loop.Leaves() {
			return ErrLeft
		}
		if t.Requests >= t.limits.Requests {
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
		if choice.Demands() {
			choice = model.Choice{}
		}
	}
}

// ask sends one request and takes its answer into the history. It returns the
// calls in it.
func (t *turn) ask(ctx context.Context, choice model.Choice) ([]model.Call, error) {
	if t.loop.Refresh != nil && t.Requests > 0 {
		if system, tools, changed := t.loop.Refresh(ctx); changed {
			t.system, t.tools = system, tools
		}
	}
	if err := t.fit(ctx); err != nil {
		return nil, err
	}
	input := t.History
	if t.system != "" {
		input = append([]model.Item{model.System(t.system)}, t.History...)
	}
	r, err := t.loop.Model.Respond(ctx, model.Request{
		Input: input, Tools: t.tools.Definitions(), Choice: choice, Parallel: !t.loop.OneByOne,
	}, t.loop.Observer.Delta)
	t.Requests++
	t.Usage.Add(r.Usage)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil && r.Ended != model.Refused {
		return nil, err
	}
	t.Model = r.Model
	observed := t.loop.Observer.Answered(ctx, r)
	t.History = append(t.History, r.Output...)
	t.counted = counted{tokens: r.Usage.Total(), items: len(t.History)}
	text, calls := r.Read()
	switch {
	case observed != nil:
		t.refuse(ctx, calls, "not executed: the answer could not be recorded")
		return nil, observed
	case err != nil: // a refusal, which is an answer that its provider charges
		t.refuse(ctx, calls, "not executed: the model refused to answer")
		return nil, err
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
	t.repeat(calls)
	if over := t.over(); over != nil && !slices.ContainsFunc(calls, t.ends) {
		t.refuse(ctx, calls, "not executed: "+over.Error())
		return nil, over
	}
	if err := t.keep(ctx); err != nil {
		t.refuse(ctx, calls, "not executed: the answer could not be recorded")
		return nil, err
	}
	return calls, nil
}

// repeat counts how often in a row the model made the same calls.
func (t *turn) repeat(calls []model.Call) {
	if s := signature(calls); s == t.last {
		t.repeats++
	} else {
		t.last, t.repeats = s, 1
	}
}

// over judges the limits that hold before calls are executed.
func (t *turn) over() error {
	if used := t.Usage.Total(); used >= t.limits.Tokens {
		return fmt.Errorf("%w: it used %d tokens, the limit is %d (%s)", ErrLimit, used, t.limits.Tokens, t.numbers())
	}
	if t.repeats > t.limits.Repeats {
		return fmt.Errorf("%w: the model made the same calls %d times in a row, the limit is %d (%s)", ErrLimit, t.repeats, t.limits.Repeats, t.numbers())
	}
	return nil
}

// signature tells answers with other calls apart.
func signature(calls []model.Call) string {
	var text strings.Builder
	for _, c := range calls {
		fmt.Fprintf(&text, "%q %q\n", c.Name, c.Arguments)
	}
	return text.String()
}

// refuse gives every call an output, so that the history can be continued.
func (t *turn) refuse(ctx context.Context, calls []model.Call, why string) {
	for _, c := range calls {
		t.tell(ctx, CallOf(c), Refusal{Reason: why})
		t.put(c.ID, why)
	}
}

func (t *turn) put(callID, text string) {
	t.History = append(t.History, model.Output(callID, text))
}
