package stream

import (
	"encoding/json"

	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
)

// The events as the API's document describes them. What is sent is made by
// render; a test compares both.
type (
	// EventHead is exported for the library that describes types, which passes
	// others over where they are embedded.
	EventHead struct {
		ResultID string `json:"resultId"`
		Version  int    `json:"version"`
	}
	eventStep struct {
		Name string `json:"name"`
	}
	startEvent struct {
		Event string `json:"event" enum:"start"`
		EventHead
	}
	streamEvent struct {
		Event string `json:"event" enum:"stream"`
		EventHead
		MessageID string     `json:"messageId" doc:"The message that the text belongs to"`
		Content   string     `json:"content" doc:"What the answer goes on with"`
		Reasoning string     `json:"reasoningContent,omitempty" doc:"What the model's reasoning goes on with"`
		Step      *eventStep `json:"step,omitempty"`
	}
	toolCallStreamEvent struct {
		Event string `json:"event" enum:"tool_call_stream"`
		EventHead
		MessageID string       `json:"messageId"`
		Content   string       `json:"content" doc:"What the model goes on to write of the call's arguments"`
		Meta      run.CallMeta `json:"toolCallMeta"`
	}
	toolCallEvent struct {
		Event string `json:"event" enum:"tool_call_start,tool_call_waiting,tool_call_decided,tool_call_end,tool_call_error"`
		EventHead
		PTC       bool         `json:"ptc,omitempty" doc:"True where a program made the call"`
		IsPTC     bool         `json:"isPtc,omitempty" doc:"The same"`
		Step      *eventStep   `json:"step,omitempty"`
		MessageID string       `json:"messageId"`
		Meta      run.CallMeta `json:"toolCallMeta"`
		Result    *CallResult  `json:"toolCallResult,omitempty" doc:"Absent where the record is gone"`
		Approval  *Approval    `json:"approval,omitempty" doc:"Of tool_call_waiting and tool_call_decided"`
	}
	callSummaryEvent struct {
		Event string `json:"event" enum:"tool_call_start,tool_call_waiting,tool_call_decided,tool_call_end,tool_call_error"`
		EventHead
		IsPTC     bool        `json:"isPtc,omitempty" doc:"True where a program made the call"`
		MessageID string      `json:"messageId,omitempty" doc:"The message about the call; those of programs have none"`
		Call      CallSummary `json:"call" doc:"Instead of toolCallMeta and toolCallResult, with detail=summary"`
		Approval  *Approval   `json:"approval,omitempty" doc:"Of tool_call_waiting and tool_call_decided"`
	}
	eventLine struct {
		Level   string `json:"level" enum:"info,warn,error"`
		Stream  string `json:"stream,omitempty" enum:"stdout,stderr" doc:"Where a program wrote it"`
		Content string `json:"content"`
	}
	logEvent struct {
		Event string `json:"event" enum:"log"`
		EventHead
		Log  eventLine     `json:"log"`
		Meta *run.CallMeta `json:"toolCallMeta,omitempty" doc:"The call that it is about"`
	}
	eventTokens struct {
		Model  string `json:"modelName,omitempty"`
		Input  int64  `json:"inputTokens"`
		Output int64  `json:"outputTokens,omitempty"`
		Cached int64  `json:"cacheReadTokens,omitempty"`
	}
	tokenUsageEvent struct {
		Event string `json:"event" enum:"token_usage"`
		EventHead
		MessageID string      `json:"messageId,omitempty"`
		Usage     eventTokens `json:"tokenUsage"`
	}
	eventFailure struct {
		Success bool   `json:"success" doc:"Always false"`
		Code    string `json:"errCode"`
		Message string `json:"errMsg"`
	}
	errorEvent struct {
		Event string `json:"event" enum:"error"`
		EventHead
		Error  eventFailure `json:"error"`
		Origin string       `json:"originError" doc:"Why the run failed"`
	}
	endEvent struct {
		Event string `json:"event" enum:"end"`
		EventHead
		Status run.Status `json:"status" enum:"finish,error,aborted"`
	}
)

