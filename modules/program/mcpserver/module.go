// Package mcpserver offers programs with tools over the Model Context Protocol
// (MCP): any agent that speaks it finds the tools of its user and runs Python that
// calls them. Intermediate results stay in the program.
package mcpserver

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/secretbox"
	"github.com/portico-run/portico/internal/wake"
	"github.com/portico-run/portico/modules/catalogue"
	"github.com/portico-run/portico/modules/drive"
	"github.com/portico-run/portico/modules/program"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/tool/approval"
)

// Programs runs programs and knows what they can call.
type Programs interface {
	Start(ctx context.Context, a actor.Actor, req program.Request) (program.Started, error)
	State(ctx context.Context, a actor.Actor, callID string, calls bool) (program.State, error)
	Abort(r run.Ref) bool
	Describe(ctx context.Context, a actor.Actor, keys []string) (*catalogue.Catalogue, []string, error)
}

// Toolsets knows what users have.
type Toolsets interface {
	// Usable lists the keys of the toolsets and MCP servers that a user may use.
	Usable(ctx context.Context, a actor.Actor) ([]string, error)
}

// Approvals settles calls that wait for a person.
type Approvals interface {
	Get(ctx context.Context, a actor.Actor, callID string) (approval.Approval, error)
	Decide(ctx context.Context, a actor.Actor, r approval.Ruling) (approval.Approval, error)
}

// Resources are what users can read, and where programs leave files.
type Resources interface {
	Run(ctx context.Context, a actor.Actor, resultID string) (run.Run, error)
	Runs(ctx context.Context, a actor.Actor, p httpapi.PageQuery) (httpapi.Page[run.Run], error)
	// File returns a file whole; drive.ErrTooLarge when it has more than limit bytes.
	File(ctx context.Context, a actor.Actor, fileID string, limit int64) (drive.File, []byte, error)
	NewCanvas(ctx context.Context, a actor.Actor) (canvasID string, err error)
}

// Settings say how the server is seen.
type Settings struct {
	// Console is where people decide about calls that wait; empty for nowhere.
	Console string
	Version string
	// Wait is how long run_code waits for a program before it gives a handle; 0 is
	// what clients with a limit of 60 seconds bear.
	Wait time.Duration
	// Box seals what clients keep between a question and its answer.
	Box *secretbox.Box
	// Challenge tells apps where they get access tokens, in the header
	// WWW-Authenticate of AppPath; empty for nowhere.
	Challenge string
}

// Deps is what the module needs.
type Deps struct {
	Programs  Programs
	Toolsets  Toolsets
	Approvals Approvals
	Resources Resources
	// Hub tells of what happens in runs.
	Hub      *wake.Hub
	Logger   *slog.Logger
	Settings Settings
}

// AppPath is where apps with access tokens find the server. Keys have an address of
// their own: clients that find a way to get tokens send no keys.
const AppPath = path + "/oauth"

const (
	path = "/mcp"
	// usualWait is below the minute after which desktop clients give a call up.
	usualWait = 50 * time.Second
	// maxBody is the largest request, in bytes: the longest program, escaped.
	maxBody = 4 << 20
)

// Module is the wired package.
type Module struct {
	deps   Deps
	schema *mcp.SchemaCache

	mu      sync.Mutex
	waiting map[string]int // calls that wait for programs, by user
}

// New wires the module and starts nothing.
func New(d Deps) *Module {
	if d.Settings.Wait == 0 {
		d.Settings.Wait = usualWait
	}
	return &Module{deps: d, schema: mcp.NewSchemaCache(), waiting: map[string]int{}}
}

// Register adds the module's routes.
func (m *Module) Register(api *httpapi.API) {
	op := httpapi.Operation{
		ID: "mcp", Method: http.MethodPost, Path: path, Tag: "mcp", Summary: "This server as an MCP server", BodyLimit: maxBody, Runs: true,
		Description: "One JSON-RPC request or notification of the Model Context Protocol, of revision 2025-11-25 or 2026-07-28, without sessions. The tools are search_tools, describe_tool, run_code, run_code_readonly and resume_code.",
		Errors:      []errs.Code{errs.RateLimited, errs.Unavailable},
		Raw: httpapi.Description{
			Body: message{}, Statuses: map[int]string{http.StatusAccepted: "The notification was taken"},
			Answers: []any{reply{}}, Media: map[string]string{"text/event-stream": `{"jsonrpc":"2.0","id":"1","result":{}}`},
		},
	}
	api.Raw(op, m.serve)
	if m.deps.Settings.Challenge == "" {
		return
	}
	op.ID, op.Path, op.Summary = "mcp-oauth", AppPath, "This server as an MCP server, for apps"
	op.Description = "As /mcp. Apps that have no credential are told, as OAuth 2.1 has it, where they get an access token."
	op.Access, op.Challenge = httpapi.Apps, m.deps.Settings.Challenge
	api.Raw(op, m.serve)
}

// server has the tools for one request's user.
func (m *Module) server(u user) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "portico", Title: "Portico", Version: m.deps.Settings.Version}, &mcp.ServerOptions{
		Instructions: instructions, Logger: slog.New(slog.DiscardHandler), Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}, Resources: &mcp.ResourceCapabilities{}}, SchemaCache: m.schema,
		SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) { c.CacheScope = "private" },
	})
	mcp.AddTool(s, searchTool(), u.search)
	mcp.AddTool(s, describeTool(), u.describe)
	mcp.AddTool(s, runTool(false), u.run)
	mcp.AddTool(s, runTool(true), u.runReading)
	mcp.AddTool(s, resumeTool(), u.resume)
	u.offer(s)
	return s
}

// user is one request's user.
type user struct {
	*Module

	who actor.Actor
	// gone is closed when the client has gone. Requests of the older era are not
	// cancelled with their connection, since other servers let them come back to it.
	gone <-chan struct{}
}

// maxWaiting is how many calls of one user wait for programs at once.
const maxWaiting = 64

var errTooMany = errs.New(errs.RateLimited, "Too many of your calls wait for programs.").Do("Let some of them end first.").After(time.Second)

// enter lets a call of a user wait until leave is called.
func (m *Module) enter(uid string) (leave func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waiting[uid] >= maxWaiting {
		return nil, errTooMany
	}
	m.waiting[uid]++
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.waiting[uid]--; m.waiting[uid] == 0 {
			delete(m.waiting, uid)
		}
	}, nil
}

// everything is a right that no key with scopes has.
const everything actor.Rights = 0

// may refuses what other routes refuse a key with scopes. Every key that gets here may
// run programs.
func (u user) may(right actor.Rights) error {
	if u.who.Rights == 0 || u.who.Rights&right != 0 {
		return nil
	}
	return errs.Newf(errs.Forbidden, "This key has the scopes %s only.", u.who.Rights).Do("Use a key without scopes: it may do everything.")
}
