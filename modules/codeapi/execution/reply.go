package execution

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/portico-run/portico/modules/codeapi/session"
	"github.com/portico-run/portico/modules/sandbox"
)

// Cause is why a program that may pause did not complete.
type Cause string

// The causes.
const (
	Exited       Cause = "failed" // the program's own doing
	TimeLimit    Cause = "timed_out"
	MemoryLimit  Cause = "out_of_memory"
	WasKilled    Cause = "killed"
	RoundLimit   Cause = "rounds"
	IdleLimit    Cause = "idle"
	Cancelled    Cause = "cancelled"
	Disconnected Cause = "disconnected"
	Stopped      Cause = "stopped"
	Crowded      Cause = "crowded" // it could not pause again: too many programs were paused
	Lost         Cause = "lost"    // the sandbox did not take it, or lost it
)

// Why a program's context ends. Their texts are for logs.
var (
	errIdle         = errors.New("nobody continued the program in time")
	errRounds       = errors.New("the program paused too often")
	errCancelled    = errors.New("the caller cancelled the program")
	errDisconnected = errors.New("the caller went away")
	errStopped      = errors.New("the server is stopping")
	errCrowded      = errors.New("too many programs are paused")
)

// AskedCall is a call that the caller is asked to execute.
type AskedCall struct {
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

// ToolResult is what came of one.
type ToolResult struct {
	CallID string
	Result json.RawMessage
	Failed bool
	Error  string
}

// Reply is where a program stands: Calls while it is paused, otherwise how it
// ended.
type Reply struct {
	Session string
	Token   string
	Calls   []AskedCall

	Result   sandbox.Result
	Produced session.Produced
	Cause    Cause // empty when the program completed
	// Phrases is that of the request.
	Phrases bool
	// Made is how many tool calls it had made: those that the caller was asked
	// for, and those of toolsets.
	Made int
}

// Failure is the code of a cause, empty for none.
func (c Cause) Failure() sandbox.Failure {
	switch c {
	case "":
		return ""
	case TimeLimit:
		return sandbox.FailedTimeout
	case MemoryLimit:
		return sandbox.FailedMemory
	case Cancelled, Disconnected, IdleLimit, Crowded:
		return sandbox.FailedCancelled
	case Stopped, Lost:
		return sandbox.FailedUnavailable
	}
	return sandbox.FailedItself
}

// Paused reports whether the program waits for calls.
func (r Reply) Paused() bool { return r.Token != "" }

// cause names why a program ended as it did. ctx is the program's.
func cause(ctx context.Context, r sandbox.Result) Cause {
	switch r.Status {
	case sandbox.Completed:
		return ""
	case sandbox.TimedOut:
		return TimeLimit
	case sandbox.OutOfMemory:
		return MemoryLimit
	case sandbox.Killed:
		return WasKilled
	case sandbox.Failed:
		return Exited
	}
	for is, named := range map[error]Cause{
		errIdle: IdleLimit, errRounds: RoundLimit, errCancelled: Cancelled, errDisconnected: Disconnected, errCrowded: Crowded,
	} {
		if errors.Is(context.Cause(ctx), is) {
			return named
		}
	}
	return Stopped
}

// interrupted is why a program was ended before it had begun, if that is what
// an error of the sandbox means.
func (e *execution) interrupted(err error) Cause {
	if e.ctx.Err() == nil || !errors.Is(err, context.Canceled) {
		return ""
	}
	return cause(e.ctx, sandbox.Result{Status: sandbox.Cancelled})
}