// Events are examples of all events of a run, for the description of streams.
func Events() []any {
	const began, ended = 1_772_600_767_000, 1_772_600_767_412
	of := EventHead{ResultID: "ar-b1e8s3v7k2m4p6q9", Version: 0}
	const message, call, program = "am-b1e8s3v7k2m4p6q9", "ptc:2f1f3c4e-8a0b-4c7d-9e6f-0a1b2c3d4e5f", "agent:7d1c5a4b-1f2e-4d3c-8b6a-9e0f1a2b3c4d"
	meta := run.CallMeta{ToolName: "get_weather", ToolsetID: "demo", ToolsetKey: "demo", ToolCallID: call, Status: "completed", StartTS: began, EndTS: ended}
	return []any{
		startEvent{"start", of},
		streamEvent{Event: "stream", EventHead: of, MessageID: message, Content: "In Rome it is ", Step: &eventStep{"answer"}},
		toolCallStreamEvent{
			Event: "tool_call_stream", EventHead: of, MessageID: message, Content: `{"code":"from refly_tools`,
			Meta: run.CallMeta{ToolName: "execute_code", ToolCallID: program, Status: string(record.Executing)},
		},
		toolCallEvent{Event: "tool_call_end", EventHead: of, PTC: true, IsPTC: true, MessageID: message, Meta: meta, Result: &CallResult{
			CallID: call, ParentID: program, ToolsetID: "demo", ToolName: "get_weather", Input: json.RawMessage(`{"input":{"city":"Rome"}}`),
			Output: json.RawMessage(`{"status":"success","data":{"city":"Rome","temperature":18}}`), Status: "completed", CreatedAt: began, UpdatedAt: ended,
		}},
		callSummaryEvent{Event: "tool_call_end", EventHead: of, IsPTC: true, Call: CallSummary{
			CallID: call, Toolset: "demo", Tool: "get_weather", Line: 3, Status: "completed", Arguments: `{"city":"Rome"}`,
			Credits: "0.02", Bytes: new(int64(32)), Tokens: new(int64(8)), StartedAt: began, EndedAt: ended,
		}},
		logEvent{Event: "log", EventHead: of, Log: eventLine{Level: "info", Stream: "stdout", Content: "18 degrees\n"}, Meta: &run.CallMeta{ToolCallID: program}},
		tokenUsageEvent{Event: "token_usage", EventHead: of, MessageID: message, Usage: eventTokens{Model: "gpt-5.2", Input: 1834, Output: 96, Cached: 1536}},
		errorEvent{Event: "error", EventHead: of, Error: eventFailure{Code: "E0000", Message: "The run failed."}, Origin: "The model gave no answer."},
		endEvent{"end", of, run.Done},
	}
}

// eventsInput describes the parameters of the stream, which parseVersion and
// parseCursor read.
type eventsInput struct {
	ResultID    string `path:"resultId" doc:"The run"`
	Version     int    `query:"version" minimum:"0" maximum:"2147483647" doc:"Which execution of the run; the newest when left out"`
	Ticket      string `query:"ticket" maxLength:"4096" doc:"For pages of other origins, in place of a credential" example:"eyJhbGciOiJIUzI1NiJ9.eyJydW4iOiJhci0xIn0.c2lnbmF0dXJl"`
	Detail      string `query:"detail" enum:"full,summary" default:"full" doc:"summary leaves out what calls were asked and answered"`
	LastEventID string `query:"lastEventId" pattern:"^0*[0-9]{0,18}$" doc:"For clients that cannot send the header"`
	Last        string `header:"Last-Event-ID" pattern:"^0*[0-9]{0,18}$" doc:"The id of the last event that arrived: the stream goes on after it"`
}
