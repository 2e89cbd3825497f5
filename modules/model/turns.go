package model

import (
	"encoding/json"
	"strings"

	"github.com/portico-run/portico/modules/model/content"
	"github.com/portico-run/portico/modules/model/verbatim"
)

// conversation is messages of the user and the model in turn.
type conversation struct {
	turns []talked
}

// talked is one message. Its last block may be one that is written here.
type talked struct {
	role   string
	blocks []json.RawMessage
	last   any // the last block before it is encoded; nil for one of the model's own
}

// add adds an item. What only another protocol has is left out: its words and calls
// come as items of their own.
func (t *conversation) add(k known, raw Item) error {
	switch k.Type {
	case outputType:
		return t.result(k)
	case callType:
		made := Parse(raw).Calls[0]
		return t.put("assistant", useBlock{"tool_use", strings.Map(plainID, made.ID), made.Name, inputOf(made.Arguments)})
	case messageType:
		return t.message(k)
	}
	t.of("assistant").blocks = append(t.of("assistant").blocks, raw)
	t.of("assistant").last = nil
	return nil
}

// message adds what the user or the model said. Texts without a word are left out,
// since the provider refuses them.
func (t *conversation) message(k known) error {
	parts, err := k.parts()
	if err != nil {
		return err
	}
	text, plain := content.Words(parts)
	if plain {
		if strings.TrimSpace(text) == "" {
			return nil
		}
		return t.put(k.Role, &textBlock{Type: "text", Text: text})
	}
	blocks, err := content.Messages(parts)
	if err != nil {
		return err
	}
	for _, b := range blocks {
		if err := t.put(k.Role, b); err != nil {
			return err
		}
	}
	return nil
}

// result adds what a tool returned.
func (t *conversation) result(k known) error {
	parts, err := content.Read(k.Output)
	if err != nil {
		return err
	}
	block := resultBlock{Type: "tool_result", CallID: strings.Map(plainID, k.CallID), Failed: k.Failed}
	text, plain := content.Words(parts)
	if block.Content = text; !plain {
		if block.Content, err = content.Messages(parts); err != nil {
			return err
		}
	}
	return t.put("user", &block)
}

// of is the message that the next block of a role belongs to.
func (t *conversation) of(role string) *talked {
	if n := len(t.turns); n == 0 || t.turns[n-1].role != role {
		t.turns = append(t.turns, talked{role: role})
	}
	return &t.turns[len(t.turns)-1]
}

func (t *conversation) put(role string, block any) error {
	text, err := verbatim.Encode(block)
	to := t.of(role)
	to.blocks, to.last = append(to.blocks, text), block
	return err
}

// messages encodes the conversation. The provider may keep it up to its last block.
func (t *conversation) messages() ([]json.RawMessage, error) {
	if n := len(t.turns); n > 0 && t.turns[n-1].last != nil {
		to := &t.turns[n-1]
		switch block := to.last.(type) {
		case *textBlock:
			block.Cache = &cache{"ephemeral"}
		case *resultBlock:
			block.Cache = &cache{"ephemeral"}
		case *content.Block:
			block.Cache = &cache{"ephemeral"}
		}
		text, err := verbatim.Encode(to.last)
		if err != nil {
			return nil, err
		}
		to.blocks[len(to.blocks)-1] = text
	}
	messages := make([]json.RawMessage, len(t.turns))
	for i, turn := range t.turns {
		var o verbatim.Object
		o.Add("role", []byte(`"`+turn.role+`"`))
		o.Add("content", verbatim.List(turn.blocks))
		messages[i] = o.End()
	}
	return messages, nil
}
