package record

import (
	"encoding/json"
	"time"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/modules/run"
)

// Status is the state of a call's record.
type Status string

// A call is executing until its final record; it is never both completed and
// unbilled, or billed and not completed. Before anything is sent it may be waiting
// for somebody to allow it.
const (
	Waiting   Status = "waiting"
	Executing Status = "executing"
	Completed Status = "completed"
	Failed    Status = "failed"
)

// Program is the toolset and tool name of the call that is a program: the
// parent of the calls its code makes.
const Program = "execute_code"

// Builtin is the toolset of tools that this server is itself.
const Builtin = "builtin"

// Call is the record of one tool call.
type Call struct {
	CallID   string
	ParentID string // the program it was made by; empty for others
	Origin   ids.Origin
	UID      string
	ResultID string // run.NoResult outside any run
	Version  int
	CanvasID string
	Toolset  string
	Tool     string
	StepName string
	Input    json.RawMessage
	Output   json.RawMessage // an Answer; nil until the call has ended
	Status   Status
	Error    string
	// Line is the line of its program's code that made the call, as the program
	// says it; 0 where it is not known.
	Line int
	// Bytes is the size of the whole result; nil while executing, and where it is
	// not known.
	Bytes     *int64
	CreatedAt time.Time
	UpdatedAt time.Time
	// ExpiresAt is set while a service beside this server executes the program:
	// when it fails unless it was finished. Ending says that it is being
	// finished, and makes no more calls.
	ExpiresAt time.Time
	Ending    bool
	// ShownBy is the number of the event that showed the call before it was
	// recorded; 0 where none did. It is not stored.
	ShownBy int64
}

// Live reports whether the program may make calls.
func (c Call) Live(now time.Time) bool {
	return c.Status == Executing && !c.Ending && (c.ExpiresAt.IsZero() || now.Before(c.ExpiresAt))
}

// Ended reports whether the call has its final record.
func (c Call) Ended() bool { return c.Status == Completed || c.Status == Failed }

// InRun reports whether the call belongs to a run.
func (c Call) InRun() bool { return c.ResultID != run.NoResult }

// Run names the run that the call belongs to.
func (c Call) Run() run.Ref { return run.Ref{UID: c.UID, ResultID: c.ResultID, Version: c.Version} }

// Meta names the call in events and in its message.
func (c Call) Meta() run.CallMeta {
	m := run.CallMeta{
		ToolName: c.Tool, ToolsetID: c.Toolset, ToolsetKey: c.Toolset, ToolCallID: c.CallID, Status: string(c.Status), StartTS: c.CreatedAt.UnixMilli(),
	}
	if c.Ended() {
		m.EndTS = c.UpdatedAt.UnixMilli()
	}
	return m
}

// WrapInput is the form in which records hold arguments: {"input": arguments}.
func WrapInput(arguments any) (json.RawMessage, error) {
	return json.Marshal(map[string]any{"input": arguments})
}

// Shown is how a call was shown while a model wrote it, before there was a
// record of it. The record has the same id and the same place in the run.
type Shown struct {
	CallID string // from NewID; empty makes one
	Event  int64  // the number of the event that showed it first; 0 where none did
}

// Errors of the service.
var (
	ErrMissing       = errs.New(errs.NotFound, "There is no such tool call.").Do("Check the id; a call is visible to its own user only.")
	ErrParentForeign = errs.New(errs.Forbidden, "The program named in x-ptc-call-id is not yours.").Do("Send the id this execution was given in REFLY_PTC_CALL_ID.")
	ErrResultForeign = errs.New(errs.Forbidden, "The run named in x-refly-result-id is not yours.").Do("Send the id this execution was given in REFLY_RESULT_ID, and its version.")
	ErrCanvasForeign = errs.New(errs.Forbidden, "The canvas named in x-refly-canvas-id is not yours.").Do("Send the id of a canvas of yours, or none.")
	ErrParentEnded   = errs.New(errs.Conflict, "The program that makes this call has ended.").Do("Start another program; calls after the end are not executed.")
	ErrInProgress    = errs.New(errs.Conflict, "A call with this Idempotency-Key is still executing.").Do("Ask again with the same key after Retry-After.").After(time.Second)
	ErrKeyReused     = errs.New(errs.Conflict, "This Idempotency-Key was used for another request.").Do("Use a new key for a new request.")
	// ErrUnsettled is returned for the end of something that still has calls
	// executing.
	ErrUnsettled = errs.New(errs.Conflict, "Calls of it are still executing.").
			Do("Ask again after Retry-After; new calls of it are refused meanwhile. With status aborted, a run ends at once.").After(5 * time.Second)
)
