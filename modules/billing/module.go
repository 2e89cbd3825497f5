package billing

import (
	"time"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/billing/report"
)

// Deps is what the module needs.
type Deps struct {
	DB           *database.DB
	FreeToolsets []string
	// Limits are what each user may spend who has no limits of their own.
	Limits Limits
	Now    func() time.Time
}

// Module is the wired package.
type Module struct {
	Service *Service
	// Reports add up what was charged.
	Reports *report.Service
}

// New wires the module and starts nothing.
func New(d Deps) *Module {
	if d.Now == nil {
		d.Now = d.DB.Now
	}
	return &Module{
		Service: &Service{
			db: d.DB, freeToolsets: d.FreeToolsets, limits: d.Limits, now: d.Now, remembered: &limitCache{entries: map[string]limitEntry{}},
		},
		Reports: report.New(d.DB),
	}
}

// Register adds the module's routes.
func (m *Module) Register(api *httpapi.API) { controller{m.Service, m.Reports}.register(api) }
