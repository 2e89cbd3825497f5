package toolset

import (
	"log/slog"
	"time"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/secretbox"
	"github.com/portico-run/portico/internal/wake"
	"github.com/portico-run/portico/modules/toolset/rows"
)

// Deps is what the module needs.
type Deps struct {
	DB  *database.DB
	Box *secretbox.Box
	// Kinds are the kinds of toolsets that there are.
	Kinds Kinds
	// Servers are the MCP servers; nil where none is executed here.
	Servers Servers
	// ExportServers exports their tools for SDKs, too.
	ExportServers bool
	// Logger says why a toolset is broken; nil discards that.
	Logger *slog.Logger
	Now    func() time.Time
	// Wake is the hub that DB tells of its commits. It lets the service know for
	// a second what keys mean; nil reads that for every call.
	Wake *wake.Hub
}

// Module is the wired package.
type Module struct{ Service *Service }

// New wires the module and starts nothing.
func New(d Deps) *Module {
	facts := newFacts(d.Wake, d.Now)
	if d.Now == nil {
		d.Now = d.DB.Now
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	return &Module{Service: &Service{db: d.DB, box: d.Box, kinds: d.Kinds, servers: d.Servers, exportServers: d.ExportServers, logger: d.Logger, now: d.Now, facts: facts}}
}

// Register adds the module's operations to the API.
func (m *Module) Register(api *httpapi.API) { controller{m.Service}.register(api) }

// Service identifies and exports toolsets.
type Service struct {
	db            *database.DB
	box           *secretbox.Box
	kinds         Kinds
	servers       Servers
	exportServers bool
	logger        *slog.Logger
	now           func() time.Time
	rows          rows.Repository
	facts         facts
}
