// Package install keeps which toolsets users have, and shows them what they
// have and may have.
package install

import (
	"context"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/audit"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/secretbox"
	"github.com/portico-run/portico/modules/toolset"
	"github.com/portico-run/portico/modules/toolset/mark"
	"github.com/portico-run/portico/modules/toolset/rows"
)

// Deps is what the module needs.
type Deps struct {
	DB  *database.DB
	Box *secretbox.Box
	// Toolsets says what stored toolsets are.
	Toolsets *toolset.Service
	// Kinds are the kinds of toolsets that there are.
	Kinds toolset.Kinds
	// Details says of tools what other packages know.
	Details Details
	Now     func() time.Time
}

// Details is what is known of tools elsewhere.
type Details interface {
	// Lines are how programs call the tools of a toolset, each a line of Python,
	// by the names of the tools that code may call.
	Lines(set toolset.Definition) map[string]string
	// Hints are what an MCP server claims of one of its tools; nil for no claim.
	Hints(ctx context.Context, a actor.Actor, key, tool string) (readOnly, idempotent *bool, err error)
	// Health is how an MCP server does for the actor.
	Health(ctx context.Context, a actor.Actor, key string) (ServerHealth, error)
	// Marks are the tools of a toolset that programs call as plain functions.
	Marks(ctx context.Context, key string) ([]mark.Mark, error)
}

// ServerHealth is how an MCP server does for a user.
type ServerHealth struct {
	State      string `json:"state" enum:"idle,connecting,ready,auth_needed,degraded"`
	Reason     string `json:"reason,omitempty"`
	ConnectURL string `json:"connectUrl,omitempty" doc:"Where a person authorizes this server, where that is needed"`
}

// Module is the wired package.
type Module struct{ Service *Service }

// New wires the module and starts nothing.
func New(d Deps) *Module {
	if d.Now == nil {
		d.Now = d.DB.Now
	}
	return &Module{Service: &Service{db: d.DB, box: d.Box, toolsets: d.Toolsets, kinds: d.Kinds, details: d.Details, now: d.Now}}
}

// Register adds the module's operations to the API.
func (m *Module) Register(api *httpapi.API) {
	c := controller{m.Service}
	c.registerLists(api)
	c.registerChanges(api)
	c.registerOne(api)
}

// Service installs toolsets for users and lists them.
type Service struct {
	db       *database.DB
	box      *secretbox.Box
	toolsets *toolset.Service
	kinds    toolset.Kinds
	details  Details
	now      func() time.Time
	rows     rows.Repository
}

// audit keeps who changed a credential.
func (s *Service) audit(tx database.Tx, a actor.Actor, action, subject string, detail map[string]string) error {
	return audit.Write(tx, audit.Change{By: a, Action: action, Subject: subject, Detail: detail}, s.now())
}
