package live

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/modules/agent/loop"
	"github.com/portico-run/portico/modules/model"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
)

// flush shows what was not shown yet: the words, and then the calls that follow
// them. What could not be shown is tried again at the next look, unless the
// answer began anew meanwhile.
func (w *Writer) flush(ctx context.Context) {
	w.mu.Lock()
	m, calls, abandoned := w.now(), w.writing, w.abandoned
	w.writing, w.abandoned = nil, nil
	w.mu.Unlock()
	words := w.words(ctx, m) == nil
	if words && len(calls) > 0 && w.fragments(ctx, m, calls) == nil {
		calls = nil
	}
	w.end(ctx, abandoned)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.messageID != m.id {
		return
	}
	w.writing = append(calls, w.writing...)
	if words {
		w.shown = [2]int{len(m.text), len(m.reasoning)}
	}
}

func (w *Writer) words(ctx context.Context, m message) error {
	if len(m.text) == m.shown[0] && len(m.reasoning) == m.shown[1] {
		return nil
	}
	var number int64
	err := w.Append(ctx, func(ctx context.Context, tx database.Tx) (err error) {
		number, err = w.Event(ctx, tx, run.NewEvent{Type: run.Stream, Payload: m.unshown()})
		return err
	})
	if err == nil {
		w.began(m, number)
	}
	return err
}

// unshown is the payload of the event that shows the rest of an answer.
func (m message) unshown() map[string]any {
	payload := map[string]any{"messageId": m.id, "step": map[string]string{"name": "answer"}, "content": m.text[m.shown[0]:]}
	if reasoning := m.reasoning[m.shown[1]:]; reasoning != "" {
		payload["reasoningContent"] = reasoning
	}
	return payload
}

// began notes the number of the event that shows a message, if it is the first.
func (w *Writer) began(m message, number int64) {
	if w.first.messageID != m.id {
		w.first = firstEvent{m.id, number}
	}
}

// fragments shows what was written of calls. An answer that begins with a call is
// shown first, without words, so that it comes before its calls.
func (w *Writer) fragments(ctx context.Context, m message, calls []fragment) error {
	var answer int64
	events := map[*written]int64{}
	err := w.Append(ctx, func(ctx context.Context, tx database.Tx) (err error) {
		if w.first.messageID != m.id {
			if answer, err = w.Event(ctx, tx, run.NewEvent{Type: run.Stream, Payload: m.unshown()}); err != nil {
				return err
			}
		}
		clear(events)
		for _, p := range calls {
			number, err := w.Event(ctx, tx, run.NewEvent{Type: run.ToolCallStream, Payload: map[string]any{
				"messageId": ids.MessageOf(p.call.callID), "content": p.text,
				"toolCallMeta": run.CallMeta{ToolName: p.call.name, ToolCallID: p.call.callID, Status: string(record.Executing)},
			}})
			if err != nil {
				return err
			}
			if events[p.call] == 0 {
				events[p.call] = number
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	w.began(m, answer)
	for c, number := range events {
		if c.event == 0 {
			c.event = number
		}
	}
	return nil
}

// end records calls that were shown while they were written and are in no
// answer, as failed, so that none of them stays unfinished before the user.
func (w *Writer) end(ctx context.Context, abandoned []*written) {
	slices.SortFunc(abandoned, func(a, b *written) int { return cmp.Compare(a.event, b.event) })
	for _, c := range abandoned {
		if c.event > 0 {
			call := loop.CallOf(model.Call{Name: c.name, Arguments: c.text.String()})
			w.Abandoned(ctx, call, record.Shown{CallID: c.callID, Event: c.event})
		}
	}
}

// leave shows and records what is left of an answer that did not end.
func (w *Writer) leave(ctx context.Context) {
	w.flush(ctx)
	w.mu.Lock()
	m := w.now()
	w.next(nil)
	abandoned := w.abandoned
	w.mu.Unlock()
	w.end(ctx, abandoned)
	if m.text == "" && m.reasoning == "" {
		return
	}
	_ = w.Append(ctx, func(ctx context.Context, tx database.Tx) error { return w.say(ctx, tx, m, nil) }) // it is in the log
}

// say records an answer as a message, and shows what could not be shown so far.
func (w *Writer) say(ctx context.Context, tx database.Tx, m message, usage json.RawMessage) error {
	said := run.NewMessage{MessageID: m.id, Type: run.AI, Content: m.text, Reasoning: m.reasoning, Usage: usage}
	if w.first.messageID != m.id {
		_, err := w.Event(ctx, tx, run.NewEvent{Type: run.Stream, Payload: m.unshown(), Message: &said})
		return err
	}
	said.Event = w.first.number
	return w.deps.Runs.AddMessage(ctx, tx, w.run.Ref(), said)
}
