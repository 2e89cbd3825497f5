package mcpserver

import (
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/portico-run/portico/modules/program/mcpserver/kept"
)

// MaxWaiting is how many calls of one user wait at once.
const MaxWaiting = maxWaiting

// Enter lets a call of a user wait until leave is called.
func (m *Module) Enter(uid string) (leave func(), err error) { return m.enter(uid) }

// Build makes a server object for callers of a kind.
func (m *Module) Build(k kept.Kind) *mcp.Server { return m.server(k) }
