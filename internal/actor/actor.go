// Package actor says who is asking.
package actor

import "context"

// Scope limits what a credential may do.
type Scope string

const (
	// Full is everything its user may do.
	Full Scope = ""
	// ToolExecute is the scope of a sandbox's temporary key: executing tools
	// and nothing else.
	ToolExecute Scope = "tool:execute"
	// CodeAPI is the scope of a host's signed token: running code and its files,
	// and nothing else.
	CodeAPI Scope = "code"
	// Watch is the scope of a ticket: following the events of one version of one
	// run, and nothing else.
	Watch Scope = "watch"
	// MCP is the scope of an app's access token: this server as an MCP server, and
	// nothing else.
	MCP Scope = "mcp"
	// MCPRead is the part of MCP that changes nothing.
	MCPRead Scope = "mcp:read"
)

// Actor is an authenticated caller. Every service method that touches a
// user's data takes one and looks at nothing beyond it.
type Actor struct {
	UID   string
	KeyID string // the API key in use; empty for a session token
	// SessionID is the session in use; empty for a key, and for a token that names
	// none.
	SessionID string
	Scope     Scope
	// Rights narrow the scope Full where the key says so.
	Rights Rights
	// Model is the model of agents that the key is for; empty where it names none.
	Model string
	// Admin is whether the user is an administrator of this server.
	Admin bool
	// Worker is the machine that the caller's host chose for their code; empty
	// for every other credential.
	Worker string
	// RunID and RunVersion are the run that the scope Watch is for.
	RunID      string
	RunVersion int
}

type contextKey struct{}

// With returns a context that carries the actor from the HTTP edge to the
// controller. Services take the actor as an argument instead.
func With(ctx context.Context, a Actor) context.Context {
	return context.WithValue(ctx, contextKey{}, a)
}

// From returns the actor of a request that has been authenticated.
func From(ctx context.Context) (Actor, bool) {
	a, ok := ctx.Value(contextKey{}).(Actor)
	return a, ok
}
