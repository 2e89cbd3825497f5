package peer

import (
	"errors"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/portico-run/portico/internal/actor"
)

// tokenLife is how long a token counts. All processes go by one clock, so that
// nothing is tolerated besides.
const tokenLife = 30 * time.Second

// claims are what a token says: which process sends it to which (aud), on behalf of
// whom (sub), and what is asked.
type claims struct {
	jwt.RegisteredClaims

	KeyID string      `json:"key,omitempty"`
	Op    string      `json:"op"`
	Who   actor.Actor `json:"who"`
}

var (
	errOtherNode = errors.New("the token is for another process")
	errToken     = errors.New("the token is not valid")
)

func (s *Service) issue(to, op string, who actor.Actor) (string, error) {
	return s.keys.Token(claims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: s.deps.Self, Audience: jwt.ClaimStrings{to}, Subject: who.UID, ExpiresAt: jwt.NewNumericDate(s.deps.Now().Add(tokenLife)),
		},
		KeyID: who.KeyID, Op: op, Who: who,
	})
}

// check returns who a token was issued for. A token for another process is one that
// was sent to an address which that process had before.
func (s *Service) check(token, op string) (actor.Actor, error) {
	var c claims
	err := s.keys.Parse(token, &c, jwt.WithAudience(s.deps.Self), jwt.WithTimeFunc(s.deps.Now))
	switch {
	case errors.Is(err, jwt.ErrTokenInvalidAudience):
		return actor.Actor{}, errOtherNode
	case err != nil:
		return actor.Actor{}, errors.Join(errToken, err)
	case c.Issuer == "" || c.Op != op || c.Subject != c.Who.UID || c.KeyID != c.Who.KeyID:
		return actor.Actor{}, errToken
	}
	return c.Who, nil
}
