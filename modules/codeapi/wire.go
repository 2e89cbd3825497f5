package codeapi

import (
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/codeapi/execution"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/stub"
)

// milliseconds is a time limit as clients write it.
type milliseconds float64

func (m milliseconds) duration() (time.Duration, error) {
	if m < 0 || m > 1e9 || math.IsNaN(float64(m)) {
		return 0, errs.New(errs.Invalid, "timeout must be a number of milliseconds.")
	}
	return time.Duration(float64(m) * float64(time.Millisecond)), nil
}

// codeProgram is POST /exec. Fields that are not here are ignored.
type codeProgram struct {
	_         struct{}        `additionalProperties:"true"`
	Lang      string          `json:"lang" doc:"py, bash, js or ts, or another usual name of them"`
	Language  string          `json:"language,omitempty" doc:"The same"`
	Code      string          `json:"code" minLength:"1"`
	Args      json.RawMessage `json:"args,omitempty" doc:"A list of texts, or one"`
	SessionID string          `json:"session_id,omitempty" doc:"An earlier program's, to find its files"`
	Files     []fileRefBody   `json:"files,omitempty"`
	Timeout   milliseconds    `json:"timeout,omitempty" minimum:"0" maximum:"1000000000" doc:"In milliseconds"`
}

func (b codeProgram) request() (execution.ExecRequest, error) {
	timeout, err := b.Timeout.duration()
	if err != nil {
		return execution.ExecRequest{}, err
	}
	args, err := arguments(b.Args)
	if err != nil {
		return execution.ExecRequest{}, err
	}
	files, err := toRefs(b.Files)
	return execution.ExecRequest{
		Language: first(b.Lang, b.Language), Code: b.Code, Args: args, Session: b.SessionID, Files: files, Timeout: timeout,
	}, err
}

// arguments takes a list or a single value; what is no text becomes its JSON.
func arguments(raw json.RawMessage) ([]string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		list = []json.RawMessage{raw}
	}
	args := make([]string, len(list))
	for i, item := range list {
		if json.Unmarshal(item, &args[i]) != nil {
			args[i] = string(item)
		}
		if strings.ContainsRune(args[i], 0) {
			return nil, errs.New(errs.Invalid, "args must not hold NUL.")
		}
	}
	return args, nil
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// codeProgramWithTools is POST /exec/programmatic, the first request and those that
// continue it.
type codeProgramWithTools struct {
	_         struct{}      `additionalProperties:"true"`
	Lang      string        `json:"lang,omitempty" doc:"py, the default, or bash"`
	Language  string        `json:"language,omitempty" doc:"The same"`
	Code      string        `json:"code,omitempty"`
	Tools     []callerTool  `json:"tools,omitempty" doc:"The caller's tools"`
	Toolsets  []string      `json:"toolsets,omitempty" doc:"Portico's toolsets, whose tools the server executes"`
	SessionID string        `json:"session_id,omitempty" doc:"An earlier program's, to find its files"`
	Files     []fileRefBody `json:"files,omitempty"`
	Timeout   milliseconds  `json:"timeout,omitempty" minimum:"0" maximum:"1000000000" doc:"In milliseconds; it counts while code runs"`

	// Only newer clients send these. They mean nothing here: every program is alone.
	RuntimeSessionHint  json.RawMessage `json:"runtime_session_hint,omitempty" doc:"Ignored"`
	WorkspaceInstanceID json.RawMessage `json:"workspace_instance_id,omitempty" doc:"Ignored"`

	ContinuationToken *string       `json:"continuation_token,omitempty" doc:"With tool_results, instead of everything else"`
	ToolResults       []askedResult `json:"tool_results,omitempty" doc:"One for each of tool_calls"`
}

type callerTool struct {
	_           struct{}        `additionalProperties:"true"`
	Name        string          `json:"name" minLength:"1"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty" doc:"A JSON Schema of an object"`
}

type askedResult struct {
	_            struct{}        `additionalProperties:"true"`
	CallID       string          `json:"call_id"`
	Result       json.RawMessage `json:"result,omitempty"`
	IsError      bool            `json:"is_error,omitempty"`
	ErrorMessage string          `json:"error_message,omitempty"`
}

func (b codeProgramWithTools) request(id string) (execution.ProgramRequest, error) {
	timeout, err := b.Timeout.duration()
	if err != nil {
		return execution.ProgramRequest{}, err
	}
	files, err := toRefs(b.Files)
	tools := make([]stub.Tool, len(b.Tools))
	for i, t := range b.Tools {
		if t.Name == "" {
			return execution.ProgramRequest{}, errs.Newf(errs.Invalid, "tools[%d] has no name", i)
		}
		tools[i] = stub.Tool{Name: t.Name, Description: t.Description, Schema: t.Parameters}
	}
	return execution.ProgramRequest{
		Language: first(b.Lang, b.Language), Code: b.Code, Tools: tools, Toolsets: b.Toolsets, Session: b.SessionID,
		Files: files, Timeout: timeout, RequestID: id,
	}, err
}

func (b codeProgramWithTools) results() []execution.ToolResult {
	results := make([]execution.ToolResult, len(b.ToolResults))
	for i, r := range b.ToolResults {
		results[i] = execution.ToolResult{CallID: r.CallID, Result: r.Result, Failed: r.IsError, Error: r.ErrorMessage}
		if len(r.Result) == 0 {
			results[i].Result = json.RawMessage("null") // a tool that returned nothing
		}
		if r.IsError && r.ErrorMessage == "" {
			results[i].Error = "The tool failed."
			var text string
			if json.Unmarshal(r.Result, &text) == nil && text != "" {
				results[i].Error = text
			}
		}
	}
	return results
}

