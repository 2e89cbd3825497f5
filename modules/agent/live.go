package agent

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/modules/billing"
	"github.com/portico-run/portico/modules/model"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/tool"
)

// live shows a run as it happens and writes its messages. It implements
// Observer; calls of tools are shown by their own records. One goroutine does
// all the writing of what the model says, so that it is written in order, and
// holds no lock while it does: a slow database does not hold up the model.
type live struct {
	service *Service
	run     run.Run
	logger  *slog.Logger

	mu        sync.Mutex // never held over I/O
	messageID string     // of the answer that is being written
	text      strings.Builder
	reasoning strings.Builder
	shown     [2]int              // bytes of both that were shown
	writing   []fragment          // of calls, not shown yet
	calls     map[string]*written // of this answer, by the provider's ids
	abandoned []*written          // of answers that broke off
	answered  map[string]tool.Shown
	// refuse records a call that was never executed; set before the first Delta.
	refuse func(ctx context.Context, c Call, s tool.Shown, r Refusal)

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

func newLive(ctx context.Context, s *Service, r run.Run) *live {
	l := &live{
		service: s, run: r, logger: s.Logger, messageID: ids.New(ids.Message), calls: map[string]*written{},
		asked: make(chan func()), stop: make(chan struct{}), done: make(chan struct{}),
	}
	go l.show(ctx)
	return l
}

// show is the writer. It looks for new words now and then, so that they do not
// cost a transaction each.
func (l *live) show(ctx context.Context) {
	defer close(l.done)
	tick := time.NewTicker(l.service.Settings.Flush)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l.flush(ctx)
		case work := <-l.asked:
			work()
		case <-l.stop:
			l.leave(ctx)
			return
		}
	}
}

// write lets the writer do something and waits until it is done. It must not be
// called after close.
func (l *live) write(work func() error) error {
	failed := make(chan error, 1)
	l.asked <- func() { failed <- work() }
	return <-failed
}

// close shows what is left.
func (l *live) close() {
	close(l.stop)
	<-l.done
}

// Delta implements Observer. It never waits for the database.
func (l *live) Delta(d model.Delta) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch d.Kind {
	case model.Text:
		l.text.WriteString(d.Text)
	case model.Reasoning:
		l.reasoning.WriteString(d.Text)
	case model.Arguments:
		c := l.calls[d.CallID]
		if c == nil {
			c = &written{callID: l.service.Records.NewID(ids.Agent), name: d.Name}
			l.calls[d.CallID] = c
		}
		c.text.WriteString(d.Text)
		if n := len(l.writing); n > 0 && l.writing[n-1].call == c {
			l.writing[n-1].text += d.Text
		} else {
			l.writing = append(l.writing, fragment{c, d.Text})
		}
	case model.Restart:
		// What was shown stays with its message, which gets no content.
		l.next(nil)
	}
}

// next begins another message. The calls of this one that are not in the answer
// are abandoned.
func (l *live) next(answer []output) {
	l.answered = map[string]tool.Shown{}
	for _, o := range answer {
		shown := tool.Shown{}
		if c := l.calls[o.CallID]; c != nil {
			shown = tool.Shown{CallID: c.callID, Event: c.event}
			delete(l.calls, o.CallID)
		}
		l.answered[o.CallID] = shown
	}
	for _, c := range l.calls {
		l.abandoned = append(l.abandoned, c)
	}
	l.messageID, l.shown, l.writing, l.calls = ids.New(ids.Message), [2]int{}, nil, map[string]*written{}
	l.text.Reset()
	l.reasoning.Reset()
}

// shownAs is how a call of the last answer was shown while it was written.
func (l *live) shownAs(providerID string) tool.Shown {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answered[providerID]
}

// now is the answer as far as it is written. The caller holds the lock.
func (l *live) now() message {
	return message{id: l.messageID, text: l.text.String(), reasoning: l.reasoning.String(), shown: l.shown}
}

