package model

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/model/content"
	"github.com/portico-run/portico/modules/model/verbatim"
)

// This file is the Chat Completions protocol: docs/wire/models.md#chat-completions.
// An item of its answers is a whole message of the model's, with all of its calls
// and whatever else the provider put into it.

type chatWire struct{}

func (chatWire) path() string { return "chat/completions" }

// chatBody is a request, without its messages.
type chatBody struct {
	Model         string          `json:"model"`
	MaxTokens     int64           `json:"max_tokens,omitempty"`
	MaxCompletion int64           `json:"max_completion_tokens,omitempty"`
	Tools         []chatTool      `json:"tools,omitempty"`
	Choice        json.RawMessage `json:"tool_choice,omitempty"`
	Parallel      *bool           `json:"parallel_tool_calls,omitempty"`
	Stream        bool            `json:"stream"`
	Options       map[string]bool `json:"stream_options,omitempty"`
}

type chatTool struct {
	Type     string       `json:"type"`
	Function chatFunction `json:"function"`
}

type chatFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      bool            `json:"strict,omitempty"`
}

// chatMessage is one that is written here.
type chatMessage struct {
	Role    string     `json:"role"`
	Content *string    `json:"content"`
	Calls   []chatCall `json:"tool_calls,omitempty"`
	CallID  string     `json:"tool_call_id,omitempty"`
}

type chatCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

func (chatWire) body(c Config, req Request) ([]byte, error) {
	b := chatBody{Model: c.Model, Stream: true, Options: map[string]bool{"include_usage": true}}
	// The older name is what all know; OpenAI refuses it for models that reason.
	if b.MaxTokens = req.Options.most(c); ofOpenAI(c.BaseURL) {
		b.MaxTokens, b.MaxCompletion = 0, b.MaxTokens
	}
	if c.Lacks.has(StreamOptions) {
		b.Options = nil
	}
	if len(req.Tools) > 0 {
		tools, choice, err := chatTools(c, req)
		if err != nil {
			return nil, err
		}
		b.Tools, b.Choice = tools, choice
		if !c.Lacks.has(ParallelCalls) {
			b.Parallel = &req.Parallel
		}
	}
	var messages chatMessages
	for _, raw := range req.Input {
		if err := messages.add(c, raw); err != nil {
			return nil, err
		}
	}
	if err := messages.tell(); err != nil {
		return nil, err
	}
	whole := &verbatim.Object{}
	whole.Add("messages", verbatim.List(messages.list))
	return finish(whole, c, req.Options, b)
}

func ofOpenAI(base string) bool {
	address, err := url.Parse(base)
	if err != nil {
		return false
	}
	return slices.ContainsFunc([]string{".openai.com", ".azure.com"}, func(domain string) bool {
		return strings.HasSuffix("."+address.Hostname(), domain)
	})
}

// chatTools are the tools and the choice among them. A choice of several is made by
// leaving the others out, as the protocol's own form of it is known to few.
func chatTools(c Config, req Request) (tools []chatTool, choice json.RawMessage, err error) {
	for _, t := range req.Tools {
		if len(req.Choice.names) > 1 && !req.Choice.Allows(t.Name) {
			continue
		}
		f := chatFunction{Name: t.Name, Description: t.Description, Parameters: t.Schema(c.Strict), Strict: c.Strict && t.Strict}
		tools = append(tools, chatTool{"function", f})
	}
	switch {
	case len(req.Choice.names) == 1 && req.Choice.demands:
		choice, err = verbatim.Encode(map[string]any{"type": "function", "function": map[string]string{"name": req.Choice.names[0]}})
	case req.Choice.demands:
		choice = []byte(`"required"`)
	case req.Choice.limited && len(req.Choice.names) == 0:
		choice = []byte(`"none"`)
	default:
		choice = []byte(`"auto"`)
	}
	return tools, choice, err
}

// chatMessages is a conversation as the protocol has it.
type chatMessages struct {
	list   []json.RawMessage
	untold []string // what a model without a system role is told with the next message
}

