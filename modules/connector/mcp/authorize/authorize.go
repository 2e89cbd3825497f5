// Package authorize presents tokens of users to MCP servers.
package authorize

import (
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"golang.org/x/oauth2"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/modules/connector/mcp/server"
	"github.com/portico-run/portico/modules/connector/oauth"
)

// Kind is MCP servers as users authorize Portico for them.
func Kind(servers Servers) oauth.Kind {
	return oauth.Kind{
		Noun: "MCP server", One: "an MCP server", Path: "/v1/mcp", Routes: "/v1/mcp/servers", Tag: "mcp", Action: "mcp", Changed: server.Changed, Targets: Targets{servers},
		Grants: "mcp_credentials", Flows: "mcp_authorizations", Column: "server_pk",
	}
}

// Servers finds the servers that users may use.
type Servers interface {
	Find(ctx context.Context, a actor.Actor, name string) (server.Server, error)
}

// Targets implements oauth.Targets.
type Targets struct{ Servers Servers }

// Find implements oauth.Targets.
func (t Targets) Find(ctx context.Context, a actor.Actor, name string) (oauth.Target, error) {
	of, err := t.Servers.Find(ctx, a, name)
	return targetOf(of), err
}

func targetOf(of server.Server) oauth.Target {
	return oauth.Target{
		ID: of.ID, Name: of.Name, OAuth: of.OAuth, URL: of.URL, Headers: of.Headers, Egress: of.Egress, Client: oauth.Registration(of.Client), Scopes: of.Scopes,
	}
}

// Grants are the tokens of users.
type Grants interface {
	Token(ctx context.Context, a actor.Actor, of oauth.Target) (string, error)
	Refused(ctx context.Context, a actor.Actor, of oauth.Target, r oauth.Refusal) error
}

// Authorizer implements hub.Authorizer.
type Authorizer struct{ Grants Grants }

// Authorizer presents the actor's tokens to a server; nil where the server wants
// none.
func (s Authorizer) Authorizer(_ context.Context, a actor.Actor, of server.Server) (auth.OAuthHandler, error) {
	if !of.OAuth {
		return nil, nil //nolint:nilnil // as the interface has it
	}
	return &handler{grants: s.Grants, who: a, target: targetOf(of)}, nil
}

// handler implements auth.OAuthHandler for one user and server.
type handler struct {
	grants Grants
	who    actor.Actor
	target oauth.Target
}

// TokenSource implements auth.OAuthHandler. It is asked before every request, with
// the context of the connection.
func (h *handler) TokenSource(ctx context.Context) (oauth2.TokenSource, error) {
	token, err := h.grants.Token(ctx, h.who, h.target)
	if err != nil {
		return nil, err
	}
	return oauth2.StaticTokenSource(&oauth2.Token{AccessToken: token, TokenType: "Bearer"}), nil
}

// Authorize implements auth.OAuthHandler for a request that was refused. It waits
// for nobody: what needs a person is the error oauth.Needed.
func (h *handler) Authorize(ctx context.Context, r *http.Request, resp *http.Response) error {
	const most = 64 << 10
	_, _ = io.CopyN(io.Discard, resp.Body, most) // so that the connection serves again
	_ = resp.Body.Close()                        // it was only read
	return h.grants.Refused(ctx, h.who, h.target, oauth.Refusal{
		Token: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), Status: resp.StatusCode, Header: resp.Header,
	})
}
