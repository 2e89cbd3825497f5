package oidc

import (
	"context"
	"errors"
	"fmt"
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

// Verify returns whom a token is about. It returns ErrToken for one that is not good,
// and another error where that cannot be found out.
func (a *Access) Verify(ctx context.Context, token string) (issuer, subject string, err error) {
	at, err := a.provider.discover(ctx)
	if err != nil {
		return "", "", err
	}
	ctx = oidc.ClientContext(ctx, a.provider.client)
	verified, err := at.VerifierContext(ctx, &oidc.Config{ClientID: a.audience, Now: a.provider.settings.Now}).Verify(ctx, token)
	if err != nil {
		return "", "", fmt.Errorf("%w: %w", ErrToken, err)
	}
	if verified.Subject == "" {
		return "", "", fmt.Errorf("%w: it has no subject", ErrToken)
	}
	return verified.Issuer, verified.Subject, nil
}
