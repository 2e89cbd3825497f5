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
	return item(map[string]any{"type": "function_call_output", "call_id": callID, "output": text})
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
	Text string // of a message, with the words of a refusal
	Call *Call  // nil for other items
}

// Parse reads an item that a model wrote. Of a form that is not known here it
// says nothing.
func Parse(raw Item) Parsed {
	var known struct {
		Type    string `json:"type"`
		Content []struct {
			Text    string `json:"text"`
			Refusal string `json:"refusal"`
		} `json:"content"`
		CallID    string `json:"call_id"`
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	if json.Unmarshal(raw, &known) != nil {
		return Parsed{}
	}
	var p Parsed
	switch known.Type {
	case messageType:
		for _, part := range known.Content {
			p.Text += part.Text + part.Refusal
		}
	case callType:
		p.Call = &Call{ID: known.CallID, Name: known.Name, Arguments: known.Arguments}
	}
	return p
}

// Read returns the words of an answer, joined, and its calls in their order.
func (r Response) Read() (text string, calls []Call) {
	var words strings.Builder
	for _, raw := range r.Output {
		p := Parse(raw)
		words.WriteString(p.Text)
		if p.Call != nil {
			calls = append(calls, *p.Call)
		}
	}
	return words.String(), calls
}
