package oidc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/golang-jwt/jwt/v5"
)

// Tenant stands for people of the provider among the identities of users.
const Tenant = "oidc"

// ErrToken is the cause where an access token is not good.
var ErrToken = errors.New("the access token is not good")

// Access takes the access tokens that a provider gives out for this server.
type Access struct {
	provider *Provider
	audience string
}

// NewAccess returns an Access that has not asked the issuer yet. audience is what the
// tokens have to be for.
func NewAccess(issuer, audience string, now func() time.Time) *Access {
	return &Access{provider: New(Settings{Issuer: issuer, Now: now}), audience: audience}
}

// Claimed reports whether a token says that it is of the issuer.
func (a *Access) Claimed(token string) bool {
	var c jwt.RegisteredClaims
	_, _, err := jwt.NewParser().ParseUnverified(token, &c)
	return err == nil && c.Issuer == a.provider.settings.Issuer
}

// Granted is whom an access token is about, at its issuer, and the scopes that it names.
type Granted struct {
	Issuer, Subject string
	Scopes          []string
}

// Verify returns what a token grants. It returns ErrToken for one that is not good, and
// another error where that cannot be found out.
func (a *Access) Verify(ctx context.Context, token string) (Granted, error) {
	at, err := a.provider.discover(ctx)
	if err != nil {
		return Granted{}, err
	}
	ctx = oidc.ClientContext(ctx, a.provider.client)
	verified, err := at.VerifierContext(ctx, &oidc.Config{ClientID: a.audience, Now: a.provider.settings.Now}).Verify(ctx, token)
	if err != nil {
		return Granted{}, fmt.Errorf("%w: %w", ErrToken, err)
	}
	if verified.Subject == "" {
		return Granted{}, fmt.Errorf("%w: it has no subject", ErrToken)
	}
	var said struct {
		Scope string `json:"scope"`
	}
	if err := verified.Claims(&said); err != nil {
		return Granted{}, fmt.Errorf("%w: %w", ErrToken, err)
	}
	return Granted{Issuer: verified.Issuer, Subject: verified.Subject, Scopes: strings.Fields(said.Scope)}, nil
}
