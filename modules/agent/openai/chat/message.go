package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/agent/dialogue"
	"github.com/portico-run/portico/modules/agent/openai/failure"
	"github.com/portico-run/portico/modules/model"
	"github.com/portico-run/portico/modules/model/content"
)

// runCode is the function that this server executes.
const runCode = dialogue.RunCode

// programCall begins the ids of calls that programs make. No provider writes it.
const programCall = "call_portico_"

// message is one of a conversation.
type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
	Refusal string          `json:"refusal"`
	Calls   []toolCall      `json:"tool_calls"`
	CallID  string          `json:"tool_call_id"`
	Audio   json.RawMessage `json:"audio"`
	Old     json.RawMessage `json:"function_call"`

	at    string // its parameter
	parts []model.Part
}

type toolCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// text are the words of a message that has nothing else.
func (m message) text() string {
	text, _ := content.Words(m.parts)
	return text
}

// messages reads a conversation. Every call has its result, and every result its call.
func messages(list []json.RawMessage) ([]message, error) {
	out := make([]message, len(list))
	var waiting []string // calls of the newest answer without a result
	for i, raw := range list {
		m := &out[i]
		at := fmt.Sprintf("messages[%d]", i)
		if json.Unmarshal(raw, m) != nil {
			return nil, failure.Invalid(at, "A message must be an object, whose members have the types that the vendor's have.")
		}
		if m.at = at; m.Role != "tool" && len(waiting) > 0 {
			return nil, unanswered(waiting)
		}
		if err := m.read(); err != nil {
			return nil, err
		}
		for _, c := range m.Calls {
			waiting = append(waiting, c.ID)
		}
		if m.Role != "tool" {
			continue
		}
		rest := without(waiting, m.CallID)
		if len(rest) == len(waiting) {
			return nil, failure.Invalid(at+".tool_call_id", "Invalid parameter: messages with role 'tool' must be a response to a preceding message with 'tool_calls'; there is no call '%s' that waits.", m.CallID)
		}
		waiting = rest
	}
	if len(waiting) > 0 {
		return nil, unanswered(waiting)
	}
	return out, nil
}

func unanswered(ids []string) error {
	return failure.Invalid("messages", "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: %s", strings.Join(ids, ", "))
}

func without(list []string, one string) []string {
	for i, s := range list {
		if s == one {
			return append(append([]string{}, list[:i]...), list[i+1:]...)
		}
	}
	return list
}

// read reads the content of a message, and refuses what cannot be shown to a model.
func (m *message) read() error {
	if given(m.Audio) || given(m.Old) {
		return failure.Unsupported(m.at, "A message has neither audio nor function_call here.").Do("Calls are in tool_calls.")
	}
	switch m.Role {
	case "system", "developer", "user", "tool":
		if !given(m.Content) {
			return failure.New(errs.Invalid, m.at+".content", failure.Missing, "Missing required parameter: '%s.content'.", m.at)
		}
	case "assistant":
	default:
		return failure.Invalid(m.at+".role", "Invalid value: '%s'. Supported values are: 'system', 'assistant', 'user', 'tool', and 'developer'.", m.Role)
	}
	if m.Role != "assistant" && len(m.Calls) > 0 {
		return failure.Invalid(m.at+".tool_calls", "Only messages of the assistant's have tool_calls.")
	}
	for i, c := range m.Calls {
		if c.ID == "" || c.Function.Name == "" || c.Type != "" && c.Type != "function" {
			return failure.Invalid(fmt.Sprintf("%s.tool_calls[%d]", m.at, i), "A call has an id and a function with a name.")
		}
	}
	parts, err := partsOf(m.at+".content", m.Content)
	if err != nil {
		return err
	}
	if _, plain := content.Words(parts); !plain && m.Role != "user" {
		return failure.Invalid(m.at+".content", "A message of the role %s must be text.", m.Role)
	}
	m.parts = parts
	return nil
}

// part is a piece of a message: docs/wire/openai.md#chat-completions.
type part struct {
	Type    string `json:"type"`
	Text    string `json:"text"`
	Refusal string `json:"refusal"`
	Image   struct {
		URL    string `json:"url"`
		Detail string `json:"detail"`
	} `json:"image_url"`
	File struct {
		Data string `json:"file_data"`
		Name string `json:"filename"`
		ID   string `json:"file_id"`
	} `json:"file"`
}

// partsOf are the pieces of content; null is none.
func partsOf(at string, raw json.RawMessage) ([]model.Part, error) {
	if !given(raw) {
		return nil, nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []model.Part{{Type: content.Text, Text: text}}, nil
	}
	var list []part
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, failure.Invalid(at, "content is neither a text nor a list of parts.")
	}
	out := make([]map[string]any, len(list))
	for i, p := range list {
		switch p.Type {
		case "text":
			out[i] = map[string]any{"type": content.Text, "text": p.Text}
		case "refusal":
			out[i] = map[string]any{"type": content.Text, "text": p.Refusal}
		case "image_url":
			out[i] = map[string]any{"type": content.Image, "image_url": p.Image.URL, "detail": p.Image.Detail}
		case "file":
			out[i] = map[string]any{"type": content.File, "file_data": p.File.Data, "filename": p.File.Name, "file_id": p.File.ID}
		default:
			return nil, failure.New(errs.Invalid, fmt.Sprintf("%s[%d].type", at, i), failure.UnsupportedValue, "This server cannot show parts of type %q to a model.", p.Type)
		}
	}
	if len(out) == 0 {
		return []model.Part{{Type: content.Text}}, nil
	}
	written, err := json.Marshal(out)
	if err != nil {
		return nil, err
	}
	parts, err := content.Read(bytes.TrimSpace(written))
	return parts, failure.At(at, err)
}

// leading are the words of the system messages that a conversation begins with.
func leading(list []message) (system string, rest []message) {
	var texts []string
	for len(list) > 0 && list[0].Role == "system" {
		texts, list = append(texts, list[0].text()), list[1:]
	}
	return strings.Join(texts, "\n\n"), list
}

// items are messages as the model is told them. Calls of programs, and what these
// returned, are no part of its conversation.
func items(list []message) (out []model.Item) {
	for _, m := range list {
		switch m.Role {
		case "system":
			out = append(out, model.System(m.text()))
		case "developer":
			out = append(out, model.Developer(m.text()))
		case "user":
			if text, plain := content.Words(m.parts); plain && len(m.parts) == 1 {
				out = append(out, model.User(text))
			} else {
				out = append(out, model.UserParts(m.parts))
			}
		case "assistant":
			if text := m.text() + m.Refusal; text != "" {
				out = append(out, model.Assistant(text))
			}
			for _, c := range m.Calls {
				if !strings.HasPrefix(c.ID, programCall) {
					out = append(out, model.CallItem(c.ID, c.Function.Name, c.Function.Arguments))
				}
			}
		case "tool":
			if !strings.HasPrefix(m.CallID, programCall) {
				out = append(out, model.Output(m.CallID, m.text()))
			}
		}
	}
	return out
}

// newest splits a conversation after its newest answer, if that has calls: into what
// was before, the results, and what comes after these.
func newest(list []message) (results, after []message) {
	i := len(list)
	for i > 0 && list[i-1].Role != "assistant" && list[i-1].Role != "tool" {
		i--
	}
	j := i
	for j > 0 && list[j-1].Role == "tool" {
		j--
	}
	return list[j:i], list[i:]
}
