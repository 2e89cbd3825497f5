package account

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/signing"
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
	keys, err := s.ticketKeys()
	if err != nil {
		return "", expires, err
	}
	text, err = keys.Token(ticket{
		UID: a.UID, KeyID: a.KeyID, SessionID: a.SessionID, RunID: runID, Version: version,
		RegisteredClaims: jwt.RegisteredClaims{ExpiresAt: jwt.NewNumericDate(expires)},
	})
	if err != nil {
		return "", expires, fmt.Errorf("sign a ticket: %w", err)
	}
	return text, expires, nil
}

func (s *Service) authenticateTicket(ctx context.Context, text string) (actor.Actor, error) {
	keys, err := s.ticketKeys()
	if err != nil {
		return actor.Actor{}, err
	}
	var t ticket
	err = keys.Parse(text, &t, jwt.WithTimeFunc(s.now))
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

// ticketKeys are keys of their own, so that a ticket is never taken for the token of a
// session, nor the other way round.
func (s *Service) ticketKeys() (signing.Keys, error) { return s.tokenKeys.For("portico tickets") }
