package account

import (
	"context"
	"errors"
	"slices"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/account/oidc"
)

var (
	errBadAppToken = errs.New(errs.Unauthorized, "The access token is not valid.").Do("Get one for this server's resource: the header WWW-Authenticate says where.")
	errNoPerson    = errs.New(errs.Unauthorized, "No user of this server is the one of the access token.").Do("Sign in once at the console, with the same provider.")
)

// authenticateApp says which user an app's access token of another authorization server
// is for: the one who signs in with it.
func (s *Service) authenticateApp(ctx context.Context, token string) (actor.Actor, error) {
	granted, err := s.apps.Verify(ctx, token)
	if errors.Is(err, oidc.ErrToken) {
		s.logger.WarnContext(ctx, "an app's token was refused", "reason", err)
		return actor.Actor{}, errBadAppToken
	}
	if err != nil {
		return actor.Actor{}, errs.New(errs.Unavailable, "The server cannot read the keys of access tokens.").Do("Its log has the reason. Try again later.").With(err)
	}
	who := Identity{Issuer: granted.Issuer, Tenant: oidc.Tenant, Subject: granted.Subject}
	k, err := s.facts.people.Get(ctx, who, func(ctx context.Context) (known, error) { return s.rows.identity(s.db.Read(ctx), who) })
	if errors.Is(err, database.ErrNotFound) || err == nil && k.DisabledAt != nil {
		return actor.Actor{}, errNoPerson
	}
	return actor.Actor{UID: k.Row.UID, Scope: scopeOf(granted.Scopes)}, err
}

// scopeOf is what a token of another authorization server may: everything that this
// server is as an MCP server, unless it names the narrower scope and not the other one.
// That server may know neither.
func scopeOf(named []string) actor.Scope {
	if slices.Contains(named, string(actor.MCPRead)) && !slices.Contains(named, string(actor.MCP)) {
		return actor.MCPRead
	}
	return actor.MCP
}
