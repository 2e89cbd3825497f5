// Package function is a tool of the server's own that programs call by a plain
// name, as search_knowledge("auth").
package function

import (
	"context"
	"encoding/json"

	"github.com/portico-run/portico/internal/actor"
)

// Function is a tool of the server's own.
type Function struct {
	Name        string
	Description string
	// Input is the JSON Schema of the arguments, an object; the order of its
	// properties is that of positional arguments. Output is that of the result;
	// empty where it is a text.
	Input, Output json.RawMessage
	// ReadOnly says that it changes nothing, Idempotent that calling it twice is
	// calling it once. One of them must hold for what code calls.
	ReadOnly, Idempotent bool
	// SandboxCallable lets programs call it.
	SandboxCallable bool
	// Run makes a call. Arguments satisfy Input, its defaults filled in. Errors
	// are those of package errs, or upstream.Failure for what another service
	// did wrong.
	Run func(ctx context.Context, c Caller, arguments json.RawMessage) (json.RawMessage, error)
}

// Caller is who calls, and what for.
type Caller struct {
	Actor actor.Actor
	// CanvasID is the canvas of the run, whose files the call may read; empty
	// without one.
	CanvasID string
	// CallID is the record of this call, ProgramID that of the program which
	// makes it; empty for a call from outside.
	CallID, ProgramID string
}
