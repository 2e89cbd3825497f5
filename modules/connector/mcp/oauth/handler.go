package oauth

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"golang.org/x/oauth2"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/modules/connector/mcp/server"
)

// Authorizer presents the actor's tokens to a server; nil where the server wants
// none.
func (s *Service) Authorizer(_ context.Context, a actor.Actor, of server.Server) (auth.OAuthHandler, error) {
	if !of.OAuth {
		return nil, nil //nolint:nilnil // as the interface has it
	}
	return &handler{service: s, server: of, key: key{a.UID, of.ID}}, nil
}

// handler implements auth.OAuthHandler for one user and server.
type handler struct {
	service *Service
	server  server.Server
	key     key
}

// tokenTime bounds how long a request waits for a token.
const tokenTime = 15 * time.Second

// TokenSource implements auth.OAuthHandler. It is asked before every request, with
// the context of the connection, so that it has a bound of its own.
func (h *handler) TokenSource(ctx context.Context) (oauth2.TokenSource, error) {
	ctx, cancel := context.WithTimeout(ctx, tokenTime)
	defer cancel()
	g, err := h.service.fresh(ctx, h.server, h.key)
	if err != nil {
		return nil, err
	}
	if g.none() || !g.of(h.server) {
		return nil, h.needed()
	}
	return oauth2.StaticTokenSource(&oauth2.Token{AccessToken: g.Access, TokenType: "Bearer"}), nil
}

func (h *handler) needed() error {
	return server.NeedsAuthorization{URL: h.service.ConnectURL(h.server.Name)}
}

// Authorize implements auth.OAuthHandler for a request that was refused. It waits
// for nobody: what needs a person is the error server.NeedsAuthorization.
func (h *handler) Authorize(ctx context.Context, r *http.Request, resp *http.Response) error {
	const most = 64 << 10
	_, _ = io.CopyN(io.Discard, resp.Body, most) // so that the connection serves again
	_ = resp.Body.Close()                        // it was only read
	c := challengeOf(resp.Header)
	s := h.service
	g, err := s.read(ctx, h.key)
	if err != nil {
		return err
	}
	if resp.StatusCode == http.StatusForbidden {
		if c.problem != "insufficient_scope" {
			return nil // no other token would help; the caller sees the refusal
		}
		return h.want(ctx, g, c.scopes)
	}
	sent := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case g.none() || !g.of(h.server):
		return h.want(ctx, g, c.scopes)
	case sent != g.Access: // another one was stored meanwhile
		return nil
	case g.Refresh == "":
		if err := s.lose(ctx, g, h.server.Name, "the server refuses the token"); err != nil {
			return err
		}
		return h.want(ctx, g, c.scopes)
	}
	renewed, err := s.renew(ctx, h.server, h.key, g)
	if err != nil {
		return err
	}
	if renewed.none() {
		return h.needed()
	}
	return nil
}

// want notes the scopes that a server asks for, beside those that were granted,
// so that the user is asked for all of them.
func (h *handler) want(ctx context.Context, g grant, scopes []string) error {
	if len(scopes) == 0 {
		return h.needed()
	}
	wanted := strings.Join(union(union(strings.Fields(g.row.Wanted), strings.Fields(g.row.Scopes)), scopes), " ")
	if wanted == g.row.Wanted || len(wanted) > maxScopes {
		return h.needed()
	}
	row := grantRow{ServerPK: h.key.server, UID: h.key.uid, Version: g.row.Version, Wanted: wanted, UpdatedAt: h.service.now()}
	err := h.service.db.InTx(ctx, func(tx database.Tx) error { return h.service.rows.saveWanted(tx, row) })
	if err != nil {
		return err
	}
	return h.needed()
}

// maxScopes bounds the scopes that are asked for, in bytes.
const maxScopes = 4 << 10
