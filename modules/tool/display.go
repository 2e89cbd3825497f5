package tool

import (
	"encoding/json"
	"fmt"

	"github.com/portico-run/portico/modules/ptc"
)

const (
	omitted       = "[Content omitted for display]"
	maxShownTitle = 20 // characters
)

// displayed is the output of a call without what it read: the content of a file,
// another run, the result of another call. Those of other tools are as they are.
func displayed(c Call) (json.RawMessage, error) {
	if c.Status != Completed || (c.Toolset != Builtin && c.Toolset != ptc.Own) {
		return c.Output, nil
	}
	var answer Answer
	var in struct {
		Input struct {
			ResultID string `json:"result_id"`
			CallID   string `json:"call_id"`
		} `json:"input"`
	}
	if err := json.Unmarshal(c.Output, &answer); err != nil {
		return nil, fmt.Errorf("recorded answer of %s: %w", c.CallID, err)
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
