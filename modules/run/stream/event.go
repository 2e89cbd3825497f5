package stream

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
)

// header begins every event.
type header struct {
	Event    run.EventType `json:"event"`
	ResultID string        `json:"resultId"`
	Version  int           `json:"version"`
}

// callEvent is an event about a tool call: docs/wire/refly.md#events-about-calls.
// Clients recognise the call of a program by ptc or by isPtc, so both are sent.
type callEvent struct {
	header
	PTC       bool         `json:"ptc,omitempty"`
	IsPTC     bool         `json:"isPtc,omitempty"`
	Step      *step        `json:"step,omitempty"`
	MessageID string       `json:"messageId"`
	Meta      run.CallMeta `json:"toolCallMeta"`
	Result    *CallResult  `json:"toolCallResult,omitempty"`
	Approval  *Approval    `json:"approval,omitempty"`
}

// Approval is what the events about a wait say of it.
type Approval struct {
	State     string `json:"state" enum:"waiting,allowed,refused,expired"`
	Reason    string `json:"reason,omitempty" doc:"Why the call waits, or was not allowed"`
	Decision  string `json:"decision,omitempty" enum:"allow,allow_run,allow_always,refuse"`
	ExpiresAt int64  `json:"expiresAt,omitempty" doc:"Milliseconds since 1970: when it is refused by itself"`
	// Question is what the tool asks; absent where the call waits to be allowed.
	Question *Question `json:"question,omitempty"`
}

// Question is what a tool asks a person in the middle of a call.
type Question struct {
	From    string          `json:"from" example:"MCP server booking" doc:"Who asks"`
	Message string          `json:"message" doc:"The question, in the words of who asks"`
	Schema  json.RawMessage `json:"schema,omitempty" documented:"type=object additionalProperties=true" doc:"What the answer looks like"`
	URL     string          `json:"url,omitempty" doc:"A page to visit before the answer"`
}

// payload is what events about calls say beyond their records.
type payload struct {
	Approval *Approval `json:"approval"`
}

func payloadOf(e run.Event) (p payload, err error) {
	if err = json.Unmarshal(e.Payload, &p); err != nil {
		err = fmt.Errorf("payload of event %d: %w", e.Seq, err)
	}
	return p, err
}

type step struct {
	Name string `json:"name"`
}

func isCall(t run.EventType) bool {
	switch t {
	case run.ToolCallStart, run.ToolCallWaiting, run.ToolCallDecided, run.ToolCallEnd, run.ToolCallError:
		return true
	default:
		return false
	}
}

// before is the status of a call when an event about it happened; empty for one
// about its end. Its record may have moved on since.
func before(t run.EventType) record.Status {
	switch t {
	case run.ToolCallStart, run.ToolCallDecided:
		return record.Executing
	case run.ToolCallWaiting:
		return record.Waiting
	default:
		return ""
	}
}

// render writes an event as one line of JSON.
func render(r run.Run, e run.Event, calls map[string]record.Call) ([]byte, error) {
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
		meta, err := encode(run.CallMeta{ToolCallID: e.CallID})
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

func renderCall(h header, e run.Event, calls map[string]record.Call) ([]byte, error) {
	out := callEvent{header: h, MessageID: ids.MessageOf(e.CallID), Meta: run.CallMeta{ToolCallID: e.CallID}}
	said, err := payloadOf(e)
	if err != nil {
		return nil, err
	}
	out.Approval = said.Approval
	c, ok := calls[e.CallID]
	if !ok {
		// The record is gone; that the event happened is not.
		out.PTC = ids.MadeByCode(e.CallID)
		out.IsPTC = out.PTC
		return encode(out)
	}
	if status := before(e.Type); status != "" {
		c.Status, c.UpdatedAt = status, c.CreatedAt
	}
	shown, err := show(c)
	if err != nil {
		return nil, err
	}
	out.PTC, out.IsPTC, out.Meta, out.Result = shown.ptc, shown.ptc, shown.meta, &shown.result
	if c.StepName != "" {
		out.Step = &step{c.StepName}
	}
	return encode(out)
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
