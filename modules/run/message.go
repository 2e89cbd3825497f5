package run

import (
	"encoding/json"
	"time"
)

// MessageType is who a message is from.
type MessageType string

// The messages of the PTC reference.
const (
	Human MessageType = "human"
	AI    MessageType = "ai"
	Tool  MessageType = "tool"
)

// Message is one message of the conversation that a run is.
type Message struct {
	MessageID string          `json:"messageId"`
	Type      MessageType     `json:"type" enum:"human,ai,tool"`
	Content   string          `json:"content"`
	Reasoning string          `json:"reasoningContent,omitempty"`
	Usage     json.RawMessage `json:"usageMeta,omitempty" doc:"Tokens of the request that it is the answer to"`
	CallMeta  json.RawMessage `json:"toolCallMeta,omitempty" doc:"Which tool, and how the call ended"`
	CallID    string          `json:"toolCallId,omitempty" doc:"The record of the call"`
	CreatedAt time.Time       `json:"createdAt"`
}

// NewMessage is a message to add.
type NewMessage struct {
	// MessageID may have been given out before, to events; empty makes one.
	MessageID string
	Type      MessageType
	Content   string
	Reasoning string
	Usage     json.RawMessage
	CallMeta  json.RawMessage
	CallID    string
}
