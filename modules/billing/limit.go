package billing

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/money"
)

// Limits are what may be spent; nil is no limit.
type Limits struct {
	// Run bounds one version of a run, Day what a user spends from midnight to
	// midnight UTC, on tools and models.
	Run, Day *money.Amount
	// Overdraft is how far a user's balance may go below nothing.
	Overdraft *money.Amount
}

func (l Limits) none() bool { return l.Run == nil && l.Day == nil && l.Overdraft == nil }

// or fills what is not set.
func (l Limits) or(others Limits) Limits {
	if l.Run == nil {
		l.Run = others.Run
	}
	if l.Day == nil {
		l.Day = others.Day
	}
	if l.Overdraft == nil {
		l.Overdraft = others.Overdraft
	}
	return l
}

// LimitsOf returns what a user may spend. It is for operators.
func (s *Service) LimitsOf(ctx context.Context, uid string) (Limits, error) {
	own, err := s.rows.limits(s.db.Read(ctx), uid)
	return own.or(s.limits), err
}

// limitsLife is how long the limits of a user are remembered: nearly all calls
// are made by users without any.
const limitsLife = time.Second

// limitCache remembers the limits of users.
type limitCache struct {
	mu      sync.Mutex
	entries map[string]limitEntry
}

type limitEntry struct {
	limits Limits
	until  time.Time
}

// maxRemembered bounds the cache.
const maxRemembered = 10_000

func (s *Service) limitsOf(ctx context.Context, uid string) (Limits, error) {
	now := s.now()
	s.remembered.mu.Lock()
	e, ok := s.remembered.entries[uid]
	s.remembered.mu.Unlock()
	if ok && now.Before(e.until) {
		return e.limits, nil
	}
	l, err := s.LimitsOf(ctx, uid)
	if err != nil {
		return l, err
	}
	s.remembered.mu.Lock()
	defer s.remembered.mu.Unlock()
	if len(s.remembered.entries) >= maxRemembered {
		clear(s.remembered.entries)
	}
	s.remembered.entries[uid] = limitEntry{l, now.Add(limitsLife)}
	return l, nil
}

// SetLimits sets what one user may spend; nil leaves it to the server's
// settings. Every process follows within a second. It is for operators.
func (s *Service) SetLimits(ctx context.Context, uid string, l Limits) error {
	return s.setLimits(ctx, uid, l, func(database.Tx, time.Time) error { return nil })
}

// setLimits is SetLimits with something that is written in the same transaction.
func (s *Service) setLimits(ctx context.Context, uid string, l Limits, also func(tx database.Tx, now time.Time) error) error {
	for _, n := range []*money.Amount{l.Run, l.Day, l.Overdraft} {
		if n != nil && (*n < 0 || *n > money.Max) {
			return errs.New(errs.Invalid, "A limit cannot be negative.")
		}
	}
	now := s.now()
	defer func() {
		s.remembered.mu.Lock()
		defer s.remembered.mu.Unlock()
		delete(s.remembered.entries, uid)
	}()
	return s.db.InTx(ctx, func(tx database.Tx) error {
		if _, err := s.rows.lockUser(tx, uid, now); err != nil {
			return err
		}
		err := s.rows.saveLimits(tx, limitRow{UID: uid, RunLimit: l.Run, DayLimit: l.Day, Overdraft: l.Overdraft, CreatedAt: now, UpdatedAt: now})
		if err != nil {
			return err
		}
		return also(tx, now)
	})
}

// Admit refuses a call that would go over a limit, and otherwise holds its
// price until the call has ended, so that calls which execute at once cannot
// go over it together. The price is the least that the call will cost.
func (s *Service) Admit(ctx context.Context, c Charge) error {
	limits, err := s.limitsOf(ctx, c.UID)
	if err != nil || limits.none() {
		return err
	}
	return s.db.InTx(ctx, func(tx database.Tx) error {
		now := s.now()
		who, err := s.rows.lockUser(tx, c.UID, now)
		if err != nil {
			return err
		}
		if s.free(c, who) {
			return nil
		}
		if err := s.allowances(tx, who, now); err != nil {
			return err
		}
		if err := s.within(tx.Handle, c, limits, now); err != nil {
			return err
		}
		return s.rows.hold(tx, holdRow{
			CallID: c.CallID, UID: c.UID, ActionResultID: database.Optional(c.ResultID), Version: c.Version, Amount: c.Price, CreatedAt: now,
		})
	})
}

// AdmitModel refuses a request to a language model when nothing is left of what
// may be spent, with what the plan gives today. What it will cost is not known before.
func (s *Service) AdmitModel(ctx context.Context, uid, resultID string, version int) error {
	limits, err := s.limitsOf(ctx, uid)
	if err != nil || limits.none() {
		return err
	}
	if err := s.give(ctx, uid); err != nil {
		return err
	}
	return s.db.InSnapshot(ctx, func(h database.Handle) error {
		return s.within(h, Charge{UID: uid, ResultID: resultID, Version: version}, limits, s.now())
	})
}

// within refuses what goes over a limit. A call whose price is not known
// before it has ended is refused when nothing is left.
func (s *Service) within(h database.Handle, c Charge, l Limits, now time.Time) error {
	least := max(c.Price, 1)
	if l.Run != nil && c.ResultID != "" {
		spent, err := s.rows.spent(h, c.UID, spending{result: c.ResultID, version: c.Version})
		if err != nil {
			return err
		}
		if spent+least > *l.Run {
			return overLimit("run", *l.Run, spent, c.Price).Do("Start another run, or ask the operator for a higher limit.")
		}
	}
	if l.Day != nil {
		spent, err := s.rows.spent(h, c.UID, spending{since: now.Truncate(24 * time.Hour)})
		if err != nil {
			return err
		}
		if spent+least > *l.Day {
			return overLimit("day", *l.Day, spent, c.Price).Do("Wait for the next day (UTC), or ask the operator for a higher limit.")
		}
	}
	if l.Overdraft == nil {
		return nil
	}
	b, err := s.balance(h, c.UID)
	if err != nil {
		return err
	}
	held, err := s.rows.held(h, c.UID, spending{})
	if err != nil {
		return err
	}
	left := max(b.Net-held+*l.Overdraft, 0)
	if least <= left {
		return nil
	}
	said := "No credits are left."
	if c.Price > 0 {
		said = fmt.Sprintf("The call costs at least %s credits, and %s are left.", c.Price, left)
	}
	return errs.New(errs.NoCredits, said).Do("Buy credits, or wait for those of the plan.")
}

func overLimit(what string, limit, spent, price money.Amount) *errs.Error {
	said := fmt.Sprintf("The spending limit of this %s is %s credits; %s are spent or in use", what, limit, spent)
	if price > 0 {
		said += fmt.Sprintf(", and the call costs at least %s", price)
	}
	return errs.New(errs.NoCredits, said+".")
}
