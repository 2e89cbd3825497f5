// Package history reads the messages of a request as what a model is told.
package history

import (
	"encoding/json"
	"strings"

	"github.com/portico-run/portico/modules/agent/anthropic/wire"
)

// block is one element of a message's content, of whatever type.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	Caller    *wire.Caller    `json:"caller"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"`
	Source    json.RawMessage `json:"source"`
	Title     string          `json:"title"`
	Context   string          `json:"context"`
	FileID    string          `json:"file_id"`
	ToolName  string          `json:"tool_name"`

	at    string // where it is, as errors name it
	first bool   // of its message
}

// program is the id of the program that makes a call; empty for the model's own.
func (b block) program() string {
	if b.Caller != nil && strings.HasPrefix(b.Caller.Type, wire.CodePrefix) {
		return b.Caller.ToolID
	}
	return ""
}

// Message is one message of a request.
type Message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// turn are messages of one role that follow each other.
type turn struct {
	role   string
	blocks []block
}

// turns reads messages. Those of one role that follow each other count as one.
func turns(messages []Message) ([]turn, error) {
	var all []turn
	for i, m := range messages {
		parameter := wire.At("messages", i)
		if m.Role != "user" && m.Role != "assistant" && m.Role != "system" {
			return nil, wire.Invalid(parameter+".role", "Input should be 'user', 'assistant' or 'system'")
		}
		blocks, err := blocksOf(parameter+".content", m.Content)
		if err != nil {
			return nil, err
		}
		if len(blocks) > 0 {
			blocks[0].first = true
		}
		if n := len(all); n > 0 && all[n-1].role == m.Role {
			all[n-1].blocks = append(all[n-1].blocks, blocks...)
			continue
		}
		all = append(all, turn{m.Role, blocks})
	}
	return all, nil
}

// blocksOf reads a content: a text, or a list of blocks.
func blocksOf(parameter string, content json.RawMessage) ([]block, error) {
	var text string
	if json.Unmarshal(content, &text) == nil && wire.Given(content) {
		return []block{{Type: "text", Text: text, at: parameter}}, nil
	}
	var list []json.RawMessage
	if !wire.Given(content) || json.Unmarshal(content, &list) != nil {
		return nil, wire.Invalid(parameter, "Input should be a text or a list of blocks")
	}
	blocks := make([]block, len(list))
	for i, raw := range list {
		if json.Unmarshal(raw, &blocks[i]) != nil || blocks[i].Type == "" {
			return nil, wire.Invalid(wire.At(parameter, i), "Input should be a block with a type")
		}
		blocks[i].at = wire.At(parameter, i)
	}
	return blocks, nil
}
