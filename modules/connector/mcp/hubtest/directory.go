// Package hubtest has MCP servers for tests, and a directory of them.
package hubtest

import (
	"context"
	"slices"
	"sync"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/connector/mcp/server"
)

// Directory is a list of servers in memory. The zero value is empty.
type Directory struct {
	mu      sync.Mutex
	servers []server.Server
	kept    map[[2]string]server.List
}

// Put adds a server, or replaces the one of its user and name.
func (d *Directory) Put(s server.Server) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.servers = slices.DeleteFunc(d.servers, func(one server.Server) bool { return one.UID == s.UID && one.Name == s.Name })
	d.servers = append(d.servers, s)
}

// Find implements hub.Directory.
func (d *Directory) Find(_ context.Context, a actor.Actor, name string) (server.Server, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, uid := range []string{a.UID, ""} {
		for _, s := range d.servers {
			if s.UID == uid && s.Name == name {
				return s, nil
			}
		}
	}
	return server.Server{}, errs.New(errs.ToolsetMissing, "Toolset not found: "+name)
}

// All implements hub.Directory.
func (d *Directory) All(_ context.Context, a actor.Actor) ([]server.Server, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []server.Server
	for _, s := range d.servers {
		if s.UID == a.UID || s.UID == "" {
			out = append(out, s)
		}
	}
	return out, nil
}

// Last implements hub.Directory.
func (d *Directory) Last(_ context.Context, s server.Server) (server.List, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.kept[[2]string{s.UID, s.Name}], nil
}

// Keep implements hub.Directory.
func (d *Directory) Keep(_ context.Context, s server.Server, l server.List) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.kept == nil {
		d.kept = map[[2]string]server.List{}
	}
	d.kept[[2]string{s.UID, s.Name}] = l
	return nil
}
