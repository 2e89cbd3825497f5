// Package signin lets people in: it turns a key, a one-time link, a password or the
// word of an identity provider into a session, and ends sessions.
package signin

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/account"
	"github.com/portico-run/portico/modules/account/oidc"
	"github.com/portico-run/portico/modules/account/password"
)

// Runs says whose a run is.
type Runs interface {
	// Version returns the version that is meant, which is the newest for nil, or an
	// error where there is no such run of the actor's.
	Version(ctx context.Context, a actor.Actor, runID string, version *int) (int, error)
}

// Deps is what the module needs.
type Deps struct {
	DB       *database.DB
	Accounts *account.Module
	Runs     Runs
	Settings Settings
	Logger   *slog.Logger
	Now      func() time.Time
}

// Settings say how people sign in.
type Settings struct {
	// Endpoint is where people reach the server; it begins links.
	Endpoint string
	// Console is the path of the console, which links lead to; empty where there is none.
	Console string
	SignUp  SignUp
	// OIDC is a provider that people sign in with; without an issuer, there is none.
	OIDC oidc.Settings
	// LinkEmail lets a person of the provider be the user who has their verified
	// e-mail address.
	LinkEmail bool
}

// Module is the wired package.
type Module struct {
	Service *Service

	runs Runs
}

// New wires the module and starts nothing.
func New(d Deps) *Module {
	if d.Now == nil {
		d.Now = d.DB.Now
	}
	var provider *oidc.Provider
	if o := d.Settings.OIDC; o.Issuer != "" {
		o.Redirect, o.Now = d.Settings.Endpoint+callbackPath, d.Now
		provider = oidc.New(o)
	}
	return &Module{runs: d.Runs, Service: &Service{
		provider: provider, logger: d.Logger,
		db: d.DB, accounts: d.Accounts.Service, sessions: d.Accounts.Sessions, settings: d.Settings, now: d.Now, attempts: newAttempts(d.Now), hasher: password.New(),
	}}
}

// maxBody is the largest request of a Raw operation, which are short.
const maxBody = 256 << 10

const tag, sessionPath = "accounts", "/v1/auth/session"

// Register adds the module's routes.
func (m *Module) Register(api *httpapi.API) {
	c := controller{m.Service, m.runs}
	api.Raw(httpapi.Operation{
		ID: "sign-in", Method: http.MethodPost, Path: sessionPath, Tag: tag, Access: httpapi.Public, SignsIn: true, Summary: "Sign in, in a browser",
		Description: "Takes one of apiKey, code (of a link that `portico console` prints), and email with password. The answer sets the cookie " + httpapi.AccessCookie +
			", which counts until the session ends. A session that was begun with a key may do what the key may, and ends with it.",
		Errors: []errs.Code{errs.Unauthorized, errs.Forbidden, errs.RateLimited}, BodyLimit: maxBody,
		Raw: httpapi.Description{
			Body:    proofBody{Code: "K7QF2XV5N3ZJ4T6WYB2DHMPRSA"},
			Answers: []any{httpapi.Envelope[meBody]{}},
		},
	}, c.signIn)
	api.Raw(httpapi.Operation{
		ID: "sign-out", Method: http.MethodDelete, Path: sessionPath, Tag: tag, Access: httpapi.Public, SignsIn: true, Summary: "Sign out, in a browser",
		Description: "Ends the session of the cookie and takes the cookie back. Streams of the session end within five seconds.",
		Errors:      []errs.Code{errs.Forbidden},
		Raw:         httpapi.Description{Answers: []any{httpapi.Envelope[*httpapi.None]{}}},
	}, c.signOut)
	httpapi.Register(api, httpapi.Operation{ID: "get-me", Method: http.MethodGet, Path: "/v1/auth/me", Tag: tag, Summary: "Who the caller is"}, c.me)
	httpapi.Register(api, httpapi.Operation{
		ID: "list-sessions", Method: http.MethodGet, Path: sessionPath + "s", Tag: tag, Summary: "The caller's sessions that have not ended, newest first",
	}, c.list)
	httpapi.Register(api, httpapi.Operation{
		ID: "end-session", Method: http.MethodDelete, Path: sessionPath + "s/{sessionId}", Tag: tag, Summary: "End a session of the caller's", Errors: []errs.Code{errs.NotFound},
	}, c.end)
	api.Raw(httpapi.Operation{
		ID: "change-password", Method: http.MethodPost, Path: "/v1/auth/password", Tag: tag, Summary: "Change the caller's password",
		Description: "Ends the caller's other sessions. Needs the old password, if there is one.",
		Errors:      []errs.Code{errs.Forbidden, errs.RateLimited}, BodyLimit: maxBody,
		Raw: httpapi.Description{Body: passwordBody{Old: "correct horse", Password: "battery staple"}, Answers: []any{httpapi.Envelope[*httpapi.None]{}}},
	}, c.changePassword)
	api.Raw(httpapi.Operation{
		ID: "sign-up", Method: http.MethodPost, Path: "/v1/auth/signup", Tag: tag, Access: httpapi.Public, SignsIn: true, Summary: "Make a user of one's own, and sign in",
		Description: "Where the setting SIGNUP allows it: with an invitation, or for everybody. The answer sets the cookie " + httpapi.AccessCookie + ".",
		Errors:      []errs.Code{errs.Forbidden, errs.Conflict, errs.RateLimited}, BodyLimit: maxBody,
		Raw: httpapi.Description{
			Body: newcomerBody{Name: "anna", Email: "anna@example.com", Password: "correct horse", Invite: "K7QF2XV5N3ZJ4T6WYB2DHMPRSA"}, Answers: []any{httpapi.Envelope[meBody]{}},
		},
	}, c.signUp)
	httpapi.Register(api, httpapi.Operation{
		ID: "list-ways-to-sign-in", Method: http.MethodGet, Path: "/v1/auth/ways", Tag: tag, Access: httpapi.Public, Summary: "How people sign in at this server",
	}, c.ways)
	m.registerOIDC(api, c)
	httpapi.Register(api, httpapi.Operation{
		ID: "create-invite", Method: http.MethodPost, Path: "/v1/admin/invites", Tag: "admin", Access: httpapi.Admin, Summary: "Make a link with which one person signs up",
		Errors: []errs.Code{errs.Conflict},
	}, c.invite)
	httpapi.Register(api, httpapi.Operation{
		ID: "create-action-ticket", Method: http.MethodPost, Path: "/v1/action/{resultId}/ticket", Tag: "action", Reads: true,
		Summary: "Make a ticket with which a page may watch a run",
		Description: "For an EventSource on another origin, which sends neither headers nor a cookie: it connects to /v1/action/{resultId}/events with the query parameter " +
			"ticket. A ticket is for one version of one run. It connects any number of times within a minute; after that, get another one and resume with lastEventId. " +
			"A stream goes on until the credential ends that the ticket was made with.",
		Errors: []errs.Code{errs.ResultMissing},
	}, c.ticket)
}
