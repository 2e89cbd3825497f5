package tool

import (
	"encoding/json"
	"regexp"
	"time"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/modules/run"
)

// Status is the state of a call's record.
type Status string

// A call is executing until its final record; it is never both completed and
// unbilled, or billed and not completed.
const (
	Executing Status = "executing"
	Completed Status = "completed"
	Failed    Status = "failed"
)

// NoResult is the result id of a call outside any run: docs/wire/refly.md#records-of-calls.
const NoResult = "non-result-id"

// Program is the toolset and tool name of the call that is a program: the
// parent of the calls its code makes.
const Program = "execute_code"

// Call is the record of one tool call.
type Call struct {
	CallID    string
	ParentID  string // the program it was made by; empty for others
	Origin    ids.Origin
	UID       string
	ResultID  string
	Version   int
	CanvasID  string
	Toolset   string
	Tool      string
	StepName  string
	Input     json.RawMessage
	Output    json.RawMessage // nil while executing
	Status    Status
	Error     string
	CreatedAt time.Time
	UpdatedAt time.Time
	// ExpiresAt is set while a service beside this server executes the program:
	// when it fails unless it was finished. Ending says that it is being
	// finished, and makes no more calls.
	ExpiresAt time.Time
	Ending    bool

	shown int64 // the number of the event that showed it before it was recorded
}

// live reports whether the program may make calls.
func (c Call) live(now time.Time) bool {
	return c.Status == Executing && !c.Ending && (c.ExpiresAt.IsZero() || now.Before(c.ExpiresAt))
}

// InRun reports whether the call belongs to a run.
func (c Call) InRun() bool { return c.ResultID != NoResult }

// meta names the call in its message.
func (c Call) meta() run.CallMeta {
	m := run.CallMeta{
		ToolName: c.Tool, ToolsetID: c.Toolset, ToolsetKey: c.Toolset, ToolCallID: c.CallID, Status: string(c.Status), StartTS: c.CreatedAt.UnixMilli(),
	}
	if c.Status != Executing {
		m.EndTS = c.UpdatedAt.UnixMilli()
	}
	return m
}

// Context is what a call claims about where it was made. The claims are
// checked against the caller.
type Context struct {
	ParentID string
	ResultID string
	Version  *int
	CanvasID string
	// model is set where a model of this server makes the call; no request can
	// claim it.
	model *Shown
}

// Request is one call as it was asked for.
type Request struct {
	Toolset        string
	Tool           string
	Arguments      json.RawMessage
	Context        Context
	IdempotencyKey string
}

// Answer is the outcome of a call as the caller sees it, and as it is
// recorded: the two never differ.
type Answer struct {
	Status    string          `json:"status" enum:"success,error"`
	Data      json.RawMessage `json:"data,omitempty" doc:"What the tool returned"`
	Error     string          `json:"error,omitempty" doc:"Why the tool failed"`
	ErrorCode string          `json:"errorCode,omitempty" doc:"Stable name of the failure"`
	Files     []any           `json:"files,omitempty" nullable:"false" doc:"The files in data: of the canvas, or temporary ones"`
	Truncated *Truncated      `json:"truncated,omitempty" doc:"Set when data was shortened to the output cap"`
}

// Truncated says how large a shortened output was and where all of it is.
type Truncated struct {
	Bytes int    `json:"bytes" doc:"Size of the whole output"`
	Ref   string `json:"ref" doc:"Path of the route that returns the whole output"`
}

// The values of Answer.Status.
const (
	Success     = "success"
	errorStatus = "error"
)

// Codes of failed answers that the service itself gives.
const (
	CodeToolsetNotFound  = "TOOLSET_NOT_FOUND"
	CodeMethodNotFound   = "METHOD_NOT_FOUND"
	CodeNotAuthorized    = "NOT_AUTHORIZED"
	CodeNotAllowed       = "TOOLSET_NOT_ALLOWED"
	CodeCallerNotAllowed = "CALLER_NOT_ALLOWED"
	CodeInvalidArguments = "INVALID_ARGUMENTS"
	CodeSpendingLimit    = "SPENDING_LIMIT"
	CodeUnsupportedType  = "TOOLSET_TYPE_UNSUPPORTED"
	CodeInterrupted      = "INTERRUPTED"
	CodeTimeout          = "TIMEOUT"
	CodeNotFinished      = "NOT_FINISHED"
	CodeInternal         = "INTERNAL"
	CodeNotExecuted      = "NOT_EXECUTED"
	interruptedMessage   = "The call was interrupted: the process that ran it died. It was not billed; whether it had an effect is not known."
)

// Errors of the service.
var (
	ErrMissing       = errs.New(errs.NotFound, "There is no such tool call.").Do("Check the id; a call is visible to its own user only.")
	ErrParentForeign = errs.New(errs.Forbidden, "The program named in x-ptc-call-id is not yours.").Do("Send the id this execution was given in REFLY_PTC_CALL_ID.")
	ErrResultForeign = errs.New(errs.Forbidden, "The run named in x-refly-result-id is not yours.").Do("Send the id this execution was given in REFLY_RESULT_ID, and its version.")
	ErrCanvasForeign = errs.New(errs.Forbidden, "The canvas named in x-refly-canvas-id is not yours.").Do("Send the id of a canvas of yours, or none.")
	ErrParentEnded   = errs.New(errs.Conflict, "The program that makes this call has ended.").Do("Start another program; calls after the end are not executed.")
	ErrInProgress    = errs.New(errs.Conflict, "A call with this Idempotency-Key is still executing.").Do("Ask again with the same key after Retry-After.").After(time.Second)
	ErrKeyReused     = errs.New(errs.Conflict, "This Idempotency-Key was used for another request.").Do("Use a new key for a new request.")
)

var (
	nameForm = regexp.MustCompile(`^[\w .:/@()-]{1,128}$`)
	idForm   = regexp.MustCompile(`^[A-Za-z0-9:_.-]{1,128}$`)
	keyForm  = regexp.MustCompile(`^[\x21-\x7e]{1,255}$`)
)

// validate refuses requests that name nothing or cannot be recorded.
func (r Request) validate() error {
	fields := []struct {
		name, value string
		form        *regexp.Regexp
		required    bool
	}{
		{"toolsetKey", r.Toolset, nameForm, true},
		{"toolName", r.Tool, nameForm, true},
		{"x-ptc-call-id", r.Context.ParentID, idForm, false},
		{"x-refly-result-id", r.Context.ResultID, idForm, false},
		{"x-refly-canvas-id", r.Context.CanvasID, idForm, false},
		{"Idempotency-Key", r.IdempotencyKey, keyForm, false},
	}
	for _, f := range fields {
		if f.value == "" && f.required {
			return errs.Newf(errs.Invalid, "%s is missing.", f.name).Do("Send toolsetKey and toolName; /v1/tool/toolset/exportDefinitions lists them.")
		}
		if f.value != "" && !f.form.MatchString(f.value) {
			return errs.Newf(errs.Invalid, "%s is too long or has characters that are not allowed.", f.name)
		}
	}
	return nil
}
