package run

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// EventType is the name of an event on the wire.
type EventType string

// The events that runs write: docs/wire/refly.md#events.
const (
	Start         EventType = "start"
	ToolCallStart EventType = "tool_call_start"
	ToolCallEnd   EventType = "tool_call_end"
	ToolCallError EventType = "tool_call_error"
	// ToolCallWaiting is a call that waits for somebody to allow it, and
	// ToolCallDecided the end of the wait.
	ToolCallWaiting EventType = "tool_call_waiting"
	ToolCallDecided EventType = "tool_call_decided"
	// ToolCallStream is a part of a call that a model is still writing.
	ToolCallStream EventType = "tool_call_stream"
	Log            EventType = "log"
	Error          EventType = "error"
	Stream         EventType = "stream"
	TokenUsage     EventType = "token_usage"
	End            EventType = "end"
)

// Event is something that happened in a run.
type Event struct {
	Seq       int64 // 1, 2, 3… in the order of commits, without gaps
	Type      EventType
	CallID    string          // the tool call it is about; may be empty
	Payload   json.RawMessage // an object; what else the event says
	CreatedAt time.Time
}

// EventFilter says which events of a run to read.
type EventFilter struct {
	ResultID string
	Version  int
	After    int64 // the Seq of the last one that is known
	Limit    int
}

// NewEvent is an event to append. Payload is anything that becomes a JSON
// object; nil is an empty one.
type NewEvent struct {
	Type    EventType
	CallID  string
	Payload any
	// Message, if set, is added to the run with the event. Where it names no
	// event that showed it, this is the one.
	Message *NewMessage
}

func (e NewEvent) payload() (string, error) {
	if e.Payload == nil {
		return "{}", nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e.Payload); err != nil {
		return "", fmt.Errorf("payload of the %s event: %w", e.Type, err)
	}
	text := bytes.ToValidUTF8(bytes.TrimSpace(b.Bytes()), []byte("\uFFFD"))
	if len(text) == 0 || text[0] != '{' {
		return "", fmt.Errorf("payload of the %s event is not an object", e.Type)
	}
	return string(text), nil
}

// Topic is what is published when a run has a new event.
func Topic(resultID string) string { return topicPrefix + resultID }

// AbortTopic is what is published when a run was ended in the database. The run's
// own topic would wake whoever works on it for every event that they write.
func AbortTopic(resultID string) string { return "abort:" + resultID }

const topicPrefix = "run:"
