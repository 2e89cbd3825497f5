// Package composio is the kinds of toolsets whose tools Composio offers: OAuth
// for an account that each user connects there, APIKey for one account with a
// key. It has the client of Composio's API, version 3.
package composio

import (
	"context"
	"log/slog"
	"time"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/lifecycle"
	"github.com/portico-run/portico/modules/billing/price"
	"github.com/portico-run/portico/modules/toolset"
)

// Deps is what the connector needs.
type Deps struct {
	DB     *database.DB
	Client *Client
	// Pricer reads price lists, Rates what Composio charges.
	Pricer *price.Pricer
	Rates  Rates
	// SharedUser is who has the accounts there that all users share.
	SharedUser string
	// Wait pauses until another caller has done what both need; nil for the
	// wall clock.
	Wait func(ctx context.Context, d time.Duration) error
	// Logger takes what callers are not told; nil discards that.
	Logger *slog.Logger
	Now    func() time.Time
}

// Rates knows what providers of many tools charge.
type Rates interface {
	// Rates returns nil where none are configured.
	Rates(ctx context.Context, provider string) (*price.Rates, error)
}

// Connector is what both kinds have in common: the tools, their prices and
// their execution.
type Connector struct {
	deps Deps
	rows repository
}

// New returns a connector and starts nothing.
func New(d Deps) *Connector {
	if d.Now == nil {
		d.Now = d.DB.Now
	}
	if d.Wait == nil {
		d.Wait = lifecycle.Pause
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	return &Connector{deps: d}
}

// Toolsets is where the toolset of a connected account is installed.
type Toolsets interface {
	// Listing is what is known of a toolset of the inventory.
	Listing(ctx context.Context, key string) (toolset.Listing, error)
	// Grant installs a toolset for a user, unless it is everybody's.
	Grant(tx database.Tx, uid string, l toolset.Listing, authType string) error
	// Revoke uninstalls a user's own toolset.
	Revoke(tx database.Tx, uid, key, authType string) error
}

// Module is the API for the accounts of users.
type Module struct{ Service *Service }

// NewModule wires the API and starts nothing.
func NewModule(c *Connector, t Toolsets) *Module {
	return &Module{Service: &Service{connector: c, toolsets: t}}
}

// Register adds the module's operations to the API.
func (m *Module) Register(api *httpapi.API) { controller{m.Service}.register(api) }

// Service connects accounts of users and ends their connections.
type Service struct {
	connector *Connector
	toolsets  Toolsets
}