// add adds an item. What only another protocol has is left out: its words and calls
// come as items of their own.
func (m *chatMessages) add(c Config, raw Item) error {
	k := knownOf(raw)
	switch {
	case k.Type == "" && k.Role == "assistant": // the model's own
		m.list = append(m.list, raw)
		return nil
	case k.Type == outputType:
		return m.result(k)
	case k.Type == callType:
		return m.call(raw)
	case k.Type != messageType:
		return nil
	}
	parts, err := k.parts()
	if err != nil {
		return err
	}
	text, plain := content.Words(parts)
	if k.Role == "developer" { // few know the newer name
		k.Role = "system"
	}
	switch {
	case !plain:
		return m.mixed(parts)
	case k.Role == "user":
		text = strings.Join(append(m.untold, text), "\n\n")
		m.untold = nil
	case k.Role == "system" && c.Lacks.has(SystemRole):
		m.untold = append(m.untold, text)
		return nil
	}
	return m.put(chatMessage{Role: k.Role, Content: &text})
}

// result adds what a tool returned, which is a text in this protocol.
func (m *chatMessages) result(k known) error {
	parts, err := content.Read(k.Output)
	if err != nil {
		return err
	}
	text, plain := content.Words(parts)
	if !plain {
		return errs.New(errs.Invalid, "The model's protocol takes no images or files from tools.").Do("Return text, or ask a model of another protocol.")
	}
	return m.put(chatMessage{Role: "tool", Content: &text, CallID: k.CallID})
}

// mixed adds a message of the user's that is more than text.
func (m *chatMessages) mixed(parts []content.Part) error {
	if len(m.untold) > 0 {
		parts = append([]content.Part{{Type: content.Text, Text: strings.Join(m.untold, "\n\n")}}, parts...)
		m.untold = nil
	}
	written, err := content.Chat(parts)
	if err != nil {
		return err
	}
	text, err := verbatim.Encode(map[string]any{"role": "user", "content": written})
	m.list = append(m.list, text)
	return err
}

// tell is for what no message followed.
func (m *chatMessages) tell() error {
	if len(m.untold) == 0 {
		return nil
	}
	text := strings.Join(m.untold, "\n\n")
	return m.put(chatMessage{Role: "user", Content: &text})
}

func (m *chatMessages) put(message chatMessage) error {
	text, err := verbatim.Encode(message)
	m.list = append(m.list, text)
	return err
}

// call adds a call of another model's to the message of the assistant's before it.
func (m *chatMessages) call(raw Item) error {
	made := Parse(raw).Calls[0]
	one := chatCall{ID: made.ID, Type: "function"}
	one.Function.Name, one.Function.Arguments = made.Name, made.Arguments
	message := chatMessage{Role: "assistant"}
	if n := len(m.list) - 1; n >= 0 {
		var before chatMessage
		if json.Unmarshal(m.list[n], &before) == nil && before.Role == "assistant" {
			message, m.list = before, m.list[:n]
		}
	}
	message.Calls = append(message.Calls, one)
	return m.put(message)
}

