// Package live shows and records what a model says and calls, as it happens.
package live

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/modules/agent/loop"
	"github.com/portico-run/portico/modules/billing"
	"github.com/portico-run/portico/modules/billing/price"
	"github.com/portico-run/portico/modules/model"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
)

// Deps is what a run is shown and recorded with.
type Deps struct {
	DB      *database.DB
	Runs    *run.Service
	Billing Billing
	// Price is what the tokens of a model cost, by its name.
	Price func(model string) price.Tokens
	// Flush is how often the words of an answer are shown.
	Flush time.Duration
	// NewCallID makes the id of a call that is not recorded yet.
	NewCallID func() string
	Logger    *slog.Logger
}

// Billing is where answers of models are paid for.
type Billing interface {
	ChargeModel(ctx context.Context, tx database.Tx, c billing.ModelCharge) error
}

// settleTimeout bounds a write of a run that is being ended.
const settleTimeout = 30 * time.Second

// Writer shows a run as it happens and writes its messages. It implements
// loop.Observer; calls of tools are shown by their own records. One goroutine
// does all the writing of what the model says, so that it is written in order,
// and holds no lock while it does: a slow database does not hold up the model.
type Writer struct {
	// Abandoned records a call that was shown and never executed, since its answer
	// broke off. It is set before the first Delta.
	Abandoned func(ctx context.Context, c loop.Call, shown record.Shown)

	deps Deps
	run  run.Run

	mu        sync.Mutex // never held over I/O
	messageID string     // of the answer that is being written
	said      string     // the message of the last whole answer
	text      strings.Builder
	reasoning strings.Builder
	shown     [2]int              // bytes of both that were shown
	writing   []fragment          // of calls, not shown yet
	calls     map[string]*written // of this answer, by the provider's ids
	abandoned []*written          // of answers that broke off
	answered  map[string]record.Shown

	first firstEvent // the writer's own

	asked chan func() // what the writer is to do
	stop  chan struct{}
	done  chan struct{}
}

// written is a call while the model writes it. It has the id of its record
// already, so that all events about it have one.
type written struct {
	callID, name string
	text         strings.Builder
	event        int64 // the number of the event that showed it first; the writer's own
}

// fragment is a part of a call.
type fragment struct {
	call *written
	text string
}

// firstEvent is the number of the event that showed a message first.
type firstEvent struct {
	messageID string
	number    int64
}

// message is an answer as it was at a moment.
type message struct {
	id              string
	text, reasoning string
	shown           [2]int
}

// New begins to show a run. Close ends it, also after ctx has ended.
func New(ctx context.Context, d Deps, r run.Run) *Writer {
	w := &Writer{
		deps: d, run: r, messageID: ids.New(ids.Message), calls: map[string]*written{},
		asked: make(chan func()), stop: make(chan struct{}), done: make(chan struct{}),
	}
	go w.show(ctx)
	return w
}

// show is the writer. It looks for new words now and then, so that they do not
// cost a transaction each.
func (w *Writer) show(ctx context.Context) {
	defer close(w.done)
	tick := time.NewTicker(w.deps.Flush)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			w.flush(ctx)
		case work := <-w.asked:
			work()
		case <-w.stop:
			w.leave(ctx)
			return
		}
	}
}

// write lets the writer do something and waits until it is done. It must not be
// called after Close.
func (w *Writer) write(work func() error) error {
	failed := make(chan error, 1)
	w.asked <- func() { failed <- work() }
	return <-failed
}

// Close shows what is left.
func (w *Writer) Close() {
	close(w.stop)
	<-w.done
}

// Delta implements loop.Observer. It never waits for the database.
func (w *Writer) Delta(d model.Delta) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch d.Kind {
	case model.Text:
		w.text.WriteString(d.Text)
	case model.Reasoning:
		w.reasoning.WriteString(d.Text)
	case model.Arguments:
		c := w.calls[d.CallID]
		if c == nil {
			c = &written{callID: w.deps.NewCallID(), name: d.Name}
			w.calls[d.CallID] = c
		}
		c.text.WriteString(d.Text)
		if n := len(w.writing); n > 0 && w.writing[n-1].call == c {
			w.writing[n-1].text += d.Text
		} else {
			w.writing = append(w.writing, fragment{c, d.Text})
		}
	case model.Restart:
		// What was shown stays with its message, which gets no content.
		w.next(nil)
	}
}

// next begins another message. The calls of this one that are not in the answer
// are abandoned.
func (w *Writer) next(answer []model.Call) {
	w.answered = map[string]record.Shown{}
	for _, o := range answer {
		shown := record.Shown{}
		_, twice := w.answered[o.ID]
		switch c := w.calls[o.ID]; {
		case c != nil:
			shown = record.Shown{CallID: c.callID, Event: c.event}
			delete(w.calls, o.ID)
		case !twice: // two calls with one id get one each when they are recorded
			shown.CallID = w.deps.NewCallID()
		}
		w.answered[o.ID] = shown
	}
	for _, c := range w.calls {
		w.abandoned = append(w.abandoned, c)
	}
	w.messageID, w.shown, w.writing, w.calls = ids.New(ids.Message), [2]int{}, nil, map[string]*written{}
	w.text.Reset()
	w.reasoning.Reset()
}

