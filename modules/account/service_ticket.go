package account

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
)

// TicketLife is how long a ticket lets its holder connect, any number of times. A
// stream that was begun meanwhile goes on.
const TicketLife = time.Minute

// ErrBadTicket is the answer to every ticket that is not good.
var ErrBadTicket = errs.New(errs.Unauthorized, "Invalid or expired ticket").Do("Get another one with POST /v1/action/{resultId}/ticket, and resume after the last event.")

// ticket is what a ticket says: who may watch which run, and by which credential.
type ticket struct {
	UID       string `json:"uid"`
	KeyID     string `json:"kid,omitempty"`
	SessionID string `json:"sid,omitempty"`
	RunID     string `json:"run"`
	Version   int    `json:"ver"`
	jwt.RegisteredClaims
}

// Ticket makes a ticket for the events of one version of one run, which the caller
// has found to be the actor's. It counts while the actor's credential does.
func (s *Service) Ticket(a actor.Actor, runID string, version int) (text string, expires time.Time, err error) {
	expires = s.now().Add(TicketLife)
	key, err := s.ticketKey()
	if err != nil {
		return "", expires, err
	}
	text, err = jwt.NewWithClaims(jwt.SigningMethodHS256, ticket{
		UID: a.UID, KeyID: a.KeyID, SessionID: a.SessionID, RunID: runID, Version: version,
		RegisteredClaims: jwt.RegisteredClaims{ExpiresAt: jwt.NewNumericDate(expires)},
	}).SignedString(key)
	if err != nil {
		return "", expires, fmt.Errorf("sign a ticket: %w", err)
	}
	return text, expires, nil
}

func (s *Service) authenticateTicket(ctx context.Context, text string) (actor.Actor, error) {
	key, err := s.ticketKey()
	if err != nil {
		return actor.Actor{}, err
	}
	var t ticket
	_, err = jwt.ParseWithClaims(text, &t, func(*jwt.Token) (any, error) { return key, nil },
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithExpirationRequired(), jwt.WithTimeFunc(s.now))
	if err != nil || t.UID == "" || t.RunID == "" {
		return actor.Actor{}, ErrBadTicket.With(err)
	}
	who := actor.Actor{UID: t.UID, KeyID: t.KeyID, SessionID: t.SessionID, Scope: actor.Watch, RunID: t.RunID, RunVersion: t.Version}
	if err := s.Still(ctx, who); errors.Is(err, ErrBadKey) || errors.Is(err, ErrBadToken) {
		return actor.Actor{}, ErrBadTicket.With(err)
	} else if err != nil {
		return actor.Actor{}, err
	}
	return who, nil
}

// ticketKey is a key of its own, so that a ticket is never taken for the token of a
// session, nor the other way round.
func (s *Service) ticketKey() ([]byte, error) {
	return hkdf.Key(sha256.New, s.tokenSecret, nil, "portico tickets", sha256.Size)
}
