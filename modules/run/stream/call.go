package stream

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/modules/run"
)

// Call is the record of a tool call, as a client may see it.
type Call struct {
	CallID     string
	ParentID   string     // the program that made it; empty for others
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

// executing is the state of a call that has not ended.
const executing = "executing"

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
	Status    string          `json:"status" enum:"executing,completed,failed"`
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

func (c Call) show() (s shown, err error) {
	s.ptc = c.Origin == ids.PTC || ids.MadeByCode(c.CallID)
	s.meta = run.CallMeta{
		ToolName: c.ToolName, ToolsetID: c.ToolsetKey, ToolsetKey: c.ToolsetKey, ToolCallID: c.CallID,
		Status: c.Status, StartTS: c.CreatedAt.UnixMilli(),
	}
	s.result = CallResult{
		CallID: c.CallID, ParentID: c.ParentID, ToolsetID: c.ToolsetKey, ToolName: c.ToolName, StepName: c.StepName, Input: input(c.Input),
		Status: c.Status, CreatedAt: c.CreatedAt.UnixMilli(), UpdatedAt: c.UpdatedAt.UnixMilli(),
	}
	if c.Status == executing {
		return s, nil
	}
	s.meta.EndTS, s.result.Error = c.UpdatedAt.UnixMilli(), c.Error
	s.result.Output, err = output(c.Output)
	return s, err
}

// input shows the arguments as stored; what is not JSON is none.
func input(stored string) json.RawMessage {
	if !json.Valid([]byte(stored)) {
		return json.RawMessage("{}")
	}
	return json.RawMessage(stored)
}

// output shows the result as stored. No output is an empty object. Plain
// text stays text.
func output(stored string) (json.RawMessage, error) {
	switch {
	case strings.TrimSpace(stored) == "":
		return json.RawMessage("{}"), nil
	case json.Valid([]byte(stored)):
		return json.RawMessage(stored), nil
	}
	return encode(stored)
}
