package responses

import (
	"fmt"
	"strings"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/modules/agent/dialogue"
	"github.com/portico-run/portico/modules/agent/openai/history"
	"github.com/portico-run/portico/modules/agent/openai/offer"
)

// output makes the items of a response of the parts of an answer, and tells of them in
// events on the way. An item has its place from its first piece on.
type output struct {
	identity string // of the response
	user     actor.Actor
	offer    offer.Offer
	seals    history.Seals
	most     int // of what a program printed, in bytes
	tell     func(e event)

	items []any
	open  []*saying // messages and thoughts that have begun, the oldest first
}

// saying is a message or a thought while it comes.
type saying struct {
	index   int
	id      string
	thought bool
	told    strings.Builder // in pieces
	said    string          // in parts
	parts   int
}

func (o *output) id(kind string, index int) string {
	return fmt.Sprintf("%s_%s_%d", prefixOf(kind), o.identity, index)
}

// place keeps a place for an item and returns its index.
func (o *output) place() int {
	o.items = append(o.items, nil)
	return len(o.items) - 1
}

// take takes an event of the work on the answer.
func (o *output) take(e dialogue.Event) {
	switch {
	case e.Delta != nil:
		o.delta(*e.Delta)
	case e.Restart:
		o.restart()
	case e.Part != nil:
		o.part(e.Part)
	}
}

// delta passes a piece of words or thoughts on.
func (o *output) delta(d dialogue.Delta) {
	if d.Text == "" {
		return
	}
	var s *saying
	if n := len(o.open); n > 0 && o.open[n-1].thought == d.Thought {
		s = o.open[n-1]
	} else {
		s = o.begin(d.Thought)
	}
	o.piece(s, d.Text)
}

func (o *output) piece(s *saying, text string) {
	s.told.WriteString(text)
	e := event{Type: "response.output_text.delta", OutputIndex: &s.index, ItemID: s.id, Delta: &text, ContentIndex: new(int), Logprobs: &[]any{}}
	if s.thought {
		e = event{Type: "response.reasoning_summary_text.delta", OutputIndex: &s.index, ItemID: s.id, Delta: &text, SummaryIndex: new(int)}
	}
	o.tell(e)
}

// begin begins a message or a thought.
func (o *output) begin(thought bool) *saying {
	s := &saying{index: o.place(), thought: thought}
	var item any
	part := event{Type: "response.content_part.added", Part: textPart(""), ContentIndex: new(int)}
	if s.id = o.id("message", s.index); thought {
		s.id = o.id("reasoning", s.index)
		item = reasoningItem{ID: s.id, Type: "reasoning", Summary: []summary{}, Content: []any{}}
		part = event{Type: "response.reasoning_summary_part.added", Part: summary{"summary_text", ""}, SummaryIndex: new(int)}
	} else {
		item = messageItem{ID: s.id, Type: "message", Role: "assistant", Status: "in_progress", Content: []any{}}
	}
	o.open = append(o.open, s)
	o.tell(event{Type: "response.output_item.added", OutputIndex: &s.index, Item: item})
	part.OutputIndex, part.ItemID = &s.index, s.id
	o.tell(part)
	return s
}

// part takes a whole part.
func (o *output) part(p dialogue.Part) {
	switch p := p.(type) {
	case dialogue.Text:
		o.text(p.Text)
	case dialogue.Thought:
		o.thought(p)
	default:
		o.flush()
		o.other(p)
	}
}

// text is a text of the model's. Texts that follow each other are one message, as
// their pieces are.
func (o *output) text(text string) {
	for _, fits := range []func(s *saying) bool{
		func(s *saying) bool { return strings.HasPrefix(s.told.String(), s.said+text) }, // told of in pieces
		func(s *saying) bool { return s.parts == 0 },
		func(s *saying) bool { return s == o.open[len(o.open)-1] },
	} {
		for _, s := range o.open {
			if !s.thought && fits(s) {
				o.say(s, text)
				return
			}
		}
	}
	o.say(o.begin(false), text)
}

// say adds a part to a message, with what no piece told of.
func (o *output) say(s *saying, text string) {
	s.said, s.parts = s.said+text, s.parts+1
	if rest, ok := strings.CutPrefix(s.said, s.told.String()); ok && rest != "" {
		o.piece(s, rest)
	}
}

