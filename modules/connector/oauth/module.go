// Package oauth has users authorize Portico at the authorization servers of MCP
// servers and of APIs, keeps their tokens, and gives them out.
//
// A flow belongs to the user who began it, with a credential of theirs. It is
// completed when the authorization server sends the browser back, if that is the
// browser that began it: it has the cookie that the answer to the beginning set.
// Another browser, such as one in which a link was opened that a command printed,
// is shown a code instead, and the flow is completed when the user sends that code
// with a credential of theirs. So nobody can have somebody else authorize for
// them: who only opens a link gives nothing away.
package oauth

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/cached"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/flight"
	"github.com/portico-run/portico/internal/lifecycle"
	"github.com/portico-run/portico/internal/secretbox"
	"github.com/portico-run/portico/internal/wake"
)

// Deps is what the module needs.
type Deps struct {
	DB     *database.DB
	Box    *secretbox.Box
	Client Client
	Kind   Kind
	// Endpoint is where browsers reach this server.
	Endpoint string
	// Wake is the hub that DB tells of its commits; nil keeps nothing in memory.
	Wake   *wake.Hub
	Logger *slog.Logger
	Now    func() time.Time
}

// Client makes HTTP requests within the rules of egress.
type Client interface {
	Do(r *http.Request, allow []netip.Prefix) (*http.Response, error)
}

// Targets finds what users may authorize this server for.
type Targets interface {
	Find(ctx context.Context, a actor.Actor, name string) (Target, error)
}

// Service authorizes this server for users.
type Service struct {
	db       *database.DB
	box      *secretbox.Box
	client   Client
	kind     Kind
	endpoint string
	logger   *slog.Logger
	now      func() time.Time
	rows     repository
	grants   *cached.Cache[key, grant]
	refresh  flight.Group[refreshing, grant]
	wait     func(ctx context.Context, d time.Duration) error
}

// key is whose tokens, and for what.
type key struct {
	uid string
	of  any // Target.ID
}

// New returns the service and starts nothing.
func New(d Deps) *Service {
	life := factsLife
	if d.Wake == nil {
		life = 0
	}
	s := &Service{
		db: d.DB, box: d.Box, client: d.Client, kind: d.Kind, endpoint: strings.TrimRight(d.Endpoint, "/"), logger: d.Logger, now: d.Now, rows: repository{d.Kind},
		grants: cached.New[key, grant](cached.Settings{Max: maxFacts, Age: life, Now: d.Now}), wait: lifecycle.Pause,
	}
	if d.Wake != nil {
		d.Wake.Follow(d.Kind.Changed, func(uid string) {
			s.grants.Drop(func(k key, _ grant) bool { return uid == "" || k.uid == uid })
		})
	}
	if s.now == nil {
		s.now = d.DB.Now
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	return s
}

const (
	factsLife    = time.Second
	maxFacts     = 5000
	callbackPath = "/oauth/callback"
	clientPath   = "/oauth/client.json"
	connectPath  = "/connect/"
)

func (s *Service) callback() string { return s.endpoint + s.kind.Path + callbackPath }

// redirectURI is where browsers come back to. A target whose issuer is not known has
// one of its own, so that the answer of another authorization server is not taken for
// its (RFC 9700, section 4.4.2.2).
func (s *Service) redirectURI(of Target) string {
	if s.kind.Fixed {
		return s.callback() + "/" + of.Name
	}
	return s.callback()
}

// Kind is what this service is for.
func (s *Service) Kind() Kind { return s.kind }

// ConnectURL is where a person begins to authorize this server for a target.
func (s *Service) ConnectURL(name string) string {
	return s.endpoint + s.kind.Path + connectPath + name
}
