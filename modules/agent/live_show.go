package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/tool"
)

// flush shows what was not shown yet: the words, and then the calls that follow
// them. What could not be shown is tried again at the next look, unless the
// answer began anew meanwhile.
func (l *live) flush(ctx context.Context) {
	l.mu.Lock()
	m, calls, abandoned := l.now(), l.writing, l.abandoned
	l.writing, l.abandoned = nil, nil
	l.mu.Unlock()
	words := l.words(ctx, m) == nil
	if words && len(calls) > 0 && l.fragments(ctx, m, calls) == nil {
		calls = nil
	}
	l.end(ctx, abandoned)
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
	if len(m.text) == m.shown[0] && len(m.reasoning) == m.shown[1] {
		return nil
	}
	var number int64
	err := l.append(ctx, func(ctx context.Context, tx database.Tx) (err error) {
		number, err = l.event(ctx, tx, run.NewEvent{Type: run.Stream, Payload: m.unshown()})
		return err
	})
	if err == nil {
		l.began(m, number)
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
func (l *live) began(m message, number int64) {
	if l.first.messageID != m.id {
		l.first = firstEvent{m.id, number}
	}
}

// fragments shows what was written of calls. An answer that begins with a call is
// shown first, without words, so that it comes before its calls.
func (l *live) fragments(ctx context.Context, m message, calls []fragment) error {
	var answer int64
	events := map[*written]int64{}
	err := l.append(ctx, func(ctx context.Context, tx database.Tx) (err error) {
		if l.first.messageID != m.id {
			if answer, err = l.event(ctx, tx, run.NewEvent{Type: run.Stream, Payload: m.unshown()}); err != nil {
				return err
			}
		}
		clear(events)
		for _, p := range calls {
			number, err := l.event(ctx, tx, run.NewEvent{Type: run.ToolCallStream, Payload: map[string]any{
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
	l.began(m, answer)
	for c, number := range events {
		if c.event == 0 {
			c.event = number
		}
	}
	return nil
}

// end records calls that were shown while they were written and are in no
// answer, as failed, so that none of them stays unfinished before the user.
func (l *live) end(ctx context.Context, abandoned []*written) {
	slices.SortFunc(abandoned, func(a, b *written) int { return cmp.Compare(a.event, b.event) })
	for _, c := range abandoned {
		if c.event > 0 {
			o := output{Name: c.name, Arguments: c.text.String()}
			l.refuse(ctx, o.call(), tool.Shown{CallID: c.callID, Event: c.event}, Refusal{Reason: "not executed: the model's answer broke off while it wrote the call."})
		}
	}
}

// leave shows and records what is left of an answer that did not end.
func (l *live) leave(ctx context.Context) {
	l.flush(ctx)
	l.mu.Lock()
	m := l.now()
	l.next(nil)
	abandoned := l.abandoned
	l.mu.Unlock()
	l.end(ctx, abandoned)
	if m.text == "" && m.reasoning == "" {
		return
	}
	_ = l.append(ctx, func(ctx context.Context, tx database.Tx) error { return l.say(ctx, tx, m, nil) }) // it is in the log
}

// say records an answer as a message, and shows what could not be shown so far.
func (l *live) say(ctx context.Context, tx database.Tx, m message, usage json.RawMessage) error {
	said := run.NewMessage{MessageID: m.id, Type: run.AI, Content: m.text, Reasoning: m.reasoning, Usage: usage}
	if l.first.messageID != m.id {
		_, err := l.event(ctx, tx, run.NewEvent{Type: run.Stream, Payload: m.unshown(), Message: &said})
		return err
	}
	said.Event = l.first.number
	return l.service.Runs.AddMessage(ctx, tx, l.run.Ref(), said)
}
