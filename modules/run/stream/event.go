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
}

type step struct {
	Name string `json:"name"`
}

func isCall(t run.EventType) bool {
	return t == run.ToolCallStart || t == run.ToolCallEnd || t == run.ToolCallError
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
	if err := json.Unmarshal(e.Payload, &struct{}{}); err != nil {
		return nil, fmt.Errorf("payload of event %d: %w", e.Seq, err)
	}
	c, ok := calls[e.CallID]
	if !ok {
		// The record is gone; that the event happened is not.
		out.PTC = ids.MadeByCode(e.CallID)
		out.IsPTC = out.PTC
		return encode(out)
	}
	if e.Type == run.ToolCallStart {
		// The record may have moved on since.
		c.Status, c.UpdatedAt = record.Executing, c.CreatedAt
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
