// Package repl keeps Python interpreters for canvases: what one piece of
// code defines, the next one finds.
package repl

import (
	"context"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/lifecycle"
	"github.com/portico-run/portico/modules/program"
	"github.com/portico-run/portico/modules/sandbox"
)

// Programs records code and gives it tools.
type Programs interface {
	Open(ctx context.Context, a actor.Actor, req program.Request) (*program.Opened, error)
}

// Sandbox runs code.
type Sandbox interface {
	Begin(ctx context.Context, job sandbox.Job) (sandbox.Execution, error)
}

// Settings are the limits of interpreters.
type Settings struct {
	// Max is how many there are at once, PerUser how many of one user; 0 is a
	// quarter of Max, rounded up. The one that was not used for longest gives way.
	Max, PerUser int
	// Idle is how long one is kept after its last use.
	Idle time.Duration
}

// share is how many interpreters one user may have.
func (s Settings) share() int {
	if s.PerUser > 0 {
		return s.PerUser
	}
	return (s.Max + 3) / 4
}

// Deps is what the module needs.
type Deps struct {
	Programs Programs
	Sandbox  Sandbox
	Settings Settings
	// Peers are the other processes of the database, which have interpreters, too; nil
	// where this one is alone.
	Peers Peers
	DB    *database.DB // needed with Peers
}

// Module is the wired package.
type Module struct{ Service *Service }

// New wires the module and starts nothing.
func New(d Deps) *Module {
	return &Module{Service: &Service{deps: d, sessions: map[place]*session{}, loans: map[string]loan{}}}
}

// Start implements lifecycle.Service: interpreters begin with their code.
func (m *Module) Start(context.Context) error { return nil }

// Stop ends every interpreter and returns when they are gone.
func (m *Module) Stop(ctx context.Context) error {
	s := m.Service
	s.mu.Lock()
	s.stopped = true
	for _, x := range s.sessions {
		x.end(errStopping)
	}
	s.mu.Unlock()
	return lifecycle.Wait(ctx, &s.work)
}
