package model

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
)

// Protocol is how a provider is spoken with.
type Protocol string

// The protocols. An empty one is Responses.
const (
	// Responses is OpenAI's newer one.
	Responses Protocol = "responses"
	// Chat is OpenAI's Chat Completions, which most other providers and local
	// servers speak.
	Chat Protocol = "chat"
	// Messages is Anthropic's.
	Messages Protocol = "messages"
)

// Protocols are all of them.
func Protocols() []Protocol { return []Protocol{Responses, Chat, Messages} }

// Reserved are the members of requests that are written here, in some protocol.
func Reserved() []string {
	return []string{
		"model", "input", "messages", "system", "instructions", "tools", "tool_choice", "parallel_tool_calls", "stream", "stream_options",
		"max_tokens", "max_completion_tokens", "max_output_tokens", "include", "store", "previous_response_id", "n",
	}
}

// wire is one protocol: where a request goes, how it is written, and how the
// events of its answer are read.
type wire interface {
	path() string
	body(c Config, req Request) ([]byte, error)
	read(on func(Delta)) reading
}

// reading puts an answer together.
type reading interface {
	// take reads an event and reports whether it was the last one. An errBroken is
	// one that cannot be read, an *Error the provider's refusal.
	take(event []byte) (last bool, err error)
	// answer is what came; an errBroken says that it is not whole.
	answer() (Response, error)
}

func (p Protocol) wire() wire {
	switch p {
	case Chat:
		return chatWire{}
	case Messages:
		return messagesWire{}
	}
	return responsesWire{}
}

// object writes an object of members that are encoded already, in the order in which
// they are added, byte for byte: an encoder would take the space out of them.
type object struct{ bytes.Buffer }

func (o *object) add(name string, value []byte) {
	if o.Len() == 0 {
		o.WriteByte('{')
	} else {
		o.WriteByte(',')
	}
	o.WriteByte('"')
	o.WriteString(name)
	o.WriteString(`":`)
	o.Write(value)
}

// end returns the whole object.
func (o *object) end() []byte {
	if o.Len() == 0 {
		return []byte("{}")
	}
	o.WriteByte('}')
	return o.Bytes()
}

// list writes values that are encoded already as an array.
func list(values []json.RawMessage) []byte {
	var b bytes.Buffer
	b.WriteByte('[')
	for i, v := range values {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(v)
	}
	b.WriteByte(']')
	return b.Bytes()
}

// members adds what is encoded here, and what the request's options and the
// configuration add.
func (o *object) members(c Config, asked Options, rest any) ([]byte, error) {
	text, err := encode(rest)
	if err != nil {
		return nil, err
	}
	added, err := asked.added(c)
	if err != nil {
		return nil, err
	}
	o.WriteByte(',')
	o.Write(text[1 : len(text)-1])
	for _, name := range slices.Sorted(maps.Keys(added)) {
		o.add(name, added[name])
	}
	return o.end(), nil
}

// known is what this package knows of an item of a conversation.
type known struct {
	Type    string          `json:"type"`
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
	CallID  string          `json:"call_id"`
	Output  json.RawMessage `json:"output"`
	Failed  bool            `json:"is_error"`
}

// knownOf reads an item. Of one that is not understood it says nothing.
func knownOf(raw Item) known {
	var k known
	if json.Unmarshal(raw, &k) != nil {
		return known{}
	}
	return k
}

// words are those of a message: its content is a text, or parts with texts.
func words(content json.RawMessage) string {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	var parts []struct {
		Text    string `json:"text"`
		Refusal string `json:"refusal"`
	}
	_ = json.Unmarshal(content, &parts) // what is neither says nothing
	for _, part := range parts {
		text += part.Text + part.Refusal
	}
	return text
}
