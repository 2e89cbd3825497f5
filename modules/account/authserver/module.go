// Package authserver lets people let apps in: a small OAuth 2.1 authorization server
// for public clients, whose tokens open this server as an MCP server and nothing else.
//
// What it does of OAuth: authorization codes with PKCE (S256 only), refresh tokens that
// are good once, client ID metadata documents, dynamic registration, revocation. It has
// no secrets of clients, no other grants, and redirects only to what a client registered.
package authserver

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/secretbox"
	"github.com/portico-run/portico/modules/account"
)

// Accounts are the users, and the keys that access tokens are.
type Accounts interface {
	UserIn(h database.Handle, uid string) (account.User, error)
	AppKey(tx database.Tx, of account.AppKey) (account.Plaintext, error)
	EndAppKeys(tx database.Tx, uid, grantID string) error
}

// Fetcher reads what is on the public internet only.
type Fetcher interface {
	Do(r *http.Request, allow []netip.Prefix) (*http.Response, error)
}

// Deps is what the module needs.
type Deps struct {
	DB       *database.DB
	Accounts Accounts
	// Box seals what apps register: the server keeps nothing of it.
	Box      *secretbox.Box
	Fetch    Fetcher
	Logger   *slog.Logger
	Settings Settings
	Now      func() time.Time
}

// Settings say where things are.
type Settings struct {
	// Endpoint is where clients reach the server.
	Endpoint string
	// Resource is the path that tokens are for.
	Resource string
	// Consent is the path of the page where people let apps in.
	Consent string
	// Issuer is another authorization server, whose tokens count in place of this
	// one's; empty for this one.
	Issuer string
}

const (
	issuerPath   = "/oauth"
	registerPath = issuerPath + "/register"
	tokenPath    = issuerPath + "/token"
	revokePath   = issuerPath + "/revoke"
	resourceMeta = "/.well-known/oauth-protected-resource"
	serverMeta   = "/.well-known/oauth-authorization-server" + issuerPath
	appsPath     = "/v1/auth/apps"
	tag          = "apps"
	// maxBody is the largest request of an app, in bytes.
	maxBody = 256 << 10
)

// Challenge is the header WWW-Authenticate of the resource.
func (s Settings) Challenge() string {
	return `Bearer resource_metadata="` + s.Endpoint + resourceMeta + s.Resource + `", scope="` + string(actor.MCP) + `"`
}

// Module is the wired package.
type Module struct {
	Service *Service
}

// New wires the module and starts nothing.
func New(d Deps) *Module {
	if d.Now == nil {
		d.Now = d.DB.Now
	}
	return &Module{Service: &Service{deps: d, documents: newDocuments(d.Fetch, d.Now)}}
}

// Register adds the module's routes.
func (m *Module) Register(api *httpapi.API) {
	c := controller{m.Service}
	httpapi.RegisterPlain(api, httpapi.Operation{
		ID: "get-mcp-resource", Method: http.MethodGet, Path: resourceMeta + m.Service.deps.Settings.Resource, Tag: tag, Access: httpapi.Public,
		Summary: "Where apps get tokens for the MCP server", Description: "Protected resource metadata, as RFC 9728 has it.",
	}, func(context.Context, actor.Actor, *struct{}) (mcpResourceBody, error) {
		return m.Service.resource(), nil
	})
	if m.Service.deps.Settings.Issuer != "" {
		return
	}
	httpapi.RegisterPlain(api, httpapi.Operation{
		ID: "get-authorization-server", Method: http.MethodGet, Path: serverMeta, Tag: tag, Access: httpapi.Public,
		Summary: "What this authorization server can do", Description: "Authorization server metadata, as RFC 8414 has it.",
	}, func(context.Context, actor.Actor, *struct{}) (authorizationServerBody, error) {
		return m.Service.server(), nil
	})
	c.registerProtocol(api)
	c.registerApps(api)
}

func (c controller) registerProtocol(api *httpapi.API) {
	op := func(id, path, summary string) httpapi.Operation {
		return httpapi.Operation{
			ID: id, Method: http.MethodPost, Path: path, Tag: tag, Access: httpapi.Public, Summary: summary, BodyLimit: maxBody, Refusal: refusal,
		}
	}
	register := op("register-app", registerPath, "Register an app")
	register.Description = "Dynamic client registration, as RFC 7591 has it. The id that an app is given holds what it registered, sealed; the server keeps nothing. Apps have no secret."
	register.Raw = httpapi.Description{
		Body: AppRegistration{Name: "Notes", Redirects: []string{"http://127.0.0.1:7100/callback"}}, Answers: []any{registeredAppBody{}},
		Statuses: map[int]string{http.StatusCreated: "The app is registered"},
	}
	api.Raw(register, c.registerApp)
	token := op("get-app-token", tokenPath, "Get tokens for an app")
	token.Description = "Takes application/x-www-form-urlencoded: grant_type authorization_code with code, redirect_uri, client_id and code_verifier, or refresh_token with refresh_token and client_id, and scope for a token that may do less. " +
		"A code and a refresh token are good once; whoever sends one again ends what the app was allowed."
	token.Raw = httpapi.Description{Encoded: appTokenForm{}, Answers: []any{appTokensBody{}}}
	api.Raw(token, c.token)
	revoke := op("revoke-app-token", revokePath, "Give a refresh token of an app back")
	revoke.Description = "As RFC 7009 has it: what the app was allowed ends. A token that there is not is no error. Takes application/x-www-form-urlencoded."
	revoke.Raw = httpapi.Description{Encoded: appRevokeForm{}, Answers: []any{httpapi.None{}}}
	api.Raw(revoke, c.revoke)
}

func (c controller) registerApps(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "read-app-request", Method: http.MethodGet, Path: appsPath + "/request", Tag: tag, Summary: "Which app wants to be let in, and where it comes from",
		Errors: []errs.Code{errs.NotFound, errs.Forbidden},
	}, c.read)
	httpapi.Register(api, httpapi.Operation{
		ID: "decide-app-request", Method: http.MethodPost, Path: appsPath + "/request", Tag: tag, Summary: "Let an app in, or refuse it",
		Description: "The answer says where the browser goes back to.", Errors: []errs.Code{errs.NotFound, errs.Forbidden, errs.Conflict},
	}, c.decide)
	httpapi.Register(api, httpapi.Operation{
		ID: "list-apps", Method: http.MethodGet, Path: appsPath, Tag: tag, Summary: "The apps that the caller let in, newest first",
	}, c.list)
	httpapi.Register(api, httpapi.Operation{
		ID: "end-app", Method: http.MethodDelete, Path: appsPath + "/{appId}", Tag: tag, Summary: "Let an app in no more", Errors: []errs.Code{errs.NotFound},
	}, c.end)
}