func (l *live) event(ctx context.Context, tx database.Tx, e run.NewEvent) (number int64, err error) {
	return l.service.Runs.Append(ctx, tx, l.run.Ref(), e)
}

// append writes in one transaction, also when the run is being ended. What
// cannot be shown is in the log; whether the run goes on without it is the
// caller's.
func (l *live) append(ctx context.Context, work func(ctx context.Context, tx database.Tx) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	err := l.service.DB.InTx(ctx, func(tx database.Tx) error { return work(ctx, tx) })
	if err != nil {
		l.logger.WarnContext(ctx, "a run is not shown live", "resultId", l.run.ResultID, "error", err)
	}
	return err
}

// Answered implements Observer: the answer becomes a message, and is paid for,
// or the run ends.
func (l *live) Answered(ctx context.Context, r model.Response) error {
	usage, err := json.Marshal(map[string]int64{"inputTokens": r.Usage.Input, "outputTokens": r.Usage.Output})
	if err != nil {
		return err
	}
	_, calls := read(r.Output)
	err = l.write(func() error {
		l.flush(ctx)
		l.mu.Lock()
		m := l.now()
		l.next(calls)
		l.mu.Unlock()
		return l.append(ctx, func(ctx context.Context, tx database.Tx) error { return l.record(ctx, tx, m, usage, r) })
	})
	l.logger.InfoContext(ctx, "a model answered", "resultId", l.run.ResultID, "model", r.Model, "items", len(r.Output),
		"inputTokens", r.Usage.Input, "outputTokens", r.Usage.Output)
	return err
}

func (l *live) record(ctx context.Context, tx database.Tx, m message, usage json.RawMessage, r model.Response) error {
	if err := l.say(ctx, tx, m, usage); err != nil {
		return err
	}
	err := l.service.Billing.ChargeModel(ctx, tx, billing.ModelCharge{
		UID: l.run.UID, ResultID: l.run.ResultID, Version: l.run.Version, Model: r.Model, Input: r.Usage.Input, Output: r.Usage.Output,
		Price: l.service.Settings.Price.Of(r.Usage.Input, r.Usage.Output),
	})
	if err != nil {
		return err
	}
	_, err = l.event(ctx, tx, run.NewEvent{Type: run.TokenUsage, Payload: map[string]any{"messageId": m.id, "tokenUsage": map[string]any{
		"modelName": r.Model, "inputTokens": r.Usage.Input, "outputTokens": r.Usage.Output, "cacheReadTokens": r.Usage.InputDetails.Cached,
	}}})
	return err
}

// conclude shows and records the answer of a run that the model ended with a
// tool.
func (l *live) conclude(ctx context.Context, text string) error {
	return l.write(func() error {
		m := message{id: ids.New(ids.Message), text: text}
		return l.append(ctx, func(ctx context.Context, tx database.Tx) error { return l.say(ctx, tx, m, nil) })
	})
}

// Called implements Observer.
func (l *live) Called(ctx context.Context, c Call) {
	l.logger.InfoContext(ctx, "a model calls a tool", "resultId", l.run.ResultID, "tool", c.Name)
}

// Returned implements Observer.
func (l *live) Returned(ctx context.Context, c Call, output string, failed error) {
	// Not what it returned, nor why it failed: both may hold what was sent.
	l.logger.InfoContext(ctx, "a tool returned", "resultId", l.run.ResultID, "tool", c.Name, "callId", *c.record, "bytes", len(output), "failed", failed != nil)
	if _, stack, ok := Panic(failed); ok {
		l.logger.ErrorContext(ctx, "a tool panicked", "resultId", l.run.ResultID, "tool", c.Name, "stack", string(stack))
	}
}

// given records what the model was given of a call.
func (l *live) given(ctx context.Context, callID, content string) {
	_ = l.append(ctx, func(ctx context.Context, tx database.Tx) error { // the record of the call has it, too
		return l.service.Runs.ChangeMessage(ctx, tx, l.run.Ref(), run.MessageChange{
			MessageID: ids.MessageOf(callID), Content: &content,
		})
	})
}
