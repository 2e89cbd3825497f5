package account

import (
	"context"
	"log/slog"
	"time"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/signing"
	"github.com/portico-run/portico/internal/wake"
	"github.com/portico-run/portico/modules/account/hosttoken"
	"github.com/portico-run/portico/modules/account/login"
	"github.com/portico-run/portico/modules/account/oidc"
)

// Deps is what the module needs.
type Deps struct {
	DB        *database.DB
	TokenKeys signing.Keys  // of session tokens
	TokenLife time.Duration // of a session token
	Hosts     Hosts
	// Apps are access tokens of another authorization server; nil takes none.
	Apps   AppTokens
	Logger *slog.Logger
	Now    func() time.Time
	// Wake is the hub that DB tells of its commits. It lets the service know for
	// a second who a credential is for; nil reads that for every request.
	Wake *wake.Hub
}

// AppTokens are access tokens, for this server as an MCP server, that another
// authorization server gave out.
type AppTokens interface {
	// Claimed reports whether a token says that it is one of them.
	Claimed(token string) bool
	// Verify returns what a token grants. It returns oidc.ErrToken for one that is not
	// good.
	Verify(ctx context.Context, token string) (oidc.Granted, error)
}

// Hosts are the servers whose signed tokens are taken.
type Hosts struct {
	// Verifier verifies the tokens; nil takes none.
	Verifier *hosttoken.Verifier
	// MaxUsers is how many users their tokens may make; 0 is no limit.
	MaxUsers int
	// Plans are the lookup keys of plans by the names that the hosts have for
	// them. Nil leaves the plans of users alone; otherwise a name that is not
	// there, as none at all, is the plan of who has no subscription.
	Plans map[string]string
	// Subscriptions puts users on plans; it may be nil where Plans is.
	Subscriptions Subscriptions
}

// Subscriptions are the plans of users.
type Subscriptions interface {
	// Follow makes a plan the one that a user has by their host, within a
	// transaction; empty for none. It reports false for a plan that there is
	// not: the user has none by their host then.
	Follow(tx database.Tx, uid, lookupKey string) (known bool, err error)
}

// Module is the wired package.
type Module struct {
	Service *Service
	// Sessions are those of the users that Service knows.
	Sessions *login.Service
}

// New wires the module and starts nothing.
func New(d Deps) *Module {
	facts := newFacts(d.Wake, d.Now)
	if d.Now == nil {
		d.Now = d.DB.Now
	}
	sessions := login.New(login.Deps{DB: d.DB, Logger: d.Logger, Now: d.Now, Wake: d.Wake})
	return &Module{Sessions: sessions, Service: &Service{
		db: d.DB, sessions: sessions, tokenKeys: d.TokenKeys, tokenLife: d.TokenLife, hosts: d.Hosts, apps: d.Apps, logger: d.Logger, now: d.Now,
		temporary: &temporaryKeys{}, unknown: &unknownPlans{}, facts: facts,
	}}
}

// Register adds the module's routes.
func (m *Module) Register(api *httpapi.API) { controller{m.Service}.register(api) }
