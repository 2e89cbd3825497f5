package answer

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/agent/anthropic/wire"
	"github.com/portico-run/portico/modules/agent/dialogue"
	"github.com/portico-run/portico/modules/model"
)

// Sink is where events go, one after the other.
type Sink interface {
	Event(name string, data []byte) error
}

// Quiet is the longest silence of a stream.
const Quiet = 15 * time.Second

// Stream writes an answer as events while it comes: docs/wire/anthropic.md#streaming.
type Stream struct {
	view View
	sink Sink

	begun bool
	index int  // of the block that is open, or of the next
	open  kind // of the block that is open
	told  told // in pieces, since the model was asked
}

// told is what pieces told of and no part yet.
type told struct {
	text    string
	thought bool
}

// kind is what the block that is open has.
type kind int

const (
	nothing kind = iota
	wording
	thinking
)

// NewStream returns a stream of which nothing is written.
func NewStream(v View, to Sink) *Stream { return &Stream{view: v, sink: to} }

func (s *Stream) send(name string, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	return s.sink.Event(name, text)
}

// begin writes the head of the message, once.
func (s *Stream) begin(model string) error {
	if s.begun {
		return nil
	}
	s.begun = true
	return s.send("message_start", map[string]any{"type": "message_start", "message": s.view.begin(model)})
}

// Begin writes the head of the message, and the steps that came before it.
func (s *Stream) Begin(early []dialogue.Event) error {
	for _, e := range early {
		if err := s.Step(e); err != nil {
			return err
		}
	}
	return s.begin("")
}

// Step writes a step of the answer.
func (s *Stream) Step(e dialogue.Event) error {
	model := ""
	if e.Asked != nil {
		model = e.Asked.Model
	}
	if err := s.begin(model); err != nil {
		return err
	}
	switch {
	case e.Asked != nil, e.Restart:
		s.told = told{} // what broke off comes again, in a block of its own
		return s.stop()
	case e.Delta != nil:
		return s.piece(*e.Delta)
	case e.Part != nil:
		return s.part(e.Part)
	}
	return nil
}

func (s *Stream) piece(d dialogue.Delta) error {
	if d.Text == "" {
		return nil
	}
	want, empty := wording, any(textBlock{Type: "text"})
	if d.Thought {
		want, empty = thinking, thinkingBlock{Type: "thinking"}
	}
	if s.open != want {
		if err := s.stop(); err != nil {
			return err
		}
		if err := s.start(empty); err != nil {
			return err
		}
		s.open = want
	}
	if d.Thought {
		s.told.thought = true
		return s.delta(map[string]string{"type": "thinking_delta", "thinking": d.Text})
	}
	s.told.text += d.Text
	return s.delta(map[string]string{"type": "text_delta", "text": d.Text})
}

// part writes a whole part, or what its pieces did not tell.
func (s *Stream) part(p dialogue.Part) error {
	switch p := p.(type) {
	case dialogue.Text:
		return s.text(p.Text)
	case dialogue.Thought:
		return s.thought(p)
	}
	if err := s.stop(); err != nil {
		return err
	}
	block := s.view.block(p)
	use, ok := block.(useBlock)
	if !ok || use.Caller.Type != wire.Direct {
		return s.whole(block)
	}
	input := use.Input
	use.Input = json.RawMessage("{}")
	if err := s.start(use); err != nil {
		return err
	}
	if err := s.delta(map[string]string{"type": "input_json_delta", "partial_json": string(input)}); err != nil {
		return err
	}
	return s.close()
}

// text writes words, without those that came in pieces.
func (s *Stream) text(text string) error {
	if rest, all := strings.CutPrefix(s.told.text, text); all {
		s.told.text = rest
		return s.stop()
	}
	err := s.piece(dialogue.Delta{Text: strings.TrimPrefix(text, s.told.text)})
	s.told.text = ""
	if err != nil {
		return err
	}
	return s.stop()
}

// thought writes what the model thought. The token of what came in pieces is known when
// the block is over, and other words may have followed it: it has a block of its own,
// and history puts it in its place.
func (s *Stream) thought(p dialogue.Thought) error {
	if s.told.thought || s.told.text != "" || p.Text == "" {
		if err := s.stop(); err != nil {
			return err
		}
		return s.whole(redactedBlock{"redacted_thinking", p.Token})
	}
	err := s.piece(dialogue.Delta{Thought: true, Text: p.Text})
	s.told.thought = false
	if err != nil {
		return err
	}
	if err := s.delta(map[string]string{"type": "signature_delta", "signature": p.Token}); err != nil {
		return err
	}
	return s.stop()
}

// whole writes a block that has everything from the start.
func (s *Stream) whole(block any) error {
	if err := s.start(block); err != nil {
		return err
	}
	return s.close()
}

func (s *Stream) start(block any) error {
	return s.send("content_block_start", map[string]any{"type": "content_block_start", "index": s.index, "content_block": block})
}

func (s *Stream) delta(d map[string]string) error {
	return s.send("content_block_delta", map[string]any{"type": "content_block_delta", "index": s.index, "delta": d})
}

// stop ends the block that is open, if one is.
func (s *Stream) stop() error {
	if s.open == nothing {
		return nil
	}
	s.open = nothing
	return s.close()
}

func (s *Stream) close() error {
	err := s.send("content_block_stop", map[string]any{"type": "content_block_stop", "index": s.index})
	s.index++
	return err
}

// lastUsage is the tokens at the end of a stream.
type lastUsage struct {
	Input       int64                       `json:"input_tokens"`
	Output      int64                       `json:"output_tokens"`
	Written     int64                       `json:"cache_creation_input_tokens"`
	Cached      int64                       `json:"cache_read_input_tokens"`
	Details     httpapi.OrNull[ReplyOutput] `json:"output_tokens_details"`
	ServerTools ReplyServerTools            `json:"server_tool_use"`
}

func last(u model.Usage) lastUsage {
	all := usage(u)
	return lastUsage{all.Input, all.Output, all.Written, all.Cached, all.Details, all.ServerTools}
}

// End writes the end of the message.
func (s *Stream) End(a dialogue.Answer) error {
	if err := s.begin(a.Model); err != nil {
		return err
	}
	if err := s.stop(); err != nil {
		return err
	}
	end := struct {
		Type    string        `json:"type"`
		Delta   ending        `json:"delta"`
		Usage   lastUsage     `json:"usage"`
		Portico *ReplyCredits `json:"portico,omitempty"`
	}{"message_delta", s.view.ending(a), last(a.Usage), extra(a)}
	if err := s.send("message_delta", end); err != nil {
		return err
	}
	return s.send("message_stop", map[string]string{"type": "message_stop"})
}

// Fail ends a stream that began with an error. What may not be shown is not in it.
func (s *Stream) Fail(err error, traceID string) error {
	e, ok := errors.AsType[*errs.Error](err)
	if !ok {
		e = errs.New(errs.Internal, "An unknown error has occurred.").Do("Try again later; if it stays, give the operator the request_id.")
	}
	return s.send("error", wire.Refuse(e, traceID))
}
