package model

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/model/content"
	"github.com/portico-run/portico/modules/model/verbatim"
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

// finish adds to a request what is encoded here, and what its options and the
// configuration add.
func finish(o *verbatim.Object, c Config, asked Options, rest any) ([]byte, error) {
	text, err := verbatim.Encode(rest)
	if err != nil {
		return nil, err
	}
	added, err := asked.added(c)
	if err != nil {
		return nil, err
	}
	o.Inside(text)
	for _, name := range slices.Sorted(maps.Keys(added)) {
		o.Add(name, added[name])
	}
	return o.End(), nil
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

// parts are those of a message. Only the user's may be more than texts.
func (k known) parts() ([]content.Part, error) {
	if nothing := []string{"", "null", "[]"}; k.Role == "assistant" && slices.Contains(nothing, string(k.Content)) {
		return nil, nil // a model may say nothing
	}
	parts, err := content.Read(k.Content)
	if err != nil {
		return nil, err
	}
	if _, plain := content.Words(parts); !plain && k.Role != "user" {
		return nil, errs.Newf(errs.Invalid, "A message of the role %s must be text.", k.Role)
	}
	return parts, nil
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

// plainID leaves of an id what every protocol takes in one.
func plainID(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
		return r
	}
	return '_'
}
