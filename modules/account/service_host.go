package account

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/audit"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/account/hosttoken"
)

// authenticateHost says which user a host's token is for. The first token of a
// person makes their user.
func (s *Service) authenticateHost(ctx context.Context, token string) (actor.Actor, error) {
	c, err := s.hosts.Verifier.Verify(token)
	switch {
	case errors.Is(err, hosttoken.ErrNoKeys):
		return actor.Actor{}, errs.New(errs.Unavailable, "The server cannot read the keys of signed tokens.").Do("Its log has the reason. Try again later.").With(err)
	case err != nil:
		s.logger.WarnContext(ctx, "a host's token was refused", "reason", err)
		return actor.Actor{}, ErrBadHostToken
	}
	who := Identity{c.Issuer, c.Tenant, c.Subject}
	k, err := s.facts.people.Get(ctx, who, func(ctx context.Context) (known, error) { return s.rows.identity(s.db.Read(ctx), who) })
	if errors.Is(err, database.ErrNotFound) {
		k, err = s.meet(ctx, who)
	}
	if err != nil {
		return actor.Actor{}, err
	}
	if k.DisabledAt != nil {
		s.logger.WarnContext(ctx, "a host's token was refused", "reason", "its user is disabled", "user", k.Row.UID)
		return actor.Actor{}, ErrBadHostToken
	}
	if err := s.follow(ctx, k.Row, c); err != nil {
		return actor.Actor{}, err
	}
	return actor.Actor{UID: k.Row.UID, Scope: actor.CodeAPI, Worker: c.Worker}, nil
}

// meet makes the user of a person who comes for the first time. Any number of
// requests and processes may do so at once: one of them makes it.
func (s *Service) meet(ctx context.Context, who Identity) (known, error) {
	err := s.db.InTx(ctx, func(tx database.Tx) error {
		if s.hosts.MaxUsers > 0 {
			if n, err := s.rows.countIdentities(tx); err != nil {
				return err
			} else if n >= int64(s.hosts.MaxUsers) {
				return ErrManyUsers
			}
		}
		u, err := s.insertUser(tx, who.name(), "")
		if err != nil {
			return err
		}
		now := s.now()
		row := identityRow{
			Issuer: who.Issuer, Tenant: who.Tenant, Subject: who.Subject, UID: u.UID, PlanAt: time.Unix(0, 0).UTC(), CreatedAt: now,
		}
		row.LastSeenAt = row.PlanAt // whoever follows the token notes that it was seen
		if err := s.rows.insertIdentity(tx, row); err != nil {
			return err
		}
		return audit.Write(tx, audit.Change{By: actor.Actor{UID: u.UID}, Action: "user.create", Subject: u.UID, Detail: map[string]string{"issuer": who.Issuer, "tenant": who.Tenant, "subject": who.Subject}}, now)
	})
	if err != nil && !database.IsDuplicate(err) && !errors.Is(err, ErrManyUsers) {
		return known{}, err
	}
	// Another request may have been faster, also where there was room for one.
	k, missing := s.rows.identity(s.db.Read(ctx), who)
	if err != nil && errors.Is(missing, database.ErrNotFound) {
		return known{}, err
	}
	return k, missing
}

// nameShown is how much of a subject the name of its user begins with.
const nameShown = 24

// name is what a person's user is called: the subject, as far as names may have
// its characters, and a digest that nobody else has.
func (i Identity) name() string {
	shown := strings.Map(func(r rune) rune {
		if nameForm.MatchString(string(r)) {
			return r
		}
		return '_'
	}, i.Subject)
	sum := sha256.Sum256([]byte(i.Issuer + "\x00" + i.Tenant + "\x00" + i.Subject))
	return shown[:min(len(shown), nameShown)] + "-" + hex.EncodeToString(sum[:8])
}

// follow notes that a person was seen, at most once a minute, and puts them on
// the plan that their token asks for. A token that was issued before the one
// that said so last changes nothing: hosts send a token for a while after they
// made another.
func (s *Service) follow(ctx context.Context, row identityRow, c hosttoken.Claims) error {
	plan, now := s.planOf(ctx, c.Plan), s.now()
	changes := s.hosts.Plans != nil && plan != row.Plan && !c.IssuedAt.Before(row.PlanAt)
	if !changes && now.Sub(row.LastSeenAt) < touchEvery {
		return nil
	}
	err := s.db.InTx(ctx, func(tx database.Tx) error {
		if err := s.rows.seen(tx, row.UID, now); err != nil || s.hosts.Plans == nil {
			return err
		}
		newest, err := s.rows.plan(tx, row.UID, plan, c.IssuedAt)
		if err != nil || !newest {
			return err
		}
		exists, err := s.hosts.Subscriptions.Follow(tx, row.UID, plan)
		if err == nil && !exists && s.unknown.first("plan "+plan) {
			s.logger.WarnContext(ctx, "CODEAPI_PLANS names a plan that there is not; its users have the free plan. See: portico credit plan", "plan", plan)
		}
		return err
	})
	if err != nil && !changes { // knowing when somebody was seen is worth no failed request
		s.logger.WarnContext(ctx, "it was not noted that a person of a host was seen", "user", row.UID, "error", err)
		return nil
	}
	return err
}

// planOf is the lookup key of the plan that a host calls by a name.
func (s *Service) planOf(ctx context.Context, name string) string {
	if s.hosts.Plans == nil || name == "" {
		return ""
	}
	plan, known := s.hosts.Plans[name]
	if !known && s.unknown.first("name "+name) {
		s.logger.WarnContext(ctx, "a host's token has a plan_id that CODEAPI_PLANS does not name; its users have the free plan", "planId", name)
	}
	return plan
}

// unknownPlans remembers which plans were missed, so that the log has each once.
type unknownPlans struct {
	mu   sync.Mutex
	seen map[string]bool
}

// maxUnknown is how many plans are remembered; more are not logged.
const maxUnknown = 100

func (u *unknownPlans) first(what string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.seen[what] || len(u.seen) == maxUnknown {
		return false
	}
	if u.seen == nil {
		u.seen = map[string]bool{}
	}
	u.seen[what] = true
	return true
}
