package loop

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/portico-run/portico/modules/model"
)

// Step is what a turn has come to with an answer that has calls, before they are
// executed.
type Step struct {
	// Items are those of the history since the step before, and the answer.
	Items []model.Item `json:"items"`
	// Requests are those so far, Executed the calls of the answers before, Repeats how
	// often in a row the model made the calls of this one.
	Requests int         `json:"requests"`
	Executed int         `json:"executed"`
	Repeats  int         `json:"repeats"`
	Usage    model.Usage `json:"usage"`
	// Records are under which ids the results of calls before are kept, as far as no
	// step before says it.
	Records map[string]string `json:"records,omitempty"`
	// Spent is how long the turn has taken.
	Spent time.Duration `json:"spent"`
}

// Calls are those of the answer, in their order.
func (s Step) Calls() []model.Call {
	_, calls := model.Response{Output: s.Items}.Read()
	return calls
}

// ErrLeft is what a tool returns whose call goes on in another process. The turn ends
// with it, and the history has no outputs of the last answer.
var ErrLeft = errors.New("another process goes on with the call")

// Earlier returns what became of a call that another process made, or makes the rest
// of it. made is false where nobody has begun it.
type Earlier func(ctx context.Context, c Call) (text string, made bool, err error)

// Continue goes on with a turn from its last step. The history ends with the answer of
// that step; earlier knows its calls. The time between is not the turn's.
func (l *Loop) Continue(ctx context.Context, history []model.Item, last Step, earlier Earlier) (Outcome, error) {
	limits := l.Limits.withDefaults()
	ctx, cancel := context.WithTimeoutCause(ctx, limits.Wall-last.Spent, errWall)
	defer cancel()
	calls := last.Calls()
	t := turn{
		loop: l, limits: limits, begin: time.Now().Add(-last.Spent), system: l.System, tools: l.Tools,
		last: signature(calls), repeats: last.Repeats, kept: len(history),
		Outcome: Outcome{History: history, Usage: last.Usage, Requests: last.Requests, Calls: last.Executed},
	}
	t.records = maps.Clone(l.Records)
	choice := l.Choice
	if last.Requests > 1 && choice.Demands() {
		choice = model.Choice{}
	}
	t.earlier = earlier
	err := t.answer(ctx, calls, choice)
	t.earlier = nil
	if err == nil && !t.ended {
		err = t.run(ctx)
	}
	return t.end(err)
}

// keep lets the answer that came last be kept, with what came before it.
func (t *turn) keep(ctx context.Context) error {
	if t.loop.Keep == nil {
		return nil
	}
	err := t.loop.Keep(ctx, Step{
		Items: t.History[t.kept:], Requests: t.Requests, Executed: t.Calls, Repeats: t.repeats, Usage: t.Usage, Spent: time.Since(t.begin), Records: t.fresh,
	})
	t.fresh = nil
	t.kept = len(t.History)
	return err
}

// before is what the model is told of a call that another process made; made is false
// where none did.
func (t *turn) before(ctx context.Context, o model.Call) (text string, made bool) {
	if t.earlier == nil {
		return "", false
	}
	c := CallOf(o)
	text, made, err := t.earlier(ctx, c)
	switch {
	case errors.Is(err, ErrLeft):
		t.left.Store(true)
		return "", true
	case !made:
		return "", false
	}
	return t.told(c, text, err), true
}
