package app

import (
	"cmp"
	"context"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/secretbox"
	"github.com/portico-run/portico/modules/connector/mcp"
	"github.com/portico-run/portico/modules/connector/mcp/authorize"
	"github.com/portico-run/portico/modules/connector/mcp/describe"
	"github.com/portico-run/portico/modules/connector/mcp/hub"
	mcpserver "github.com/portico-run/portico/modules/connector/mcp/server"
	"github.com/portico-run/portico/modules/connector/mcp/stdio"
	"github.com/portico-run/portico/modules/connector/oauth"
	"github.com/portico-run/portico/modules/tool"
	"github.com/portico-run/portico/modules/toolset"
)

// servers wires the MCP servers.
func (a *App) servers(box *secretbox.Box) (toolset.Servers, error) {
	c := a.Config.MCP
	a.Servers = mcpserver.New(mcpserver.Deps{
		DB: a.DB, Box: box, Taken: a.isToolset, Wake: a.Hub, Logger: a.Logger,
		Settings: mcpserver.Settings{PerUser: c.MaxServers, Egress: c.UserEgress, Refresh: c.Refresh},
	})
	directory := a.Options.Servers
	if directory == nil {
		directory = a.Servers
	}
	processes, err := stdio.New(stdio.Settings{
		Dir: c.Dir, Path: cmp.Or(a.Environ["PATH"], usualPath), Memory: c.Memory, Processes: int64(c.Processes), Files: maxServerFiles, Guest: a.sandboxConfig(),
	})
	if err != nil {
		return nil, err
	}
	a.Authorizations = a.authorizations(box, authorize.Kind(a.Servers))
	a.MCP = hub.New(hub.Deps{
		Directory: directory, Authorizer: authorize.Authorizer{Grants: a.Authorizations}, Client: a.egress, Processes: processes, Changed: mcp.Audit(a.DB, a.Logger), Logger: a.Logger,
		Settings: hub.Settings{
			Connect: c.ConnectTimeout, List: c.ListTimeout, Call: c.CallTimeout, Idle: c.Idle, Refresh: c.Refresh,
			ResponseCap: a.Config.Tool.ResponseCap, Connections: c.MaxConnections, PerUser: c.MaxPerUser,
		},
	})
	a.hints = mcp.New(a.MCP)
	a.executors[toolset.MCP] = tool.Executor(a.hints)
	return a.hints, nil
}

// authorizations wires what users authorize this server for.
func (a *App) authorizations(box *secretbox.Box, kind oauth.Kind) *oauth.Service {
	return oauth.New(oauth.Deps{DB: a.DB, Box: box, Client: a.egress, Kind: kind, Endpoint: a.Config.Server.Endpoint, Wake: a.Hub, Logger: a.Logger})
}

// MCPFiles is what files of MCP servers are brought into.
func (a *App) MCPFiles() describe.Into {
	return describe.Into{Servers: a.Servers.Operators(), Marks: a.marks}
}

// usualPath is where programs are, if the environment does not say it.
const usualPath = "/usr/local/bin:/usr/bin:/bin"

// isToolset reports whether this server offers a toolset of a key.
func (a *App) isToolset(ctx context.Context, key string) (bool, error) {
	_, err := a.Toolsets.Service.Listing(ctx, key)
	if errs.CodeOf(err) == errs.ToolsetMissing {
		return false, nil
	}
	return err == nil, err
}

// maxServerFiles bounds the open files of one process of an MCP server.
const maxServerFiles = 1024

// serverStates counts the MCP servers that were asked, by how they do.
func (a *App) serverStates() map[string]int {
	if a.MCP == nil {
		return nil
	}
	counts := map[string]int{}
	for state, n := range a.MCP.States() {
		counts[string(state)] = n
	}
	return counts
}

// measureServers adds the MCP servers to the metrics.
func (a *App) measureServers() {
	if a.MCP == nil {
		return
	}
	a.Metrics.Gauge("portico_mcp_connections", "Connections to MCP servers.", func() float64 { return float64(a.MCP.Connections()) })
	for _, state := range []mcpserver.State{mcpserver.Idle, mcpserver.Connecting, mcpserver.Ready, mcpserver.AuthNeeded, mcpserver.Degraded} {
		a.Metrics.Gauge("portico_mcp_servers_"+string(state), "MCP servers in the state "+string(state)+", counted for each user who asked.", func() float64 {
			return float64(a.MCP.States()[state])
		})
	}
}
