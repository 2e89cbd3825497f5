// Package install keeps which toolsets users have, and shows them what they
// have and may have.
package install

import (
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/audit"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/secretbox"
	"github.com/portico-run/portico/modules/toolset"
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
	Now   func() time.Time
}

// Module is the wired package.
type Module struct{ Service *Service }

// New wires the module and starts nothing.
func New(d Deps) *Module {
	if d.Now == nil {
		d.Now = database.Now
	}
	return &Module{Service: &Service{db: d.DB, box: d.Box, toolsets: d.Toolsets, kinds: d.Kinds, now: d.Now}}
}

// Register adds the module's operations to the API.
func (m *Module) Register(api *httpapi.API) {
	c := controller{m.Service}
	c.registerLists(api)
	c.registerChanges(api)
}

// Service installs toolsets for users and lists them.
type Service struct {
	db       *database.DB
	box      *secretbox.Box
	toolsets *toolset.Service
	kinds    toolset.Kinds
	now      func() time.Time
	rows     rows.Repository
}

// audit keeps who changed a credential.
func (s *Service) audit(tx database.Tx, a actor.Actor, action, subject string, detail map[string]string) error {
	return audit.Write(tx, audit.Change{By: a, Action: action, Subject: subject, Detail: detail}, s.now())
}
