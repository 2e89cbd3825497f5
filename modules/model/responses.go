package model

import (
	"cmp"
	"encoding/json"

	"github.com/portico-run/portico/modules/model/content"
	"github.com/portico-run/portico/modules/model/verbatim"
)

// This file is the Responses protocol: what is sent, and the events that come. Its
// items are those of this package.

type responsesWire struct{}

func (responsesWire) path() string { return "responses" }

// responsesBody is a request, without its input.
type responsesBody struct {
	Model     string       `json:"model"`
	MaxOutput int64        `json:"max_output_tokens,omitempty"`
	Tools     []Definition `json:"tools,omitempty"`
	Choice    *Choice      `json:"tool_choice,omitempty"`
	Parallel  bool         `json:"parallel_tool_calls"`
	Include   []string     `json:"include"`
	Store     bool         `json:"store"`
	Stream    bool         `json:"stream"`
}

// body writes a request. The items go in byte for byte, except that results do not say
// that they are failures, for which the protocol has no member.
func (responsesWire) body(c Config, req Request) ([]byte, error) {
	b := responsesBody{
		Model: c.Model, MaxOutput: req.Options.most(c), Parallel: req.Parallel, Stream: true,
		// So that reasoning can be replayed without the provider's memory.
		Include: []string{"reasoning.encrypted_content"},
	}
	if len(req.Tools) > 0 {
		b.Tools, b.Choice = req.Tools, &req.Choice
	}
	items := make([]json.RawMessage, len(req.Input))
	for i, raw := range req.Input {
		var err error
		if items[i], err = responsesItem(raw); err != nil {
			return nil, err
		}
	}
	whole := &verbatim.Object{}
	whole.Add("input", verbatim.List(items))
	return finish(whole, c, req.Options, b)
}

// responsesItem checks an item that was not written by a model.
func responsesItem(raw Item) (Item, error) {
	k := knownOf(raw)
	switch {
	case k.Type == outputType:
		if _, err := content.Read(k.Output); err != nil {
			return nil, err
		}
	case k.Type == messageType && k.Role != "assistant":
		if _, err := content.Read(k.Content); err != nil {
			return nil, err
		}
	}
	if !k.Failed || k.Type != outputType {
		return raw, nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return nil, err
	}
	delete(members, "is_error")
	return verbatim.Encode(members)
}

// responsesReading passes the pieces of an answer on until it comes as a whole.
type responsesReading struct {
	pieces pieces
	kind   string // of the last event
	last   json.RawMessage
}

func (responsesWire) read(on func(Delta)) reading {
	return &responsesReading{pieces: pieces{on: on, calls: map[string]Delta{}}}
}

func (r *responsesReading) take(event []byte) (last bool, err error) {
	var kind struct {
		Type     string          `json:"type"`
		Response json.RawMessage `json:"response"`
	}
	_ = json.Unmarshal(event, &kind) // it is an object; of one that fits nothing, nothing is known
	switch kind.Type {
	case "response.completed", "response.incomplete", "response.failed":
		r.kind, r.last = kind.Type, kind.Response
		return true, nil
	}
	if !r.pieces.take(kind.Type, event) {
		return false, errBroken{"an event of type " + kind.Type + " cannot be read"}
	}
	return false, nil
}

func (r *responsesReading) answer() (Response, error) {
	if r.last == nil {
		return Response{}, errBroken{"it has no last event"}
	}
	var got Response
	if err := json.Unmarshal(r.last, &got); err != nil {
		return got, &Error{Code: "unreadable", Message: err.Error()}
	}
	refused := &Error{Code: "server_error", Message: "It gives no reason."}
	if got.Error != nil {
		refused.Code, refused.Message = got.Error.Code, cmp.Or(got.Error.Message, refused.Message)
	}
	switch {
	case r.kind == "response.failed", got.Status == "failed", got.Error != nil && got.Error.Message != "":
		return got, refused
	case got.Incomplete != nil:
		got.Ended = ending(got.Incomplete.Reason)
	case r.kind == "response.incomplete", got.Status != "" && got.Status != "completed":
		got.cut("incomplete")
	}
	return got, nil
}

// pieces passes the pieces of an answer on.
type pieces struct {
	on    func(Delta)
	calls map[string]Delta // by the id of their items
}

// take reports whether an event could be read. Those of other types say nothing.
func (p pieces) take(kind string, event []byte) bool {
	switch kind {
	case "response.output_text.delta", "response.refusal.delta", "response.reasoning_summary_text.delta", "response.reasoning_text.delta",
		"response.output_item.added", "response.function_call_arguments.delta":
	default:
		return true
	}
	var e struct {
		Delta  string `json:"delta"`
		ItemID string `json:"item_id"`
		Item   struct {
			ID     string `json:"id"`
			CallID string `json:"call_id"`
			Name   string `json:"name"`
		} `json:"item"`
	}
	if json.Unmarshal(event, &e) != nil {
		return false
	}
	switch kind {
	case "response.output_text.delta", "response.refusal.delta":
		p.on(Delta{Kind: Text, Text: e.Delta})
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		p.on(Delta{Kind: Reasoning, Text: e.Delta})
	case "response.output_item.added":
		p.calls[e.Item.ID] = Delta{CallID: e.Item.CallID, Name: e.Item.Name}
	case "response.function_call_arguments.delta":
		d := p.calls[e.ItemID]
		d.Kind, d.Text = Arguments, e.Delta
		p.on(d)
	}
	return true
}
