// Package flat is the tools that programs call as plain functions, as
// search_knowledge("auth", 5), and the question to a model among them: which
// there are for a user, how they are called over HTTP, and the Python text that
// brings them into sandboxes of others.
package flat

import (
	"context"
	"log/slog"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/connector/mcp/server"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/tool"
	"github.com/portico-run/portico/modules/tool/function"
	"github.com/portico-run/portico/modules/toolset"
	"github.com/portico-run/portico/modules/toolset/mark"
)

// Catalogue finds toolsets and their tools for a caller.
type Catalogue interface {
	Identify(ctx context.Context, a actor.Actor, key string) (toolset.Toolset, error)
	Method(ctx context.Context, a actor.Actor, t toolset.Toolset, name string) (toolset.Method, toolset.Credential, error)
	Export(ctx context.Context, a actor.Actor, keys []string) ([]toolset.Definition, []toolset.Failure, error)
}

// Marks say which tools of toolsets are functions.
type Marks interface {
	All(ctx context.Context) ([]mark.Mark, error)
	Set(ctx context.Context, m mark.Mark) error
	Remove(ctx context.Context, key, tool string) error
}

// Hints are what MCP servers claim of their tools.
type Hints interface {
	// Hints reports false where nothing is known of a tool.
	Hints(ctx context.Context, a actor.Actor, key, tool string) (server.Hints, bool, error)
}

// Executor executes calls.
type Executor interface {
	Execute(ctx context.Context, a actor.Actor, req tool.Request) (record.Answer, *record.Whole, error)
}

// Settings are the administrator's.
type Settings struct {
	// Off leaves llm_query as the only function.
	Off bool
	// Port is where the server listens, for the text that others inject.
	Port string
}

// Deps is what the module needs.
type Deps struct {
	Functions *function.Registry
	Marks     Marks
	Tools     Catalogue
	Executor  Executor
	// Hints may be nil: then no server claims anything.
	Hints    Hints
	Settings Settings
	Logger   *slog.Logger
}

// Module is the wired package.
type Module struct{ Service *Service }

// New wires the module and starts nothing.
func New(d Deps) *Module { return &Module{&Service{d}} }

// Register adds the module's routes.
func (m *Module) Register(api *httpapi.API) { controller{m.Service}.register(api) }

// Service knows the plain functions of users.
type Service struct{ deps Deps }