// ShownAs is how a call of the last answer was shown while it was written.
func (w *Writer) ShownAs(providerID string) record.Shown {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.answered[providerID]
}

// Shown is how the calls of the last answer were shown, by the provider's ids.
func (w *Writer) Shown() map[string]record.Shown {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.answered)
}

// Said is the message of the last whole answer; empty before there was one.
func (w *Writer) Said() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.said
}

// Restore says how the calls of an answer were shown that another process had. It
// comes before the first Delta.
func (w *Writer) Restore(shown map[string]record.Shown) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answered = shown
}

// now is the answer as far as it is written. The caller holds the lock.
func (w *Writer) now() message {
	return message{id: w.messageID, text: w.text.String(), reasoning: w.reasoning.String(), shown: w.shown}
}

// Event adds an event to the run and returns its number.
func (w *Writer) Event(ctx context.Context, tx database.Tx, e run.NewEvent) (number int64, err error) {
	return w.deps.Runs.Append(ctx, tx, w.run.Ref(), e)
}

// Append writes in one transaction, also when the run is being ended. What
// cannot be shown is in the log; whether the run goes on without it is the
// caller's.
func (w *Writer) Append(ctx context.Context, work func(ctx context.Context, tx database.Tx) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	err := w.deps.DB.InTx(ctx, func(tx database.Tx) error { return work(ctx, tx) })
	if err != nil {
		w.deps.Logger.WarnContext(ctx, "a run is not shown live", "resultId", w.run.ResultID, "error", err)
	}
	return err
}

// Answered implements loop.Observer: the answer becomes a message, and is paid for,
// or the run ends.
func (w *Writer) Answered(ctx context.Context, r model.Response) error {
	usage, err := json.Marshal(map[string]int64{"inputTokens": r.Usage.Input, "outputTokens": r.Usage.Output})
	if err != nil {
		return err
	}
	_, calls := r.Read()
	err = w.write(func() error {
		w.flush(ctx)
		w.mu.Lock()
		m := w.now()
		w.next(calls)
		w.said = m.id
		w.mu.Unlock()
		return w.Append(ctx, func(ctx context.Context, tx database.Tx) error { return w.record(ctx, tx, m, usage, r) })
	})
	w.deps.Logger.InfoContext(ctx, "a model answered", "resultId", w.run.ResultID, "model", r.Model, "items", len(r.Output),
		"inputTokens", r.Usage.Input, "outputTokens", r.Usage.Output)
	return err
}

func (w *Writer) record(ctx context.Context, tx database.Tx, m message, usage json.RawMessage, r model.Response) error {
	used := price.Used{Input: r.Usage.Input, Cached: r.Usage.InputDetails.Cached, Written: r.Usage.InputDetails.Written, Output: r.Usage.Output}
	// The user's row is locked before the run's, as where a call ends.
	err := w.deps.Billing.ChargeModel(ctx, tx, billing.ModelCharge{
		UID: w.run.UID, ResultID: w.run.ResultID, Version: w.run.Version, Model: r.Model,
		Input: used.Input, Cached: used.Cached, Written: used.Written, Output: used.Output, Price: w.deps.Price(r.Name).Of(used),
	})
	if err != nil {
		return err
	}
	if err := w.deps.Runs.Mine(ctx, tx, w.run.Ref()); err != nil {
		return err
	}
	if err := w.say(ctx, tx, m, usage); err != nil {
		return err
	}
	_, err = w.Event(ctx, tx, run.NewEvent{Type: run.TokenUsage, Payload: map[string]any{"messageId": m.id, "tokenUsage": map[string]any{
		"modelName": r.Model, "inputTokens": r.Usage.Input, "outputTokens": r.Usage.Output, "cacheReadTokens": r.Usage.InputDetails.Cached,
	}}})
	return err
}

// Conclude shows and records the answer of a run that the model ended with a
// tool.
func (w *Writer) Conclude(ctx context.Context, text string) error {
	return w.write(func() error {
		m := message{id: ids.New(ids.Message), text: text}
		return w.Append(ctx, func(ctx context.Context, tx database.Tx) error { return w.say(ctx, tx, m, nil) })
	})
}

// Called implements loop.Observer.
func (w *Writer) Called(ctx context.Context, c loop.Call) {
	w.deps.Logger.InfoContext(ctx, "a model calls a tool", "resultId", w.run.ResultID, "tool", c.Name)
}

// Returned implements loop.Observer.
func (w *Writer) Returned(ctx context.Context, c loop.Call, output string, failed error) {
	// Not what it returned, nor why it failed: both may hold what was sent.
	w.deps.Logger.InfoContext(ctx, "a tool returned", "resultId", w.run.ResultID, "tool", c.Name, "callId", c.Record(), "bytes", len(output), "failed", failed != nil)
	if _, stack, ok := loop.Panic(failed); ok {
		w.deps.Logger.ErrorContext(ctx, "a tool panicked", "resultId", w.run.ResultID, "tool", c.Name, "stack", string(stack))
	}
}

// Given records what the model was given of a call.
func (w *Writer) Given(ctx context.Context, callID, content string) {
	_ = w.Append(ctx, func(ctx context.Context, tx database.Tx) error { // the record of the call has it, too
		return w.deps.Runs.ChangeMessage(ctx, tx, w.run.Ref(), run.MessageChange{
			MessageID: ids.MessageOf(callID), Content: &content,
		})
	})
}
