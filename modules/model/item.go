package model

import (
	"encoding/json"
	"strings"
)

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

// Assistant is an earlier answer of the model's.
func Assistant(text string) Item {
	return item(map[string]any{"type": messageType, "role": "assistant", "content": []map[string]string{{"type": "output_text", "text": text}}})
}

// Output is what a call returned. The id is that of the call.
func Output(callID, text string) Item {
	return item(map[string]any{"type": outputType, "call_id": callID, "output": text})
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
}

// Parse reads an item that a model wrote, in whatever protocol. Of a form that is not
// known here it says nothing.
func Parse(raw Item) Parsed {
	var k struct {
		known

		ID        string          `json:"id"`
		Name      string          `json:"name"`
		Arguments string          `json:"arguments"`
		Text      string          `json:"text"`
		Input     json.RawMessage `json:"input"`
		Refusal   string          `json:"refusal"`
		ToolCalls []chatCall      `json:"tool_calls"`
	}
	if json.Unmarshal(raw, &k) != nil {
		return Parsed{}
	}
	switch {
	case k.Type == messageType:
		return Parsed{Text: words(k.Content)}
	case k.Type == callType:
		return Parsed{Calls: []Call{{ID: k.CallID, Name: k.Name, Arguments: k.Arguments}}}
	case k.Type == "text":
		return Parsed{Text: k.Text}
	case k.Type == "tool_use":
		return Parsed{Calls: []Call{{ID: k.ID, Name: k.Name, Arguments: argumentsOf(k.Input)}}}
	case k.Type == "" && k.Role == "assistant":
		p := Parsed{Text: words(k.Content) + k.Refusal}
		for _, c := range k.ToolCalls {
			p.Calls = append(p.Calls, Call{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
		}
		return p
	}
	return Parsed{}
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

// ReadOutput reads an item that Output made; ok is false for others.
func ReadOutput(raw Item) (callID, text string, ok bool) {
	k := knownOf(raw)
	return k.CallID, k.Output, k.Type == outputType
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
		items = append(items, item(map[string]any{"type": callType, "call_id": c.ID, "name": c.Name, "arguments": c.Arguments}))
	}
	return items
}
