package toolset

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/lifecycle"
	"github.com/portico-run/portico/internal/secretbox"
	"github.com/portico-run/portico/modules/billing/price"
	"github.com/portico-run/portico/modules/legacy"
)

// Deps is what the module needs.
type Deps struct {
	DB  *database.DB
	Box *secretbox.Box
	// Pricer reads price lists, Rates what providers take.
	Pricer *price.Pricer
	Rates  Rates
	// Provider lists the tools of other services, Accounts are users' accounts
	// there; SharedUser is who has those that all users share.
	Provider   Provider
	Accounts   Accounts
	SharedUser string
	// Legacy are the toolsets whose client is code.
	Legacy []legacy.Toolset
	// Wait pauses until another caller has done what both need; nil for the
	// wall clock.
	Wait func(ctx context.Context, d time.Duration) error
	// Logger says why a toolset is broken; nil discards that.
	Logger *slog.Logger
	Now    func() time.Time
}

// Rates knows what providers of many tools take.
type Rates interface {
	Rates(ctx context.Context, provider string) (*price.Rates, error)
}

// Module is the wired package.
type Module struct{ Service *Service }

// New wires the module and starts nothing.
func New(d Deps) *Module {
	if d.Now == nil {
		d.Now = database.Now
	}
	if d.Wait == nil {
		d.Wait = lifecycle.Pause
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Service{Deps: d, parsed: &parsedCache{entries: map[string]parsed{}}, legacy: map[string]legacyToolset{}}
	for _, t := range d.Legacy {
		s.legacy[t.Key] = newLegacy(t)
	}
	return &Module{Service: s}
}

// Register adds the module's operations to the API.
func (m *Module) Register(api *httpapi.API) { controller{m.Service}.register(api) }

// Service identifies, lists and exports toolsets.
type Service struct {
	Deps
	rows   repository
	parsed *parsedCache
	legacy map[string]legacyToolset
}

// parsedCache keeps what was read out of inventory rows. An entry is used as
// long as the row has not changed.
type parsedCache struct {
	mu      sync.Mutex
	entries map[string]parsed
}
