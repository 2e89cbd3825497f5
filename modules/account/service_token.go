package account

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/modules/account/hosttoken"
	"github.com/portico-run/portico/modules/account/login"
)

// claims is the payload of a session token: docs/wire/refly.md#session-tokens.
type claims struct {
	UID   string `json:"uid"`
	Email string `json:"email"`
	// SessionID names the session without which the token does not count; empty
	// for tokens that belong to none.
	SessionID string `json:"sid,omitempty"`
	jwt.RegisteredClaims
}

// IssueToken makes a session token for a user.
func (s *Service) IssueToken(ctx context.Context, a actor.Actor) (string, error) {
	u, err := s.rows.user(s.db.Read(ctx), a.UID)
	if err != nil {
		return "", err
	}
	return s.sign(claims{UID: u.UID, Email: u.Email}, s.now().Add(s.tokenLife))
}

// SessionToken makes the token of a session of a user's. It counts while the
// session does.
func (s *Service) SessionToken(u User, of login.Session) (string, error) {
	return s.sign(claims{UID: u.UID, Email: u.Email, SessionID: of.ID}, of.ExpiresAt)
}

// TokenLife is how long tokens of sessions, and the sessions, last.
func (s *Service) TokenLife() time.Duration { return s.tokenLife }

func (s *Service) sign(c claims, until time.Time) (string, error) {
	c.RegisteredClaims = jwt.RegisteredClaims{IssuedAt: jwt.NewNumericDate(s.now()), ExpiresAt: jwt.NewNumericDate(until)}
	token, err := s.tokenKeys.Token(c)
	if err != nil {
		return "", fmt.Errorf("sign a session token: %w", err)
	}
	return token, nil
}

// authenticateToken tells the tokens of hosts from those of sessions. Nothing
// that one kind of key signed is ever held against the other's.
func (s *Service) authenticateToken(ctx context.Context, token string) (actor.Actor, error) {
	switch {
	case s.apps != nil && s.apps.Claimed(token):
		return s.authenticateApp(ctx, token)
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
	err := s.tokenKeys.Parse(token, &c, jwt.WithTimeFunc(s.now))
	if err != nil || c.UID == "" {
		return actor.Actor{}, ErrBadToken.With(err)
	}
	u, err := s.enabled(ctx, c.UID)
	if err != nil {
		return actor.Actor{}, err
	}
	if c.SessionID == "" {
		return actor.Actor{UID: c.UID, Admin: u.Admin}, nil
	}
	of, err := s.sessions.Live(ctx, c.UID, c.SessionID)
	if errors.Is(err, login.ErrMissing) {
		return actor.Actor{}, ErrBadToken.With(err)
	}
	if err != nil {
		return actor.Actor{}, err
	}
	// What goes by keys, such as rules and rates, goes for sessions of a key, too.
	return actor.Actor{UID: c.UID, KeyID: of.KeyID, SessionID: of.ID, Rights: of.Rights, Admin: u.Admin && of.Rights == 0}, nil
}
