package model

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/portico-run/portico/modules/model/content"
	"github.com/portico-run/portico/modules/model/verbatim"
)

// This file is Anthropic's Messages protocol: docs/wire/models.md#messages. An item
// of its answers is a block of their content.

type messagesWire struct{}

func (messagesWire) path() string { return "messages" }

// messagesBody is a request, without its messages.
type messagesBody struct {
	Model     string          `json:"model"`
	MaxTokens int64           `json:"max_tokens"`
	System    []textBlock     `json:"system,omitempty"`
	Tools     []messagesTool  `json:"tools,omitempty"`
	Choice    *messagesChoice `json:"tool_choice,omitempty"`
	Stream    bool            `json:"stream"`
}

type messagesTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"input_schema"`
	Strict      bool            `json:"strict,omitempty"`
}

type messagesChoice struct {
	Type     string `json:"type"`
	Name     string `json:"name,omitempty"`
	OneByOne bool   `json:"disable_parallel_tool_use,omitempty"`
}

type textBlock struct {
	Type  string `json:"type"`
	Text  string `json:"text"`
	Cache *cache `json:"cache_control,omitempty"`
}

// cache lets the provider keep what comes before, so that the next request of the
// run pays less for it.
type cache struct {
	Type string `json:"type"`
}

type resultBlock struct {
	Type    string `json:"type"`
	CallID  string `json:"tool_use_id"`
	Content any    `json:"content"` // a text, or blocks
	Failed  bool   `json:"is_error,omitempty"`
	Cache   *cache `json:"cache_control,omitempty"`
}

type useBlock struct {
	Type  string          `json:"type"`
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

// defaultMaxOutput is the most tokens of an answer where nobody says it: this
// protocol demands a number.
const defaultMaxOutput = 8192

func (messagesWire) body(c Config, req Request) ([]byte, error) {
	b := messagesBody{Model: c.Model, MaxTokens: cmp.Or(req.Options.most(c), defaultMaxOutput), Stream: true}
	if len(req.Tools) > 0 {
		b.Tools, b.Choice = messagesTools(c, req)
	}
	var talk conversation
	for _, raw := range req.Input {
		k := knownOf(raw)
		if k.Type == messageType && (k.Role == "system" || k.Role == "developer") {
			parts, err := k.parts()
			if err != nil {
				return nil, err
			}
			text, _ := content.Words(parts)
			b.System = append(b.System, textBlock{Type: "text", Text: text})
			continue
		}
		if err := talk.add(k, raw); err != nil {
			return nil, err
		}
	}
	if n := len(b.System); n > 0 {
		b.System[n-1].Cache = &cache{"ephemeral"}
	}
	messages, err := talk.messages()
	if err != nil {
		return nil, err
	}
	whole := &verbatim.Object{}
	whole.Add("messages", verbatim.List(messages))
	return finish(whole, c, req.Options, b)
}

func messagesTools(c Config, req Request) (tools []messagesTool, choice *messagesChoice) {
	for _, t := range req.Tools {
		if len(req.Choice.names) > 1 && !req.Choice.Allows(t.Name) {
			continue // the protocol knows no choice of several
		}
		tools = append(tools, messagesTool{t.Name, t.Description, t.Schema(c.Strict), c.Strict && t.Strict})
	}
	choice = &messagesChoice{Type: "auto", OneByOne: !req.Parallel && !c.Lacks.has(ParallelCalls)}
	switch {
	case len(req.Choice.names) == 1 && req.Choice.demands:
		choice.Type, choice.Name = "tool", req.Choice.names[0]
	case req.Choice.demands:
		choice.Type = "any"
	case req.Choice.limited && len(req.Choice.names) == 0:
		choice = &messagesChoice{Type: "none"}
	}
	return tools, choice
}

// invalidInput is the member in which arguments are that are no object: what the
// protocol replays must be one.
const invalidInput = "INVALID_JSON"

// inputOf makes an object of arguments.
func inputOf(arguments string) json.RawMessage {
	if strings.TrimSpace(arguments) == "" {
		return []byte("{}")
	}
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(arguments), &object) == nil && object != nil {
		return json.RawMessage(arguments)
	}
	wrapped, _ := verbatim.Encode(map[string]string{invalidInput: arguments}) // texts always marshal
	return wrapped
}

// argumentsOf undoes inputOf.
func argumentsOf(input json.RawMessage) string {
	var wrapped map[string]json.RawMessage
	if json.Unmarshal(input, &wrapped) == nil && len(wrapped) == 1 {
		var text string
		if json.Unmarshal(wrapped[invalidInput], &text) == nil {
			return text
		}
	}
	return string(input)
}

// messagesEvent is an event of an answer.
type messagesEvent struct {
	Type    string `json:"type"`
	Message struct {
		ID      string            `json:"id"`
		Model   string            `json:"model"`
		Content []json.RawMessage `json:"content"`
		Stop    string            `json:"stop_reason"`
		At      string            `json:"stop_sequence"`
		Usage   messagesUsage     `json:"usage"`
	} `json:"message"`
	Index int                        `json:"index"`
	Block map[string]json.RawMessage `json:"content_block"`
	Delta struct {
		Type      string          `json:"type"`
		Text      string          `json:"text"`
		Thinking  string          `json:"thinking"`
		Signature string          `json:"signature"`
		Input     string          `json:"partial_json"`
		Citation  json.RawMessage `json:"citation"`
		Stop      string          `json:"stop_reason"`
		At        string          `json:"stop_sequence"`
		Details   struct {
			Explanation string `json:"explanation"`
		} `json:"stop_details"`
	} `json:"delta"`
	Usage messagesUsage `json:"usage"`
}

// messagesUsage is the tokens of an answer. What was not read from the cache and not
// written to it is counted beside them.
type messagesUsage struct {
	Input   *int64 `json:"input_tokens"`
	Written *int64 `json:"cache_creation_input_tokens"`
	Cached  *int64 `json:"cache_read_input_tokens"`
	Output  *int64 `json:"output_tokens"`
}

// update takes newer numbers.
func (u *messagesUsage) update(now messagesUsage) {
	u.Input, u.Written = cmp.Or(now.Input, u.Input), cmp.Or(now.Written, u.Written)
	u.Cached, u.Output = cmp.Or(now.Cached, u.Cached), cmp.Or(now.Output, u.Output)
}

func (u messagesUsage) usage() (sum Usage) {
	number := func(n *int64) int64 {
		if n == nil {
			return 0
		}
		return *n
	}
	sum.Input = number(u.Input) + number(u.Written) + number(u.Cached)
	sum.InputDetails.Cached, sum.InputDetails.Written = number(u.Cached), number(u.Written)
	sum.Output = number(u.Output)
	return sum
}

// messagesReading puts the blocks together.
type messagesReading struct {
	on     func(Delta)
	got    Response
	usage  messagesUsage
	blocks []*block
	stop   string
	why    string
	ended  bool
}

// block is one block of an answer. What it began with is kept as it is; the texts of
// its pieces are joined.
type block struct {
	members map[string]json.RawMessage
	joined  map[string]*strings.Builder // of its members
	input   strings.Builder
	cited   []json.RawMessage
}

func (messagesWire) read(on func(Delta)) reading { return &messagesReading{on: on} }

func (r *messagesReading) take(event []byte) (last bool, err error) {
	var e messagesEvent
	if json.Unmarshal(event, &e) != nil {
		return false, errBroken{"an event is not one of a message"}
	}
	switch e.Type {
	case "message_start":
		r.got.ID, r.got.Model, r.stop, r.got.Stop = e.Message.ID, e.Message.Model, e.Message.Stop, e.Message.At
		r.usage.update(e.Message.Usage)
		for i, raw := range e.Message.Content { // a whole message comes without events of its blocks
			var members map[string]json.RawMessage
			if json.Unmarshal(raw, &members) != nil {
				return false, errBroken{"a block of the message is not an object"}
			}
			if err := r.begin(i, members); err != nil {
				return false, err
			}
		}
	case "content_block_start":
		return false, r.begin(e.Index, e.Block)
	case "content_block_delta":
		return false, r.piece(e)
	case "message_delta":
		r.stop, r.why = cmp.Or(e.Delta.Stop, r.stop), cmp.Or(e.Delta.Details.Explanation, r.why)
		r.got.Stop = cmp.Or(e.Delta.At, r.got.Stop)
		r.usage.update(e.Usage)
	case "message_stop":
		r.ended = true
	}
	return r.ended, nil
}

func (r *messagesReading) begin(index int, members map[string]json.RawMessage) error {
	if index != len(r.blocks) || members == nil {
		return errBroken{"the blocks of the message do not come in their order"}
	}
	r.blocks = append(r.blocks, &block{members: members, joined: map[string]*strings.Builder{}})
	if text := r.blocks[index].text("text"); text != "" {
		r.on(Delta{Kind: Text, Text: text})
	}
	return nil
}

// piece takes a part of a block.
func (r *messagesReading) piece(e messagesEvent) error {
	if e.Index < 0 || e.Index >= len(r.blocks) {
		return errBroken{"a piece of the message has no block"}
	}
	b := r.blocks[e.Index]
	switch e.Delta.Type {
	case "text_delta":
		b.join("text", e.Delta.Text)
		r.on(Delta{Kind: Text, Text: e.Delta.Text})
	case "thinking_delta":
		b.join("thinking", e.Delta.Thinking)
		r.on(Delta{Kind: Reasoning, Text: e.Delta.Thinking})
	case "signature_delta":
		b.join("signature", e.Delta.Signature)
	case "input_json_delta":
		b.input.WriteString(e.Delta.Input)
		if e.Delta.Input != "" {
			r.on(Delta{Kind: Arguments, Text: e.Delta.Input, CallID: b.text("id"), Name: b.text("name")})
		}
	case "citations_delta":
		b.cited = append(b.cited, e.Delta.Citation)
	default:
		return errBroken{"a piece of type " + e.Delta.Type + " is not known"}
	}
	return nil
}

// text is that of a member as it began; empty where it has none.
func (b *block) text(name string) (text string) {
	_ = json.Unmarshal(b.members[name], &text) // what is no text says nothing
	return text
}

func (b *block) join(name, text string) {
	if b.joined[name] == nil {
		b.joined[name] = &strings.Builder{}
		b.joined[name].WriteString(b.text(name))
	}
	b.joined[name].WriteString(text)
}

// raw is the whole block. ok is false for a text without a word, which the provider
// writes but does not take back.
func (b *block) raw() (raw json.RawMessage, ok bool) {
	for name, text := range b.joined {
		b.members[name], _ = verbatim.Encode(text.String()) // texts always marshal
	}
	if b.input.Len() > 0 {
		b.members["input"] = inputOf(b.input.String())
	}
	if len(b.cited) > 0 {
		b.members["citations"] = verbatim.List(b.cited)
	}
	var o verbatim.Object
	for _, name := range slices.Sorted(maps.Keys(b.members)) {
		o.Add(name, b.members[name])
	}
	return o.End(), b.text("type") != "text" || strings.TrimSpace(b.text("text")) != ""
}

func (r *messagesReading) answer() (Response, error) {
	if !r.ended || r.stop == "" {
		return Response{}, errBroken{"it has no stop_reason, or no message_stop"}
	}
	r.got.Usage = r.usage.usage()
	for _, b := range r.blocks {
		if raw, ok := b.raw(); ok {
			r.got.Output = append(r.got.Output, raw)
		}
	}
	switch r.stop {
	case "end_turn", "tool_use":
	case "stop_sequence":
		r.got.Ended = Stopped
	case "max_tokens":
		r.got.cut("max_output_tokens")
	case "refusal":
		r.got.Ended = Refused
		return r.got, &Error{Code: "refusal", Message: cmp.Or(r.why, "The model will not answer this.")}
	default:
		r.got.cut(r.stop)
	}
	return r.got, nil
}
