package account

import (
	"log/slog"
	"time"

	"github.com/portico-run/portico/modules/internal/database"
	"github.com/portico-run/portico/modules/internal/httpapi"
)

// Deps is what the module needs.
type Deps struct {
	DB          *database.DB
	TokenSecret []byte        // signs session tokens
	TokenLife   time.Duration // of a session token
	Logger      *slog.Logger
	Now         func() time.Time
}

// Module is the wired package.
type Module struct{ Service *Service }

// New wires the module and starts nothing.
func New(d Deps) *Module {
	if d.Now == nil {
		d.Now = database.Now
	}
	return &Module{Service: &Service{Deps: d, temporary: &temporaryKeys{}}}
}

// Register adds the module's routes.
func (m *Module) Register(api *httpapi.API) { controller{m.Service}.register(api) }
