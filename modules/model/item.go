package model

import (
	"encoding/json"
	"strings"

	"github.com/portico-run/portico/modules/model/content"
)

// Part is a piece of a message of the user's, or of what a tool returned.
type Part = content.Part

// Item is one element of a conversation, exactly as the provider wrote it or
// is to read it. Items of unknown types go back unchanged.
type Item = json.RawMessage

// The types of the items that are read here.
const (
	messageType = "message"
	callType    = "function_call"
	outputType  = "function_call_output"
)

// User is a message of the user's.
func User(text string) Item {
	return item(map[string]any{"type": messageType, "role": "user", "content": text})
}

// System is what the model is told before anything else.
func System(text string) Item {
	return item(map[string]any{"type": messageType, "role": "system", "content": text})
}

// Developer is what the model is told by whoever asks, anywhere in a conversation.
func Developer(text string) Item {
	return item(map[string]any{"type": messageType, "role": "developer", "content": text})
}

// UserParts is a message of the user's with more than a text.
func UserParts(parts []Part) Item {
	return item(map[string]any{"type": messageType, "role": "user", "content": parts})
}

// Assistant is an earlier answer of the model's.
func Assistant(text string) Item {
	return item(map[string]any{"type": messageType, "role": "assistant", "content": []map[string]string{{"type": "output_text", "text": text}}})
}

// Output is what a call returned. The id is that of the call.
func Output(callID, text string) Item {
	return item(map[string]any{"type": outputType, "call_id": callID, "output": text})
}

// OutputParts is a result with more than a text.
func OutputParts(callID string, parts []Part) Item {
	return item(map[string]any{"type": outputType, "call_id": callID, "output": parts})
}

// FailedOutput says that a call failed, and why. Only the Messages protocol tells the
// model that this is a failure.
func FailedOutput(callID, text string) Item {
	return item(map[string]any{"type": outputType, "call_id": callID, "output": text, "is_error": true})
}

// CallItem is a call that a model made, in a form that each protocol can write.
func CallItem(callID, name, arguments string) Item {
	return item(map[string]any{"type": callType, "call_id": callID, "name": name, "arguments": arguments})
}

func item(members map[string]any) Item {
	text, _ := json.Marshal(members) // texts always marshal
	return text
}

// Call is a call of a tool, as the model wrote it.
type Call struct {
	ID   string // the provider's
	Name string
	// Arguments are a text that should be a JSON object, and may be anything.
	Arguments string
}

// Parsed is what is known of an item that a model wrote.
type Parsed struct {
	Text  string // of a message, with the words of a refusal
	Calls []Call // in their order; nil for other items
	// Thought is what a person may read of the model's reasoning.
	Thought string
	// Refused says that the model will not answer; Text says so in its words.
	Refused bool
}

// Read returns the words of an answer, joined, and its calls in their order.
func (r Response) Read() (text string, calls []Call) {
	var said strings.Builder
	for _, raw := range r.Output {
		p := Parse(raw)
		said.WriteString(p.Text)
		calls = append(calls, p.Calls...)
	}
	return said.String(), calls
}

// ReadOutput reads an item that holds a result; ok is false for others. The text is that
// of its parts where there are several.
func ReadOutput(raw Item) (callID, text string, ok bool) {
	k := knownOf(raw)
	return k.CallID, words(k.Output), k.Type == outputType
}

// PartsOf are the parts of what an item says, or of the result that it holds, and
// whether that is of a call that failed. It fails on what only its provider can read.
func PartsOf(raw Item) (parts []Part, failed bool, err error) {
	k := knownOf(raw)
	said := k.Content
	if k.Type == outputType {
		said = k.Output
	}
	parts, err = content.Read(said)
	return parts, k.Failed, err
}

// Ours reports whether an item was made here and not by a model: each protocol can
// write it.
func Ours(raw Item) bool {
	k := knownOf(raw)
	return k.Type == outputType || k.Type == messageType && k.Role != "assistant"
}

// Translate returns the words and the calls of an item that a model wrote, as items
// that each protocol can write. What else is in it is left out.
func Translate(raw Item) (items []Item) {
	p := Parse(raw)
	if p.Text != "" {
		items = append(items, Assistant(p.Text))
	}
	for _, c := range p.Calls {
		items = append(items, CallItem(c.ID, c.Name, c.Arguments))
	}
	return items
}
