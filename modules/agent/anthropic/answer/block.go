package answer

import (
	"encoding/json"

	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/agent/anthropic/files"
	"github.com/portico-run/portico/modules/agent/anthropic/wire"
	"github.com/portico-run/portico/modules/agent/dialogue"
	"github.com/portico-run/portico/modules/sandbox"
)

// The blocks of answers: docs/wire/anthropic.md#messages.
type (
	textBlock struct {
		Type      string       `json:"type"`
		Text      string       `json:"text"`
		Citations httpapi.Null `json:"citations"`
	}
	thinkingBlock struct {
		Type      string `json:"type"`
		Thinking  string `json:"thinking"`
		Signature string `json:"signature"`
	}
	redactedBlock struct {
		Type string `json:"type"`
		Data string `json:"data"`
	}
	useBlock struct {
		Type   string          `json:"type"`
		ID     string          `json:"id"`
		Name   string          `json:"name"`
		Input  json.RawMessage `json:"input"`
		Caller wire.Caller     `json:"caller"`
	}
	resultBlock struct {
		Type      string `json:"type"`
		ToolUseID string `json:"tool_use_id"`
		Content   any    `json:"content"`
	}
	searchFound struct {
		Type       string           `json:"type"`
		References []wire.Reference `json:"tool_references"`
	}
)

// block is a part of an answer as a block.
func (v View) block(p dialogue.Part) any {
	switch p := p.(type) {
	case dialogue.Text:
		return textBlock{Type: "text", Text: p.Text}
	case dialogue.Thought:
		if p.Text == "" {
			return redactedBlock{"redacted_thinking", p.Token}
		}
		return thinkingBlock{"thinking", p.Text, p.Token}
	case dialogue.Call:
		return useBlock{"tool_use", callID(p), p.Name, object(p.Arguments), v.callerOf(p.Program)}
	case dialogue.Program:
		input, _ := json.Marshal(map[string]string{"code": p.Code}) // texts always marshal
		return useBlock{"server_tool_use", programID(p.ID), wire.CodeName, input, wire.Caller{Type: wire.Direct}}
	case dialogue.Output:
		return resultBlock{"code_execution_tool_result", programID(p.Program), ended(p)}
	case dialogue.Approval:
		return useBlock{"tool_use", wire.CallPrefix + p.CallID, wire.ApprovalTool, waits(p), v.callerOf(p.Program)}
	case dialogue.OwnCall:
		return useBlock{"server_tool_use", programID(p.ID), p.Name, object(p.Arguments), wire.Caller{Type: wire.Direct}}
	case dialogue.OwnOutput:
		return resultBlock{"tool_search_tool_result", programID(p.ID), came(p)}
	}
	return nil
}

func (v View) callerOf(program string) wire.Caller {
	if program == "" {
		return wire.Caller{Type: wire.Direct}
	}
	return wire.Caller{Type: v.Caller, ToolID: programID(program)}
}

// waits is what a person is told of a call that waits.
func waits(p dialogue.Approval) json.RawMessage {
	text, _ := json.Marshal(struct { // texts, and what was JSON before
		Call      string          `json:"call"`
		Toolset   string          `json:"toolset"`
		Tool      string          `json:"tool"`
		Arguments json.RawMessage `json:"arguments"`
		Reason    string          `json:"reason"`
	}{p.CallID, p.Toolset, p.Tool, object(p.Arguments), p.Reason})
	return text
}

// died is the return code of a program that was ended, as shells have it.
const died = 137

// ended is how a program ended. One that ran into its time did not return, and neither
// did one that the sandbox did not take.
func ended(o dialogue.Output) wire.CodeResult {
	r := wire.CodeResult{Type: "code_execution_result", Stdout: o.Stdout, Stderr: o.Stderr, Content: []wire.CodeOutput{}, Reason: o.Why}
	for _, f := range o.Files {
		r.Content = append(r.Content, wire.CodeOutput{Type: "code_execution_output", FileID: files.ID(f.SessionID, f.ID), Filename: f.Name})
	}
	code := o.ExitCode
	switch o.Failure {
	case sandbox.FailedTimeout:
		r.Type, r.ErrorCode = "code_execution_tool_result_error", "execution_time_exceeded"
		return r
	case sandbox.FailedUnavailable:
		r.Type, r.ErrorCode = "code_execution_tool_result_error", "unavailable"
		if o.Busy {
			r.ErrorCode = "too_many_requests"
		}
		return r
	case "":
	default:
		if code == 0 {
			code = died
		}
	}
	r.ReturnCode = &code
	return r
}

// came is what a search came to.
func came(o dialogue.OwnOutput) any {
	if o.Failed != "" {
		return wire.SearchResult{Type: "tool_search_tool_result_error", ErrorCode: "invalid_tool_input", ErrorMessage: o.Failed}
	}
	found := searchFound{"tool_search_tool_search_result", []wire.Reference{}}
	for _, name := range o.Result.Loads {
		found.References = append(found.References, wire.Reference{Type: "tool_reference", Name: name})
	}
	return found
}
