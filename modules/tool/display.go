package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/modules/ptc"
	"github.com/portico-run/portico/modules/run/record"
)

const (
	omitted       = "[Content omitted for display]"
	maxShownTitle = 20 // characters
)

// displayed is the output of a call without what it read: the content of a file,
// another run, the result of another call. Those of other tools are as they are.
func displayed(c record.Call) (json.RawMessage, error) {
	if c.Status != record.Completed || (c.Toolset != record.Builtin && c.Toolset != ptc.Own) {
		return c.Output, nil
	}
	var in struct {
		Input struct {
			ResultID string `json:"result_id"`
			CallID   string `json:"call_id"`
		} `json:"input"`
	}
	answer, err := c.Answer()
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(c.Input, &in); err != nil {
		return nil, fmt.Errorf("recorded input of %s: %w", c.CallID, err)
	}
	shown := map[string]any{}
	switch c.Tool {
	case "read_file":
		shown["content"] = omitted
	case "read_agent_result":
		var read struct{ Title string }
		if err := json.Unmarshal(answer.Data, &read); err != nil {
			return nil, fmt.Errorf("recorded run of %s: %w", c.CallID, err)
		}
		shown["title"], shown["resultId"] = shortTitle(read.Title), in.Input.ResultID
	case "read_tool_result":
		shown["callId"], shown["toolName"], shown["status"] = in.Input.CallID, c.Tool, answer.Status
	default:
		return c.Output, nil
	}
	data, err := json.Marshal(shown)
	if err != nil {
		return nil, fmt.Errorf("encode what is shown of %s: %w", c.CallID, err)
	}
	answer.Data, answer.Truncated = data, nil
	return json.Marshal(answer)
}

func shortTitle(title string) string {
	if characters := []rune(title); len(characters) > maxShownTitle {
		return string(characters[:maxShownTitle]) + "..."
	}
	return title
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
	Status     string          `json:"status" enum:"waiting,executing,completed,failed"`
	Error      string          `json:"error"`
	CreatedAt  time.Time       `json:"createdAt"`
	UpdatedAt  time.Time       `json:"updatedAt"`
	DurationMS int64           `json:"durationMs"`
}

func (c controller) display(ctx context.Context, who actor.Actor, in *displayInput) (displayBody, error) {
	call, err := c.service.records.Call(ctx, who, in.CallID)
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
