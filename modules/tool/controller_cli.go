package tool

import (
	"context"
	"encoding/json"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/httpapi"
)

type runCallsInput struct {
	httpapi.PageQuery
	ResultID string `query:"resultId" required:"true" minLength:"1" maxLength:"64" doc:"The run"`
	Version  string `query:"version" documented:"pattern=^[0-9]{0,9}$" doc:"Which execution under the result id; the newest when left out"`
}

type runCallsBody struct {
	ToolCalls  []callBody `json:"toolCalls" nullable:"false"`
	Version    int        `json:"version"`
	NextCursor string     `json:"nextCursor,omitempty" doc:"Set when there is more"`
	Total      *int64     `json:"total,omitempty" doc:"Calls of the run, where page or pageSize was sent"`
}

func (c controller) listOfRun(ctx context.Context, who actor.Actor, in *runCallsInput) (runCallsBody, error) {
	version, err := parseVersion("version", in.Version)
	if err != nil {
		return runCallsBody{}, err
	}
	r, err := c.service.Stores.Runs.Get(ctx, who, in.ResultID, version)
	if err != nil {
		return runCallsBody{}, err
	}
	page, err := c.service.List(ctx, who, Filter{ResultID: r.ResultID, Version: &r.Version}, in.PageQuery)
	calls := httpapi.MapPage(page, toBody)
	return runCallsBody{ToolCalls: calls.Items, Version: r.Version, NextCursor: calls.NextCursor, Total: calls.Total}, err
}

type displayInput struct {
	CallID   string `path:"callId" maxLength:"128" doc:"The call"`
	Sanitize string `query:"sanitizeForDisplay" enum:"true,false" doc:"Leave out what files, runs and results that were read hold"`
}

// displayBody is a record as command-line clients show it. Times are RFC 3339.
type displayBody struct {
	CallID     string          `json:"callId"`
	ResultID   string          `json:"resultId"`
	Version    int             `json:"resultVersion"`
	ToolsetID  string          `json:"toolsetId"`
	ToolName   string          `json:"toolName"`
	StepName   string          `json:"stepName"`
	Input      json.RawMessage `json:"input"`
	Output     json.RawMessage `json:"output,omitempty"`
	Status     string          `json:"status" enum:"executing,completed,failed"`
	Error      string          `json:"error"`
	CreatedAt  time.Time       `json:"createdAt"`
	UpdatedAt  time.Time       `json:"updatedAt"`
	DurationMS int64           `json:"durationMs"`
}

func (c controller) display(ctx context.Context, who actor.Actor, in *displayInput) (displayBody, error) {
	call, err := c.service.Call(ctx, who, in.CallID)
	if err != nil {
		return displayBody{}, err
	}
	if in.Sanitize == "true" {
		if call.Output, err = displayed(call); err != nil {
			return displayBody{}, err
		}
	}
	return displayBody{
		CallID: call.CallID, ResultID: call.ResultID, Version: call.Version, ToolsetID: call.Toolset, ToolName: call.Tool, StepName: call.StepName,
		Input: call.Input, Output: call.Output, Status: string(call.Status), Error: call.Error, CreatedAt: call.CreatedAt, UpdatedAt: call.UpdatedAt,
		DurationMS: call.UpdatedAt.Sub(call.CreatedAt).Milliseconds(),
	}, nil
}
