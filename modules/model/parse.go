package model

import (
	"encoding/json"
	"slices"
	"strings"
)

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
		return Parsed{Text: words(k.Content), Refused: refuses(k.Content)}
	case k.Type == callType:
		return Parsed{Calls: []Call{{ID: k.CallID, Name: k.Name, Arguments: k.Arguments}}}
	case k.Type == "text":
		return Parsed{Text: k.Text}
	case k.Type == "tool_use":
		return Parsed{Calls: []Call{{ID: k.ID, Name: k.Name, Arguments: argumentsOf(k.Input)}}}
	case k.Type == "reasoning", k.Type == "thinking":
		return Parsed{Thought: thought(raw)}
	case k.Type == "" && k.Role == "assistant":
		p := Parsed{Text: words(k.Content) + k.Refusal, Thought: thought(raw), Refused: k.Refusal != "" || refuses(k.Content)}
		for _, c := range k.ToolCalls {
			p.Calls = append(p.Calls, Call{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
		}
		return p
	}
	return Parsed{}
}

// refuses reports whether a part of a content is a refusal.
func refuses(content json.RawMessage) bool {
	type part struct {
		Refusal string `json:"refusal"`
	}
	var parts []part
	_ = json.Unmarshal(content, &parts) // a text has no parts
	return slices.ContainsFunc(parts, func(p part) bool { return p.Refusal != "" })
}

// thought is what is readable of an item's reasoning. A summary is taken before the
// whole of it.
func thought(raw Item) string {
	var k struct {
		Summary  []struct{ Text string } `json:"summary"`
		Content  json.RawMessage         `json:"content"`
		Thinking string                  `json:"thinking"`
		Role     string                  `json:"role"`
		Said     json.RawMessage         `json:"reasoning_content"`
		Reasoned json.RawMessage         `json:"reasoning"`
	}
	if json.Unmarshal(raw, &k) != nil {
		return ""
	}
	if k.Role == "assistant" { // of Chat Completions
		if said := words(k.Said); said != "" {
			return said
		}
		return words(k.Reasoned)
	}
	if k.Thinking != "" {
		return k.Thinking
	}
	texts := make([]string, len(k.Summary))
	for i, s := range k.Summary {
		texts[i] = s.Text
	}
	if len(texts) > 0 {
		return strings.Join(texts, "\n\n")
	}
	return words(k.Content)
}

// Plain reports whether Translate loses nothing of an item that a model wrote: its
// words or its calls are all that there is. Ids of items, annotations, citations and
// log probabilities do not count, and neither do members that are empty.
func Plain(raw Item) bool {
	members, ok := filled(raw)
	if !ok {
		return false
	}
	switch word(members["type"]) {
	case messageType:
		return only(members, "type", "id", "role", "status", "content") && plainTexts(members["content"])
	case callType:
		return only(members, "type", "id", "status", "call_id", "name", "arguments")
	case "text":
		return only(members, "type", "text", "citations")
	case "tool_use":
		return only(members, "type", "id", "name", "input")
	case "":
		return word(members["role"]) == "assistant" && only(members, "role", "content", "annotations", "tool_calls") &&
			plainTexts(members["content"]) && plainCalls(members["tool_calls"])
	}
	return false
}

// filled are the members of an object that are not empty.
func filled(raw json.RawMessage) (members map[string]json.RawMessage, ok bool) {
	if json.Unmarshal(raw, &members) != nil || members == nil {
		return nil, false
	}
	for name, value := range members {
		if slices.Contains([]string{"null", `""`, "[]"}, string(value)) {
			delete(members, name)
		}
	}
	return members, true
}

func only(members map[string]json.RawMessage, names ...string) bool {
	for name := range members {
		if !slices.Contains(names, name) {
			return false
		}
	}
	return true
}

// plainTexts reports whether a content has nothing but texts.
func plainTexts(content json.RawMessage) bool {
	var text string
	var parts []json.RawMessage
	if len(content) == 0 || json.Unmarshal(content, &text) == nil {
		return true
	}
	if json.Unmarshal(content, &parts) != nil {
		return false
	}
	for _, part := range parts {
		members, ok := filled(part)
		if !ok || !only(members, "type", "text", "annotations", "logprobs") {
			return false
		}
	}
	return true
}

// plainCalls reports whether calls in a message have nothing that only their provider
// knows.
func plainCalls(calls json.RawMessage) bool {
	var list []json.RawMessage
	if len(calls) == 0 {
		return true
	}
	if json.Unmarshal(calls, &list) != nil {
		return false
	}
	for _, call := range list {
		members, ok := filled(call)
		if !ok || !only(members, "id", "type", "index", "function") {
			return false
		}
		if function, ok := filled(members["function"]); !ok || !only(function, "name", "arguments") {
			return false
		}
	}
	return true
}
