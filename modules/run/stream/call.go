package stream

import (
	"bytes"
	"encoding/json"

	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
)

// CallResult is a call as events and messages show it. Times are milliseconds
// since 1970.
type CallResult struct {
	CallID    string          `json:"callId"`
	ParentID  string          `json:"ptcCallId,omitempty" doc:"The program that made it"`
	ToolsetID string          `json:"toolsetId" doc:"The toolset's key"`
	ToolName  string          `json:"toolName"`
	StepName  string          `json:"stepName"`
	Input     json.RawMessage `json:"input"`
	Output    json.RawMessage `json:"output,omitempty" doc:"Absent while it executes"`
	Status    record.Status   `json:"status" enum:"waiting,executing,completed,failed"`
	Error     string          `json:"error,omitempty"`
	CreatedAt int64           `json:"createdAt" doc:"Milliseconds since 1970"`
	UpdatedAt int64           `json:"updatedAt" doc:"Milliseconds since 1970"`
}

// shown is what events and messages say of a call, so that they say the same.
type shown struct {
	ptc    bool
	meta   run.CallMeta
	result CallResult
}

func show(c record.Call) (s shown, err error) {
	s.ptc = c.Origin == ids.PTC || ids.MadeByCode(c.CallID)
	s.meta = c.Meta()
	s.result = CallResult{
		CallID: c.CallID, ParentID: c.ParentID, ToolsetID: c.Toolset, ToolName: c.Tool, StepName: c.StepName, Input: input(c.Input),
		Status: c.Status, CreatedAt: c.CreatedAt.UnixMilli(), UpdatedAt: c.UpdatedAt.UnixMilli(),
	}
	if !c.Ended() {
		return s, nil
	}
	s.result.Error = c.Error
	s.result.Output, err = output(c.Output)
	return s, err
}

// input shows the arguments as stored; what is not JSON is none.
func input(stored json.RawMessage) json.RawMessage {
	if !json.Valid(stored) {
		return json.RawMessage("{}")
	}
	return stored
}

// output shows the result as stored. No output is an empty object. Plain
// text stays text.
func output(stored json.RawMessage) (json.RawMessage, error) {
	switch {
	case len(bytes.TrimSpace(stored)) == 0:
		return json.RawMessage("{}"), nil
	case json.Valid(stored):
		return stored, nil
	}
	return encode(string(stored))
}