// thought is a thought that is whole.
func (o *output) thought(t dialogue.Thought) {
	for n, s := range o.open {
		if !s.thought {
			continue
		}
		for _, before := range o.open[:n] { // which are whole, too
			o.end(before, "completed", "")
		}
		o.open = o.open[n+1:]
		o.say(s, t.Text)
		o.end(s, "", t.Token)
		return
	}
	o.flush()
	if t.Text != "" {
		s := o.begin(true)
		o.open = o.open[:len(o.open)-1]
		o.say(s, t.Text)
		o.end(s, "", t.Token)
		return
	}
	index := o.place()
	item := reasoningItem{ID: o.id("reasoning", index), Type: "reasoning", Summary: []summary{}, Content: []any{}, Encrypted: t.Token}
	o.whole(index, item, item)
}

// flush ends all messages that are open.
func (o *output) flush() {
	for _, s := range o.open {
		o.end(s, "completed", "")
	}
	o.open = nil
}

// restart leaves the pieces of an answer that broke off where they are, for they are
// out: history.Read knows them by their status.
func (o *output) restart() {
	for _, s := range o.open {
		o.end(s, "incomplete", "")
	}
	o.open = nil
}

// end ends a message or a thought.
func (o *output) end(s *saying, status, token string) {
	text := s.said
	if s.parts == 0 || status == "incomplete" {
		text = s.told.String() // nothing but pieces came of it
	}
	at := func(e event) {
		e.OutputIndex, e.ItemID = &s.index, s.id
		o.tell(e)
	}
	if s.thought {
		done := summary{"summary_text", text}
		at(event{Type: "response.reasoning_summary_text.done", Text: &text, SummaryIndex: new(int)})
		at(event{Type: "response.reasoning_summary_part.done", Part: done, SummaryIndex: new(int)})
		o.done(s.index, reasoningItem{ID: s.id, Type: "reasoning", Summary: []summary{done}, Content: []any{}, Encrypted: token})
		return
	}
	at(event{Type: "response.output_text.done", Text: &text, ContentIndex: new(int), Logprobs: &[]any{}})
	at(event{Type: "response.content_part.done", Part: textPart(text), ContentIndex: new(int)})
	o.done(s.index, messageItem{ID: s.id, Type: "message", Role: "assistant", Status: status, Content: []any{textPart(text)}})
}

func (o *output) done(index int, item any) {
	o.items[index] = item
	o.tell(event{Type: "response.output_item.done", OutputIndex: &index, Item: item})
}

// whole tells of an item that comes at once.
func (o *output) whole(index int, begun, item any) {
	o.tell(event{Type: "response.output_item.added", OutputIndex: &index, Item: begun})
	o.done(index, item)
}

// other is a part that comes at once.
func (o *output) other(p dialogue.Part) {
	switch p := p.(type) {
	case dialogue.Call:
		o.call(p)
	case dialogue.Program:
		index := o.place()
		item := programItem{ID: o.id("program", index), Type: "program", CallID: p.ID, Code: p.Code, Fingerprint: o.seals.Fingerprint(o.user, p.ID, p.Code)}
		begun := item
		begun.Code, begun.Fingerprint = "", o.seals.Fingerprint(o.user, p.ID, "")
		o.whole(index, begun, item)
	case dialogue.Output:
		index := o.place()
		item := outputItem{ID: o.id("program_output", index), Type: "program_output", CallID: p.Program, Result: dialogue.Told(p, o.most), Status: "completed"}
		if p.Failure != "" {
			item.Status = "incomplete"
		}
		begun := item
		begun.Result = ""
		o.whole(index, begun, item)
	case dialogue.Approval:
		item := approvalItem{ID: history.ApprovalID(p.CallID), Type: "mcp_approval_request", Label: p.Toolset, Name: p.Tool, Arguments: string(p.Arguments)}
		o.whole(o.place(), item, item)
	}
}

// call asks for a call of the client's.
func (o *output) call(c dialogue.Call) {
	index, name := o.place(), o.offer.Outside(c.Name)
	item := callItem{
		ID: o.id("function_call", index), Type: "function_call", Status: "completed", Namespace: name.Namespace, Name: name.Name,
		Arguments: string(c.Arguments), CallID: c.ID,
	}
	switch {
	case c.Program != "":
		item.Status, item.CallID, item.Caller = "in_progress", history.CallID(c.ID), &caller{Type: "program", ID: c.Program}
	case o.offer.Programs != nil:
		item.Caller = &caller{Type: "direct"}
	}
	begun := item
	begun.Status, begun.Arguments = "in_progress", ""
	o.tell(event{Type: "response.output_item.added", OutputIndex: &index, Item: begun})
	o.tell(event{Type: "response.function_call_arguments.delta", OutputIndex: &index, ItemID: item.ID, Delta: &item.Arguments})
	o.tell(event{Type: "response.function_call_arguments.done", OutputIndex: &index, ItemID: item.ID, Arguments: &item.Arguments})
	o.done(index, item)
}