// chatChunk is an event of an answer.
type chatChunk struct {
	ID      string `json:"id"`
	Model   string `json:"model"`
	Choices []struct {
		Index  int             `json:"index"`
		Delta  json.RawMessage `json:"delta"`
		Finish string          `json:"finish_reason"`
		Stop   json.RawMessage `json:"stop_reason"` // of vLLM: the text that ended it
	} `json:"choices"`
	Usage *struct {
		Input   int64 `json:"prompt_tokens"`
		Output  int64 `json:"completion_tokens"`
		Hits    int64 `json:"prompt_cache_hit_tokens"` // of providers that have it instead
		Details struct {
			Cached int64 `json:"cached_tokens"`
			Write  int64 `json:"cache_write_tokens"`
		} `json:"prompt_tokens_details"`
		OutputDetails struct {
			Reasoning int64 `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
	} `json:"usage"`
}

// chatReading puts the message together.
type chatReading struct {
	on      func(Delta)
	got     Response
	message verbatim.Merged
	calls   []*verbatim.Merged
	finish  string
}

func (chatWire) read(on func(Delta)) reading { return &chatReading{on: on} }

func (r *chatReading) take(event []byte) (last bool, err error) {
	if string(bytes.TrimSpace(event)) == "[DONE]" {
		return true, nil
	}
	var c chatChunk
	if err := json.Unmarshal(event, &c); err != nil {
		return false, errBroken{"an event is not a chunk of a chat completion"}
	}
	r.got.ID, r.got.Model = cmp.Or(r.got.ID, c.ID), cmp.Or(r.got.Model, c.Model)
	if u := c.Usage; u != nil {
		r.got.Usage = Usage{Input: u.Input, Output: u.Output}
		r.got.Usage.InputDetails.Cached, r.got.Usage.InputDetails.Written = max(u.Details.Cached, u.Hits), u.Details.Write
		r.got.Usage.OutputDetails.Reasoning = u.OutputDetails.Reasoning
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue // nobody asked for a second answer
		}
		r.finish = cmp.Or(r.finish, choice.Finish)
		if stop := words(choice.Stop); stop != "" && choice.Finish == "stop" {
			r.got.Ended, r.got.Stop = Stopped, stop
		}
		if len(choice.Delta) == 0 || string(choice.Delta) == "null" {
			continue
		}
		if err := r.piece(choice.Delta); err != nil {
			return false, err
		}
	}
	return false, nil
}

// piece takes a part of the message.
func (r *chatReading) piece(delta json.RawMessage) error {
	var members map[string]json.RawMessage
	if json.Unmarshal(delta, &members) != nil {
		return errBroken{"a piece of the message is not an object"}
	}
	var calls []json.RawMessage
	if raw, ok := members["tool_calls"]; ok && json.Unmarshal(raw, &calls) != nil {
		return errBroken{"tool_calls is not a list"}
	}
	delete(members, "tool_calls")
	for _, part := range []struct {
		kind DeltaKind
		name string
	}{{Reasoning, "reasoning_content"}, {Reasoning, "reasoning"}, {Text, "content"}, {Text, "refusal"}} {
		if text := words(members[part.name]); text != "" && (part.name != "reasoning" || members["reasoning_content"] == nil) {
			r.on(Delta{Kind: part.kind, Text: text})
		}
	}
	r.message.Add(members)
	for _, raw := range calls {
		if err := r.call(raw); err != nil {
			return err
		}
	}
	return nil
}

// call takes a part of a call. One without an index is a call of its own if it has
// another id or a name, and a part of the last one otherwise.
func (r *chatReading) call(raw json.RawMessage) error {
	var part struct {
		Index    *int   `json:"index"`
		ID       string `json:"id"`
		Function struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"function"`
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &part) != nil || json.Unmarshal(raw, &members) != nil {
		return errBroken{"a piece of a call cannot be read"}
	}
	n := len(r.calls) - 1
	switch {
	case part.Index != nil:
		n = *part.Index
	case n < 0 || part.Function.Name != "":
		n++
	}
	if n < 0 || n > len(r.calls) || n >= maxCalls {
		return errBroken{fmt.Sprintf("a piece belongs to call %d, which has not begun", n)}
	}
	if n == len(r.calls) {
		r.calls = append(r.calls, &verbatim.Merged{})
	}
	delete(members, "index")
	c := r.calls[n]
	c.Add(members)
	var text string
	if len(part.Function.Arguments) > 0 && json.Unmarshal(part.Function.Arguments, &text) != nil {
		return errBroken{"the arguments of a call are not a text"}
	}
	if text != "" {
		r.on(Delta{Kind: Arguments, Text: text, CallID: c.Text("id"), Name: c.Within("function").Text("name")})
	}
	return nil
}

// maxCalls is how many calls one answer may have.
const maxCalls = 1000

func (r *chatReading) answer() (Response, error) {
	if r.finish == "" {
		return Response{}, errBroken{"it has no finish_reason"}
	}
	calls := make([]json.RawMessage, len(r.calls))
	for i, c := range r.calls {
		if c.Text("id") == "" { // outputs name it
			c.Set("id", fmt.Appendf(nil, "%q", fmt.Sprintf("call_%s_%d", strings.Map(plainID, r.got.ID), i)))
		}
		c.Set("type", []byte(`"function"`))
		calls[i] = c.Raw()
	}
	if len(calls) > 0 {
		r.message.Set("tool_calls", verbatim.List(calls))
	}
	if r.message.Text("content") != "" || r.message.Text("refusal") != "" || r.message.List("content") || len(calls) > 0 {
		r.message.Set("role", []byte(`"assistant"`))
		r.got.Output = []Item{r.message.Raw()}
	}
	switch r.finish {
	case "stop", "tool_calls", "function_call":
	case "length":
		r.got.cut("max_output_tokens")
	default:
		r.got.cut(r.finish)
	}
	return r.got, nil
}
