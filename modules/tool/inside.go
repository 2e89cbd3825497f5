package tool

import (
	"context"

	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/toolset"
)

type insideKey struct{}

// Inside marks the calls of a program that come by its own channel, and others
// that this server makes for a user. No request over the network can claim it.
func Inside(ctx context.Context) context.Context { return context.WithValue(ctx, insideKey{}, true) }

type pauseKey struct{}

// Pause stops the clock of the program that makes a call and gives its turn of the
// sandbox to others, while the call waits for a person, or for a turn of its own. It
// returns an error where no more programs may wait. resume waits until the program may
// run on, or ctx ends.
type Pause func(ctx context.Context) (resume func(ctx context.Context) error, err error)

// Pausing gives the calls of a program what stops its clock.
func Pausing(ctx context.Context, p Pause) context.Context {
	return context.WithValue(ctx, pauseKey{}, p)
}

// PauseOf is what stops the clock of the program that makes a call; where no
// program of this process does, it does nothing.
func PauseOf(ctx context.Context) Pause {
	if p, ok := ctx.Value(pauseKey{}).(Pause); ok {
		return p
	}
	return func(context.Context) (func(context.Context) error, error) {
		return func(context.Context) error { return nil }, nil
	}
}

// executesMCP reports whether a call reaches the tools of MCP servers. The
// route for SDKs refuses them, unless the operator opened it:
// docs/wire/refly.md#executing-a-tool.
func (s *Service) executesMCP(ctx context.Context, c record.Call) bool {
	if _, ok := s.executors[toolset.MCP]; !ok {
		return false
	}
	inside, _ := ctx.Value(insideKey{}).(bool)
	return inside || c.Origin == ids.Agent || s.settings.MCP
}
