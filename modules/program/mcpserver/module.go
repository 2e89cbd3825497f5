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
	"github.com/portico-run/portico/modules/program/mcpserver/kept"
	"github.com/portico-run/portico/modules/program/mcpserver/wire"
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
	// Now tells the time, the same in all processes; nil is this machine's clock.
	Now func() time.Time
	// Challenge tells apps where they get access tokens, in the header
	// WWW-Authenticate of AppPath; empty for nowhere.
	Challenge string
	// Self is the id of this process, where others hand requests of its sessions on to
	// it; empty for nowhere.
	Self string
	// Sessions lets clients of the older era that can ask a person begin sessions:
	// their next requests must come to the same process, or to one that knows it.
	Sessions bool
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
	// Kept is what outlives requests. Whoever starts the server starts and stops it.
	Kept *kept.Keeper

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
	if d.Settings.Now == nil {
		d.Settings.Now = time.Now
	}
	m := &Module{deps: d, schema: mcp.NewSchemaCache(), waiting: map[string]int{}}
	m.Kept = kept.New(kept.Settings{Build: m.server, Self: d.Settings.Self, MaxBody: maxBody, Logger: d.Logger})
	return m
}

// Register adds the module's routes.
func (m *Module) Register(api *httpapi.API) {
	op := httpapi.Operation{
		ID: "mcp", Method: http.MethodPost, Path: path, Tag: "mcp", Summary: "This server as an MCP server", BodyLimit: maxBody, Runs: true,
		Description: "One JSON-RPC request or notification of the Model Context Protocol, of revision 2025-11-25 or 2026-07-28. Clients of the older one that can ask the person in front of them get a session, which the header Mcp-Session-Id names; others need none. The tools are search_tools, describe_tool, run_code, run_code_readonly and resume_code.",
		Errors:      []errs.Code{errs.NotFound, errs.RateLimited, errs.Unavailable},
		Raw: httpapi.Description{
			Body: wire.Message{}, Statuses: map[int]string{http.StatusAccepted: "The notification was taken"},
			Answers: []any{wire.Reply{}}, Media: map[string]string{"text/event-stream": `{"jsonrpc":"2.0","id":"1","result":{}}`},
		},
	}
	api.Raw(op, m.serve)
	end := httpapi.Operation{
		ID: "mcp-end", Method: http.MethodDelete, Path: path, Tag: "mcp", Summary: "End a session of an MCP client", Runs: true, Errors: []errs.Code{errs.NotFound},
		Description: "What is under way in it goes on.",
		Raw:         httpapi.Description{Input: endSessionInput{}, Answers: []any{httpapi.Envelope[*httpapi.None]{Success: true}}},
	}
	api.Raw(end, m.end)
	if m.deps.Settings.Challenge == "" {
		return
	}
	op.ID, op.Path, op.Summary = "mcp-oauth", AppPath, "This server as an MCP server, for apps"
	op.Description = "As /mcp. Apps that have no credential are told, as OAuth 2.1 has it, where they get an access token."
	op.Access, op.Challenge = httpapi.Apps, m.deps.Settings.Challenge
	api.Raw(op, m.serve)
	end.ID, end.Path, end.Summary = "mcp-oauth-end", AppPath, "End a session of an app"
	end.Access, end.Challenge = op.Access, op.Challenge
	api.Raw(end, m.end)
}

// server has the tools for callers of a kind. Whose request it answers, each handler is
// told with the request. Its lists change for nobody while it lasts, so that it
// announces no changes of them.
func (m *Module) server(k kept.Kind) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "portico", Title: "Portico", Version: m.deps.Settings.Version}, &mcp.ServerOptions{
		Instructions: instructions, Logger: slog.New(slog.DiscardHandler), Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}, Resources: &mcp.ResourceCapabilities{}}, SchemaCache: m.schema,
		SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) { c.CacheScope = "private" },
	})
	mcp.AddTool(s, searchTool(), as(m, user.search))
	mcp.AddTool(s, describeTool(), as(m, user.describe))
	if k.Scope != actor.MCPRead {
		mcp.AddTool(s, runTool(false), as(m, user.run))
	}
	mcp.AddTool(s, runTool(true), as(m, user.runReading))
	mcp.AddTool(s, resumeTool(), as(m, user.resume))
	m.offer(s)
	return s
}

// user is one request's user.
type user struct {
	*Module

	who actor.Actor
	// gone is closed when the client has gone.
	gone <-chan struct{}
}

// errNobody cannot happen: every request comes with its caller.
var errNobody = errs.New(errs.Internal, "The request has no caller.")

// user is who sent the request that a handler answers. Nothing else says it: a server
// object and a session answer requests of several credentials.
func (m *Module) user(ctx context.Context, of *mcp.RequestExtra) (context.Context, user, error) {
	ctx, c, ok := kept.CallerOf(ctx, of)
	if !ok {
		return ctx, user{}, errNobody
	}
	return ctx, user{m, c.Who, c.Gone}, nil
}

// as lets a method answer calls of a tool as whoever makes them.
func as[In, Out any](m *Module, do func(user, context.Context, *mcp.CallToolRequest, In) (*mcp.CallToolResult, Out, error)) mcp.ToolHandlerFor[In, Out] {
	return func(ctx context.Context, req *mcp.CallToolRequest, in In) (*mcp.CallToolResult, Out, error) {
		ctx, u, err := m.user(ctx, req.Extra)
		if err != nil {
			var none Out
			return nil, none, err
		}
		return do(u, ctx, req, in)
	}
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
