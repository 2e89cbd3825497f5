package billing

import (
	"context"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/audit"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/money"
)

// UserLimits are the limits that one user has of their own.
type UserLimits struct {
	UID string
	Limits
	UpdatedAt time.Time
}

// Standing is where a user stands with their limits.
type Standing struct {
	Limits Limits
	// Spent is what was charged since Since, midnight UTC, and Held what calls that
	// execute will cost at least.
	Spent, Held money.Amount
	Since       time.Time
	// Plan is the lookup key of the user's subscription, or FreePlan.
	Plan string
}

// Standing says where the actor stands with their limits.
func (s *Service) Standing(ctx context.Context, a actor.Actor) (Standing, error) {
	now := s.now()
	out := Standing{Since: now.Truncate(24 * time.Hour)}
	return out, s.db.InSnapshot(ctx, func(h database.Handle) error {
		own, err := s.rows.limits(h, a.UID)
		if err != nil {
			return err
		}
		out.Limits = own.or(s.limits)
		spent, err := s.rows.spent(h, a.UID, spending{since: out.Since})
		if err != nil {
			return err
		}
		today, err := s.rows.held(h, a.UID, spending{since: out.Since})
		if err != nil {
			return err
		}
		out.Spent = spent - today // which holds of today are part of
		if out.Held, err = s.rows.held(h, a.UID, spending{}); err != nil {
			return err
		}
		out.Plan, err = s.rows.planOf(h, a.UID, now)
		return err
	})
}

// Usual are the limits of users who have none of their own.
func (s *Service) Usual() Limits { return s.limits }

// LimitsOfAll lists the limits that users have of their own, newest first. It is
// for administrators.
func (s *Service) LimitsOfAll(ctx context.Context, p httpapi.PageQuery) (httpapi.Page[UserLimits], error) {
	w, err := p.Window()
	if err != nil {
		return httpapi.Page[UserLimits]{}, err
	}
	rows, total, err := s.rows.allLimits(s.db.Read(ctx), w)
	if err != nil {
		return httpapi.Page[UserLimits]{}, err
	}
	return httpapi.MapPage(httpapi.PageOf(w, rows, total, func(r limitRow) int64 { return r.PK }), limitRow.limits), nil
}

// SetLimitsBy is SetLimits by an administrator, with an entry in the audit log.
func (s *Service) SetLimitsBy(ctx context.Context, by actor.Actor, uid string, l Limits) error {
	return s.setLimits(ctx, uid, l, func(tx database.Tx, now time.Time) error {
		detail := map[string]string{}
		for name, n := range map[string]*money.Amount{"run": l.Run, "day": l.Day, "overdraft": l.Overdraft} {
			if n != nil {
				detail[name] = n.String()
			}
		}
		return audit.Write(tx, audit.Change{By: by, Action: "limits.set", Subject: uid, Detail: detail}, now)
	})
}
