package oauth

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
)

// tokenTime bounds how long a request waits for a token.
const tokenTime = 15 * time.Second

// Token is the actor's token for a target, refreshed if it is about to end. The error
// is Needed where a person has to authorize this server first.
func (s *Service) Token(ctx context.Context, a actor.Actor, of Target) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, tokenTime)
	defer cancel()
	g, err := s.fresh(ctx, of, key{a.UID, of.ID})
	if err != nil {
		return "", err
	}
	if g.none() || !g.of(of) {
		return "", s.needed(of)
	}
	return g.Access, nil
}

// Refusal is the answer of a target that does not take a token.
type Refusal struct {
	Token  string // that was sent
	Status int    // of HTTP
	Header http.Header
}

// Refused does what can be done about a refusal without a person. Nil says that the
// request may be sent again with another token, or that no token would help; the
// error is Needed where a person has to authorize this server, for more perhaps.
func (s *Service) Refused(ctx context.Context, a actor.Actor, of Target, r Refusal) error {
	c, k := challengeOf(r.Header), key{a.UID, of.ID}
	g, err := s.read(ctx, k)
	if err != nil {
		return err
	}
	if r.Status == http.StatusForbidden {
		if c.problem != "insufficient_scope" {
			return nil // no other token would help; the caller sees the refusal
		}
		return s.want(ctx, of, k, g, c.scopes)
	}
	switch {
	case g.none() || !g.of(of):
		return s.want(ctx, of, k, g, c.scopes)
	case r.Token != g.Access: // another one was stored meanwhile, of which this process may not have been told
		s.grants.Drop(func(of key, _ grant) bool { return of == k })
		return nil
	case g.Refresh == "":
		if err := s.lose(ctx, g, of.Name, "the token is refused"); err != nil {
			return err
		}
		return s.want(ctx, of, k, g, c.scopes)
	}
	renewed, err := s.renew(ctx, of, k, g)
	if err != nil {
		return err
	}
	if renewed.none() {
		return s.needed(of)
	}
	return nil
}

func (s *Service) needed(of Target) error { return Needed{URL: s.ConnectURL(of.Name)} }

// want notes the scopes that a target asks for, beside those that were granted, so
// that the user is asked for all of them.
func (s *Service) want(ctx context.Context, of Target, k key, g grant, scopes []string) error {
	if len(scopes) == 0 {
		return s.needed(of)
	}
	wanted := strings.Join(union(union(strings.Fields(g.row.Wanted), strings.Fields(g.row.Scopes)), scopes), " ")
	if wanted == g.row.Wanted || len(wanted) > maxScopes {
		return s.needed(of)
	}
	row := grantRow{UID: k.uid, Version: g.row.Version, Wanted: wanted, UpdatedAt: s.now()}
	err := s.db.InTx(ctx, func(tx database.Tx) error { return s.rows.saveWanted(tx, of.ID, row) })
	if err != nil {
		return err
	}
	return s.needed(of)
}

// maxScopes bounds the scopes that are asked for, in bytes.
const maxScopes = 4 << 10
