package tool

import (
	"context"
	"encoding/json"

	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/tool/approval"
	"github.com/portico-run/portico/modules/tool/resource"
	"github.com/portico-run/portico/modules/toolset"
)

// Connector is one kind of toolset: what its tools are, and how they are
// executed.
type Connector interface {
	toolset.Source
	Executor
}

// ExecutorsOf are the connectors by the kind that they execute.
func ExecutorsOf(connectors []Connector) Executors {
	executors := Executors{}
	for _, c := range connectors {
		executors[c.Traits().Kind] = c
	}
	return executors
}

// Executor runs the calls of one kind of toolset.
type Executor interface {
	// Execute makes one call. What the upstream did wrong is a Failure of the
	// outcome; an error is a fault of Portico itself, and hidden from callers.
	// It returns when ctx ends at the latest.
	Execute(ctx context.Context, in Invocation) (Outcome, error)
}

// Invocation is one call, identified and validated.
type Invocation struct {
	CallID     string
	UID        string
	Toolset    toolset.Toolset
	Method     toolset.Method
	Credential toolset.Credential
	// Arguments satisfy the method's schema, its defaults filled in. Numbers
	// are json.Number.
	Arguments map[string]any
	// FileNameTitle names the file that a result becomes; it is not for the
	// upstream.
	FileNameTitle string
	// Progress takes sentences about a call that takes long; nil where nobody
	// watches.
	Progress func(ctx context.Context, text string)
	// Ask asks a person something in the middle of the call, whose time does not pass
	// meanwhile; nil where nobody can be asked. It is called by one goroutine at a
	// time, and has returned before the call does.
	Ask func(ctx context.Context, q approval.Asked) (approval.Reply, error)
}

// Report says how a call goes that takes long.
func (i Invocation) Report(ctx context.Context, text string) {
	if i.Progress != nil {
		i.Progress(ctx, text)
	}
}

// Outcome is what came of a call.
type Outcome struct {
	Data    json.RawMessage
	Failure *Failure
	// File is what came instead of Data, if that is no JSON and no text.
	File *resource.File
	// Files are what came besides Data. WithFiles returns the data with the
	// descriptions of those that were kept; nil leaves Data as it is.
	Files     []resource.File
	WithFiles func(files []any) (json.RawMessage, error)
	// StoredFiles says that objects in Data with a member s3url are files.
	StoredFiles bool
	// Cost is what the upstream says the call costs, in credits; nil where the
	// toolset's prices decide.
	Cost *money.Amount
}

// Failure is a tool that did not do its work, in words for the caller.
type Failure = upstream.Failure
