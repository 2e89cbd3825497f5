package agent

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/portico-run/portico/modules/billing"
	"github.com/portico-run/portico/modules/internal/database"
	"github.com/portico-run/portico/modules/internal/ids"
	"github.com/portico-run/portico/modules/model"
	"github.com/portico-run/portico/modules/run"
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
	shown     [2]int        // bytes of both that were shown
	writing   []model.Delta // of calls, not shown yet

	asked chan func() // what the writer is to do
	stop  chan struct{}
	done  chan struct{}
}

// message is an answer as it was at a moment.
type message struct {
	id              string
	text, reasoning string
	shown           [2]int
}

func newLive(ctx context.Context, s *Service, r run.Run) *live {
	l := &live{
		service: s, run: r, logger: s.Logger, messageID: ids.New(ids.Message),
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
			l.flush(ctx)
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
		if n := len(l.writing); n > 0 && l.writing[n-1].CallID == d.CallID {
			l.writing[n-1].Text += d.Text
		} else {
			l.writing = append(l.writing, d)
		}
	case model.Restart:
		// What was shown stays with its message, which gets no content.
		l.next()
	}
}

// next begins another message.
func (l *live) next() {
	l.messageID, l.shown, l.writing = ids.New(ids.Message), [2]int{}, nil
	l.text.Reset()
	l.reasoning.Reset()
}

// now is the answer as far as it is written. The caller holds the lock.
func (l *live) now() message {
	return message{id: l.messageID, text: l.text.String(), reasoning: l.reasoning.String(), shown: l.shown}
}

// flush shows what was not shown yet: the words, and then the calls that follow
// them. What could not be shown is tried again at the next look, unless the
// answer began anew meanwhile.
func (l *live) flush(ctx context.Context) {
	l.mu.Lock()
	m, calls := l.now(), l.writing
	l.writing = nil
	l.mu.Unlock()
	words := l.words(ctx, m) == nil
	if words && len(calls) > 0 && l.append(ctx, func(ctx context.Context, tx database.Tx) error { return l.calls(ctx, tx, m.id, calls) }) == nil {
		calls = nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.messageID != m.id {
		return
	}
	l.writing = append(calls, l.writing...)
	if words {
		l.shown = [2]int{len(m.text), len(m.reasoning)}
	}
}

func (l *live) words(ctx context.Context, m message) error {
	text, reasoning := m.text[m.shown[0]:], m.reasoning[m.shown[1]:]
	if text == "" && reasoning == "" {
		return nil
	}
	payload := map[string]any{"messageId": m.id, "step": map[string]string{"name": "answer"}, "content": text}
	if reasoning != "" {
		payload["reasoningContent"] = reasoning
	}
	return l.append(ctx, func(ctx context.Context, tx database.Tx) error { return l.event(ctx, tx, run.Stream, payload) })
}

// calls shows what was written of calls. They have no record yet, so that the
// id is the model's own.
func (l *live) calls(ctx context.Context, tx database.Tx, messageID string, calls []model.Delta) error {
	for _, d := range calls {
		err := l.event(ctx, tx, run.ToolCallStream, map[string]any{
			"messageId": messageID, "toolCallMeta": map[string]string{"toolName": d.Name, "toolCallId": d.CallID, "status": "executing"}, "content": d.Text,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *live) event(ctx context.Context, tx database.Tx, t run.EventType, payload any) error {
	_, err := l.service.Runs.Append(ctx, tx, l.run.UID, l.run.ResultID, l.run.Version, run.NewEvent{Type: t, Payload: payload})
	return err
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
	err = l.write(func() error {
		l.flush(ctx)
		l.mu.Lock()
		m := l.now()
		l.next()
		l.mu.Unlock()
		return l.append(ctx, func(ctx context.Context, tx database.Tx) error { return l.record(ctx, tx, m, usage, r) })
	})
	l.logger.InfoContext(ctx, "a model answered", "resultId", l.run.ResultID, "model", r.Model, "items", len(r.Output),
		"inputTokens", r.Usage.Input, "outputTokens", r.Usage.Output)
	return err
}

func (l *live) record(ctx context.Context, tx database.Tx, m message, usage json.RawMessage, r model.Response) error {
	if m.text != "" || m.reasoning != "" {
		err := l.service.Runs.AddMessage(ctx, tx, l.run.UID, l.run.ResultID, l.run.Version, run.NewMessage{
			MessageID: m.id, Type: run.AI, Content: m.text, Reasoning: m.reasoning, Usage: usage,
		})
		if err != nil {
			return err
		}
	}
	err := l.service.Billing.ChargeModel(ctx, tx, billing.ModelCharge{
		UID: l.run.UID, ResultID: l.run.ResultID, Version: l.run.Version, Model: r.Model, Input: r.Usage.Input, Output: r.Usage.Output,
		Price: l.service.Settings.Price.Of(r.Usage.Input, r.Usage.Output),
	})
	if err != nil {
		return err
	}
	return l.event(ctx, tx, run.TokenUsage, map[string]any{"tokenUsage": map[string]any{
		"modelName": r.Model, "inputTokens": r.Usage.Input, "outputTokens": r.Usage.Output, "cacheReadTokens": r.Usage.InputDetails.Cached,
	}})
}

// conclude shows and records the answer of a run that the model ended with a
// tool.
func (l *live) conclude(ctx context.Context, text string) error {
	return l.write(func() error {
		m := message{id: ids.New(ids.Message), text: text}
		return l.append(ctx, func(ctx context.Context, tx database.Tx) error {
			err := l.event(ctx, tx, run.Stream, map[string]any{"messageId": m.id, "step": map[string]string{"name": "answer"}, "content": text})
			if err != nil {
				return err
			}
			return l.service.Runs.AddMessage(ctx, tx, l.run.UID, l.run.ResultID, l.run.Version, run.NewMessage{MessageID: m.id, Type: run.AI, Content: text})
		})
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

// message records what a tool gave the model back.
func (l *live) message(ctx context.Context, callID, toolName, toolsetKey, status, content string) {
	meta, err := json.Marshal(map[string]string{"toolName": toolName, "toolsetId": toolsetKey, "toolsetKey": toolsetKey, "toolCallId": callID, "status": status})
	if err != nil {
		return // texts always marshal
	}
	_ = l.append(ctx, func(ctx context.Context, tx database.Tx) error { // the record of the call has it, too
		return l.service.Runs.AddMessage(ctx, tx, l.run.UID, l.run.ResultID, l.run.Version, run.NewMessage{
			Type: run.Tool, Content: content, CallMeta: meta, CallID: callID,
		})
	})
}
