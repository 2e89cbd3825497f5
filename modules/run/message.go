package run

import (
	"encoding/json"
	"time"
)

// MessageType is who a message is from.
type MessageType string

// The types of messages: docs/wire/refly.md#messages.
const (
	Human MessageType = "human"
	AI    MessageType = "ai"
	Tool  MessageType = "tool"
)

// Message is one message of the conversation that a run is. Every answer of a
// model has one, and every tool call, also one that a program made.
type Message struct {
	Seq       int64 // the number of the event that showed it first
	MessageID string
	Type      MessageType
	Content   string
	Reasoning string
	Usage     json.RawMessage // tokens of the request that it is the answer to
	CallMeta  json.RawMessage // a CallMeta
	CallID    string          // the record of the call
	CreatedAt time.Time
}

// NewMessage is a message to add.
type NewMessage struct {
	// MessageID may have been given out before, to events; empty makes one.
	MessageID string
	// Event is the number of the event that showed it first, so that messages
	// have the order in which they were seen. No two messages share one. Of what
	// the user says, it is the run's first.
	Event     int64
	Type      MessageType
	Content   string
	Reasoning string
	Usage     json.RawMessage
	CallMeta  json.RawMessage
	CallID    string
}

// MessageChange is what becomes of a message; nil leaves it as it is.
type MessageChange struct {
	MessageID string
	Content   *string
}

// MessageFilter says which messages of a run to read.
type MessageFilter struct {
	ResultID string
	Version  int
	After    int64 // the Seq of the last one that is known
	Limit    int   // 0 for all
	Spoken   bool  // leave out those of tools
}

// CallMeta names a tool call in events and messages. ToolsetID holds the key, too
// (docs/wire/refly.md#events-about-calls). Times are milliseconds since 1970.
type CallMeta struct {
	ToolName   string `json:"toolName,omitempty"`
	ToolsetID  string `json:"toolsetId,omitempty"`
	ToolsetKey string `json:"toolsetKey,omitempty"`
	ToolCallID string `json:"toolCallId"`
	Status     string `json:"status,omitempty" doc:"executing, completed or failed"`
	StartTS    int64  `json:"startTs,omitempty" doc:"Milliseconds since 1970"`
	EndTS      int64  `json:"endTs,omitempty" doc:"Milliseconds since 1970; absent while it executes"`
}