// codeEnded is a program that ran to its end.
type codeEnded struct {
	Status           string            `json:"status"`
	SessionID        string            `json:"session_id"`
	Stdout           string            `json:"stdout"`
	Stderr           string            `json:"stderr"`
	Files            []codeFile        `json:"files"`
	DeletedFiles     []string          `json:"deleted_files,omitempty"`
	DroppedFiles     int               `json:"dropped_files,omitempty"`
	ArtifactDelivery *artifactDelivery `json:"artifact_delivery,omitempty" doc:"Set when new files could not be kept"`
	Code             int               `json:"code" doc:"The program's exit code"`
	WallTime         int64             `json:"wall_time" doc:"In milliseconds"`
	Message          string            `json:"message,omitempty" doc:"The limit that ended it, if one did"`
	ErrorCode        sandbox.Failure   `json:"error_code,omitempty" enum:"failed,timeout,out_of_memory,cancelled,runtime_unavailable" doc:"Why it did not complete"`
	ToolCallsMade    int               `json:"tool_calls_made" doc:"How many tool calls it had made"`
}

func toCodeEnded(x execution.ExecResult) codeEnded {
	r, p := x.Result, x.Produced
	return codeEnded{
		Status: string(r.Status), SessionID: x.Session, Stdout: r.Stdout, Stderr: withRefused(r.Stderr, p), Files: toCodeFiles(p),
		ArtifactDelivery: toArtifactDelivery(p),
		DeletedFiles:     p.Deleted, DroppedFiles: p.Dropped, Code: r.ExitCode, WallTime: r.Duration.Milliseconds(),
		Message: limitOf(r.Status), ErrorCode: r.Status.Failure(),
	}
}

// Limits of programs in the words that clients know.
const (
	timeExceeded   = "Time limit exceeded"
	memoryExceeded = "Out of memory"
)

// limitOf is the limit that a status means, if any.
func limitOf(s sandbox.Status) string {
	switch s {
	case sandbox.TimedOut:
		return timeExceeded
	case sandbox.OutOfMemory:
		return memoryExceeded
	}
	return ""
}

// codePaused is a program that waits for calls. Some clients look for the
// members of every status.
type codePaused struct {
	Status            string                `json:"status" enum:"tool_call_required"`
	SessionID         string                `json:"session_id"`
	ContinuationToken string                `json:"continuation_token"`
	ToolCalls         []execution.AskedCall `json:"tool_calls"`
	Stdout            *string               `json:"stdout" nullable:"true" doc:"null"`
	Stderr            *string               `json:"stderr" nullable:"true" doc:"null"`
	Files             []codeFile            `json:"files" doc:"null"`
	Error             *string               `json:"error" nullable:"true" doc:"null"`
}

// codeOver is a program with tools that ended, with the members of every
// status.
type codeOver struct {
	Status            string                `json:"status" enum:"completed,error"`
	SessionID         string                `json:"session_id"`
	ContinuationToken *string               `json:"continuation_token" nullable:"true" doc:"null"`
	ToolCalls         []execution.AskedCall `json:"tool_calls" doc:"null"`
	Stdout            string                `json:"stdout" doc:"Everything since the start"`
	Stderr            string                `json:"stderr"`
	Files             []codeFile            `json:"files"`
	Error             *string               `json:"error" nullable:"true"`
	DeletedFiles      []string              `json:"deleted_files,omitempty"`
	DroppedFiles      int                   `json:"dropped_files,omitempty"`
	ArtifactDelivery  *artifactDelivery     `json:"artifact_delivery,omitempty" doc:"Set when new files could not be kept"`
	Code              int                   `json:"code" doc:"The program's exit code"`
	WallTime          int64                 `json:"wall_time" doc:"What its clock counted, in milliseconds"`
	ErrorCode         sandbox.Failure       `json:"error_code,omitempty" enum:"failed,timeout,out_of_memory,cancelled,runtime_unavailable" doc:"Why it did not complete"`
	ToolCallsMade     int                   `json:"tool_calls_made" doc:"How many tool calls it had made"`
}

// answer is a reply as it goes out. Callers that see phrases do not see the
// answers of other statuses than 200, and tell the model little more than a
// phrase they know and what the program wrote to stderr.
func (c controller) answer(r execution.Reply) (status int, body any) {
	if r.Paused() {
		return http.StatusOK, codePaused{Status: "tool_call_required", SessionID: r.Session, ContinuationToken: r.Token, ToolCalls: r.Calls}
	}
	end := codeOver{
		Status: "completed", SessionID: r.Session, Stdout: r.Result.Stdout, Stderr: r.Result.Stderr, Files: toCodeFiles(r.Produced),
		DeletedFiles: r.Produced.Deleted, DroppedFiles: r.Produced.Dropped, Code: r.Result.ExitCode, WallTime: r.Result.Duration.Milliseconds(),
		ErrorCode: r.Cause.Failure(), ToolCallsMade: r.Made,
	}
	end.Stderr, end.ArtifactDelivery = withRefused(end.Stderr, r.Produced), toArtifactDelivery(r.Produced)
	if r.Cause == "" {
		return http.StatusOK, end
	}
	status, said := c.failure(r)
	if r.Cause == execution.RoundLimit {
		end.Stderr = sandbox.Note(end.Stderr, said)
	}
	if r.Made > 0 {
		end.Stderr = sandbox.Note(end.Stderr, sandbox.CallsMade(r.Made))
	}
	end.Status, end.Error = "error", &said
	return status, end
}
