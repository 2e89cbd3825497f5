package stream

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/portico-run/portico/modules/internal/ids"
	"github.com/portico-run/portico/modules/run"
)

// Call is the record of a tool call, as a client may see it.
type Call struct {
	CallID     string
	Origin     ids.Origin // ptc marks the child of an execute_code call
	ToolsetKey string
	ToolName   string
	StepName   string
	Status     string // executing, completed, failed
	Input      string // JSON text as stored
	Output     string // JSON text, plain text, or empty
	Error      string
	CreatedAt  time.Time
	UpdatedAt  time.Time
}

// executing is the state of a call that has only started.
const executing = "executing"

// header begins every event.
type header struct {
	Event    run.EventType `json:"event"`
	ResultID string        `json:"resultId"`
	Version  int           `json:"version"`
}

// callEvent is the wire contract's form of an event about a tool call. The
// PTC reference marks a child as ptc, the wire contract as isPtc.
type callEvent struct {
	header
	PTC       bool        `json:"ptc,omitempty"`
	IsPTC     bool        `json:"isPtc,omitempty"`
	Step      *step       `json:"step,omitempty"`
	MessageID string      `json:"messageId"`
	Meta      callMeta    `json:"toolCallMeta"`
	Result    *callResult `json:"toolCallResult,omitempty"`
}

type step struct {
	Name string `json:"name"`
}

// callMeta names the call. By the wire contract toolsetId holds the key, too.
// Times are milliseconds since 1970.
type callMeta struct {
	ToolName   string `json:"toolName,omitempty"`
	ToolsetID  string `json:"toolsetId,omitempty"`
	ToolsetKey string `json:"toolsetKey,omitempty"`
	ToolCallID string `json:"toolCallId"`
	Status     string `json:"status,omitempty"`
	StartTS    int64  `json:"startTs,omitempty"`
	EndTS      int64  `json:"endTs,omitempty"`
}

type callResult struct {
	CallID    string          `json:"callId"`
	ToolsetID string          `json:"toolsetId"`
	ToolName  string          `json:"toolName"`
	StepName  string          `json:"stepName"`
	Input     json.RawMessage `json:"input"`
	Output    json.RawMessage `json:"output,omitempty"`
	Status    string          `json:"status"`
	Error     string          `json:"error,omitempty"`
	CreatedAt int64           `json:"createdAt"`
	UpdatedAt int64           `json:"updatedAt"`
}

func isCall(t run.EventType) bool {
	return t == run.ToolCallStart || t == run.ToolCallEnd || t == run.ToolCallError
}

// render writes an event as one line of JSON.
func render(r run.Run, e run.Event, calls map[string]Call) ([]byte, error) {
	h := header{Event: e.Type, ResultID: r.ResultID, Version: r.Version}
	if isCall(e.Type) {
		return renderCall(h, e, calls)
	}
	return renderPayload(h, e)
}

// renderPayload is for events that say everything in their payload.
func renderPayload(h header, e run.Event) ([]byte, error) {
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(e.Payload, &members); err != nil {
		return nil, fmt.Errorf("payload of event %d: %w", e.Seq, err)
	}
	if e.CallID != "" {
		meta, err := encode(callMeta{ToolCallID: e.CallID})
		if err != nil {
			return nil, err
		}
		members["toolCallMeta"] = meta
	}
	for _, own := range []string{"event", "resultId", "version"} {
		delete(members, own)
	}
	head, err := encode(h)
	if err != nil || len(members) == 0 {
		return head, err
	}
	rest, err := encode(members)
	if err != nil {
		return nil, err
	}
	return append(append(bytes.TrimSuffix(head, []byte("}")), ','), rest[1:]...), nil
}

func renderCall(h header, e run.Event, calls map[string]Call) ([]byte, error) {
	out := callEvent{header: h, Meta: callMeta{ToolCallID: e.CallID}}
	var extra struct {
		MessageID string `json:"messageId"`
	}
	if err := json.Unmarshal(e.Payload, &extra); err != nil {
		return nil, fmt.Errorf("payload of event %d: %w", e.Seq, err)
	}
	out.MessageID = extra.MessageID
	c, ok := calls[e.CallID]
	if !ok {
		// The record is gone; that the event happened is not.
		origin, _ := ids.OriginOf(e.CallID)
		out.PTC = origin == ids.PTC
		out.IsPTC = out.PTC
		return encode(out)
	}
	if e.Type == run.ToolCallStart {
		// The record may have moved on since.
		c.Status, c.UpdatedAt = executing, c.CreatedAt
	}
	out.PTC = c.Origin == ids.PTC
	out.IsPTC = out.PTC
	if c.StepName != "" {
		out.Step = &step{c.StepName}
	}
	out.Meta = callMeta{
		ToolName: c.ToolName, ToolsetID: c.ToolsetKey, ToolsetKey: c.ToolsetKey, ToolCallID: c.CallID,
		Status: c.Status, StartTS: c.CreatedAt.UnixMilli(),
	}
	out.Result = &callResult{
		CallID: c.CallID, ToolsetID: c.ToolsetKey, ToolName: c.ToolName, StepName: c.StepName, Input: input(c.Input),
		Status: c.Status, CreatedAt: c.CreatedAt.UnixMilli(), UpdatedAt: c.UpdatedAt.UnixMilli(),
	}
	if e.Type != run.ToolCallStart {
		out.Meta.EndTS = c.UpdatedAt.UnixMilli()
		out.Result.Error = c.Error
		var err error
		if out.Result.Output, err = output(c.Output); err != nil {
			return nil, err
		}
	}
	return encode(out)
}

// input shows the arguments as stored; what is not JSON is none.
func input(stored string) json.RawMessage {
	if !json.Valid([]byte(stored)) {
		return json.RawMessage("{}")
	}
	return json.RawMessage(stored)
}

// output shows the result as stored. No output is an empty object, as in the
// wire contract, which shows plain text that way, too; here it stays text.
func output(stored string) (json.RawMessage, error) {
	switch {
	case strings.TrimSpace(stored) == "":
		return json.RawMessage("{}"), nil
	case json.Valid([]byte(stored)):
		return json.RawMessage(stored), nil
	}
	return encode(stored)
}

// encode writes JSON on one line and leaves <, > and & readable.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode an event: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
