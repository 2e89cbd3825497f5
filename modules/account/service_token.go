package account

import (
	"context"
	"errors"
	"fmt"

	"github.com/golang-jwt/jwt/v5"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/modules/account/hosttoken"
)

// claims is the payload of a session token: docs/wire/refly.md#session-tokens.
type claims struct {
	UID   string `json:"uid"`
	Email string `json:"email"`
	jwt.RegisteredClaims
}

// IssueToken makes a session token for a user.
func (s *Service) IssueToken(ctx context.Context, a actor.Actor) (string, error) {
	u, err := s.rows.user(s.db.Read(ctx), a.UID)
	if err != nil {
		return "", err
	}
	now := s.now()
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims{
		UID: u.UID, Email: u.Email,
		RegisteredClaims: jwt.RegisteredClaims{IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(s.tokenLife))},
	}).SignedString(s.tokenSecret)
	if err != nil {
		return "", fmt.Errorf("sign a session token: %w", err)
	}
	return token, nil
}

// authenticateToken tells the tokens of hosts from those of sessions. Nothing
// that one kind of key signed is ever held against the other's.
func (s *Service) authenticateToken(ctx context.Context, token string) (actor.Actor, error) {
	switch {
	case !hosttoken.Claimed(token):
		return s.authenticateSession(ctx, token)
	case s.hosts.Verifier == nil:
		return actor.Actor{}, ErrBadToken.Do("Sign in again. Where this is the signed token of a LibreChat server, the operator sets CODEAPI_JWT_PUBLIC_KEY, or a setting next to it.")
	}
	return s.authenticateHost(ctx, token)
}

// authenticateSession accepts HS256 and nothing else, whatever a token claims
// about itself, and only for users that exist.
func (s *Service) authenticateSession(ctx context.Context, token string) (actor.Actor, error) {
	var c claims
	_, err := jwt.ParseWithClaims(token, &c, func(*jwt.Token) (any, error) { return s.tokenSecret, nil },
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithExpirationRequired(), jwt.WithTimeFunc(s.now))
	if err != nil || c.UID == "" {
		return actor.Actor{}, ErrBadToken.With(err)
	}
	switch u, err := s.facts.users.Get(ctx, c.UID, func(ctx context.Context) (User, error) { return s.rows.user(s.db.Read(ctx), c.UID) }); {
	case errors.Is(err, ErrUserMissing):
		return actor.Actor{}, ErrBadToken.With(err)
	case err != nil:
		return actor.Actor{}, err
	case u.Disabled:
		return actor.Actor{}, ErrBadToken
	}
	return actor.Actor{UID: c.UID}, nil
}
