package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/portico-run/portico/internal/redact"
	"github.com/portico-run/portico/internal/upstream"
)

// This file is the Responses protocol: what is sent, and the events that come.

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

// body writes a request. The items go in byte for byte: an encoder would take
// the space out of them.
func (c *Client) body(req Request) ([]byte, error) {
	b := responsesBody{
		Model: c.config.Model, MaxOutput: c.config.MaxOutput, Parallel: req.Parallel, Stream: true,
		// So that reasoning can be replayed without the provider's memory.
		Include: []string{"reasoning.encrypted_content"},
	}
	if len(req.Tools) > 0 {
		b.Tools, b.Choice = req.Tools, &req.Choice
	}
	rest, err := encode(b)
	if err != nil {
		return nil, err
	}
	var whole bytes.Buffer
	whole.WriteString(`{"input":[`)
	for i, item := range req.Input {
		if i > 0 {
			whole.WriteByte(',')
		}
		whole.Write(item)
	}
	whole.WriteString(`],`)
	whole.Write(rest[1:])
	return whole.Bytes(), nil
}

// respond sends the request and reads its answer to the provider's last word. An
// errBroken is an answer without one.
func (c *Client) respond(ctx context.Context, req Request, on func(Delta)) (Response, error) {
	body, err := c.body(req)
	if err != nil {
		return Response{}, err
	}
	stream, err := c.open(ctx, "responses", body)
	if err != nil {
		return Response{}, err
	}
	defer stream.Close()
	pieces := pieces{on: on, calls: map[string]Delta{}}
	for {
		event, err := stream.Next()
		if err != nil {
			return Response{}, brokenOff(stream, err)
		}
		var kind struct {
			Type  string          `json:"type"`
			Error json.RawMessage `json:"error"`
		}
		if json.Unmarshal(event.Data, &kind) != nil {
			return Response{}, errBroken{"an event is not a JSON object"}
		}
		switch {
		case kind.Type == "error", len(kind.Error) > 0 && string(kind.Error) != "null":
			return Response{}, c.failure(event.Data)
		case kind.Type == "response.completed", kind.Type == "response.incomplete", kind.Type == "response.failed":
			return c.read(ctx, event.Data)
		}
		if !pieces.take(kind.Type, event.Data) {
			return Response{}, errBroken{"an event of type " + kind.Type + " cannot be read"}
		}
	}
}

// brokenOff says why a stream ended before the answer.
func brokenOff(s *upstream.Stream, err error) errBroken {
	if !errors.Is(err, io.EOF) {
		return errBroken{reason(err)}
	}
	return errBroken{"the stream ended before the answer (Content-Type " + upstream.Limit(s.Header.Get("Content-Type"), 100) + ")"}
}

// failure is an error in the stream: its members are those of the event, or of a
// member of it.
func (c *Client) failure(event []byte) *Error {
	type words struct {
		Code    json.RawMessage `json:"code"`
		Message string          `json:"message"`
	}
	var e struct {
		words
		Error words `json:"error"`
	}
	_ = json.Unmarshal(event, &e) // that it is an error is all that is sure
	said := e.words
	if e.Error.Message != "" {
		said = e.Error
	}
	return &Error{Code: c.clean(word(said.Code)), Message: c.clean(said.Message)}
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

// read takes the answer out of the event that ends it.
func (c *Client) read(ctx context.Context, event []byte) (Response, error) {
	var last struct {
		Response json.RawMessage `json:"response"`
	}
	_ = json.Unmarshal(event, &last) // it was read before; what does not fit is seen below
	if c.config.LogOutput {
		var output struct {
			Output json.RawMessage `json:"output"`
		}
		_ = json.Unmarshal(last.Response, &output) // what does not fit is seen below
		c.config.Logger.InfoContext(ctx, "model output", "output", string(redact.JSON(output.Output)))
	}
	var r Response
	if err := json.Unmarshal(last.Response, &r); err != nil {
		return r, &Error{Code: "unreadable", Message: err.Error()}
	}
	if r.Error != nil && r.Error.Message != "" {
		return r, &Error{Code: r.Error.Code, Message: c.clean(r.Error.Message)}
	}
	return r, nil
}
