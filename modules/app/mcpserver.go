package app

import (
	"context"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/secretbox"
	"github.com/portico-run/portico/modules/drive"
	"github.com/portico-run/portico/modules/program/mcpserver"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/toolset/install"
)

// consoleURL is where the console is; empty where there is none.
func (a *App) consoleURL() string {
	if place := a.Config.Console.Place(); place != "" {
		return a.Config.Server.Endpoint + place
	}
	return ""
}

// mcpServer wires this server as an MCP server.
func (a *App) mcpServer(box *secretbox.Box) *mcpserver.Module {
	c := a.Config
	challenge := ""
	if a.letsAppsIn() {
		challenge = a.authSettings().Challenge()
	}
	return mcpserver.New(mcpserver.Deps{
		Programs: a.Programs.Service, Toolsets: usable{a.Installs.Service}, Approvals: a.Approvals.Service, Resources: readable{a}, Hub: a.Hub, Logger: a.Logger,
		Settings: mcpserver.Settings{Console: a.consoleURL(), Version: Version, Box: box, Challenge: challenge, Sessions: c.MCP.Sessions, Now: a.DB.Now, Self: a.known()},
	})
}

// usable implements mcpserver.Toolsets.
type usable struct{ installs *install.Service }

// Usable implements mcpserver.Toolsets.
func (u usable) Usable(ctx context.Context, a actor.Actor) ([]string, error) {
	t, err := u.installs.Tools(ctx, a)
	if err != nil {
		return nil, err
	}
	var keys []string
	seen := map[string]bool{}
	add := func(key string, enabled bool) {
		if enabled && !seen[key] {
			seen[key] = true
			keys = append(keys, key)
		}
	}
	for _, list := range [][]install.Instance{t.Regular, t.OAuth} {
		for _, i := range list {
			add(i.Key, i.Enabled)
		}
	}
	for _, i := range t.Unauthorized { // their calls say where an account is connected
		if len(i.Methods()) > 0 {
			add(i.Key, true)
		}
	}
	for _, s := range t.MCP {
		add(s.Name, s.Enabled)
	}
	return keys, nil
}

// readable implements mcpserver.Resources.
type readable struct{ app *App }

// Run implements mcpserver.Resources.
func (r readable) Run(ctx context.Context, a actor.Actor, resultID string) (run.Run, error) {
	return r.app.Runs.Service.Get(ctx, a, resultID, nil)
}

// Runs implements mcpserver.Resources.
func (r readable) Runs(ctx context.Context, a actor.Actor, p httpapi.PageQuery) (httpapi.Page[run.Run], error) {
	return r.app.Runs.Service.List(ctx, a, run.Filter{}, p)
}

// File implements mcpserver.Resources.
func (r readable) File(ctx context.Context, a actor.Actor, fileID string, limit int64) (drive.File, []byte, error) {
	return r.app.Drive.Service.Read(ctx, a, fileID, limit)
}

// NewCanvas implements mcpserver.Resources.
func (r readable) NewCanvas(ctx context.Context, a actor.Actor) (string, error) {
	c, err := r.app.Runs.Service.CreateCanvas(ctx, a, "MCP")
	return c.CanvasID, err
}
