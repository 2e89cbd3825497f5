package tool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/run/bound"
)

// Bounds are those of calls, over all processes.
type Bounds struct{ User, Key, Run bound.Bound }

// enter counts a call into its user, its key and its run, or into none: then it
// returns ErrTooMany, which says when to ask again.
func (s *Service) enter(ctx context.Context, a actor.Actor, c Context) (*bound.Visit, error) {
	visit, err := s.limiter.Enter(ctx, s.limitsOf(a, c))
	over, is := errors.AsType[*bound.Over](err)
	switch {
	case !is:
		return visit, err
	case over.Rate:
		return nil, ErrTooMany.Do(fmt.Sprintf("At most %v calls of a %s begin in a second. Ask again after Retry-After.", over.Limit.Bound.PerSecond, over.Limit.Name)).After(over.After)
	}
	return nil, ErrTooMany.Do(fmt.Sprintf("At most %d calls of a %s execute at once. Wait for some to end, then ask again.", over.Limit.Bound.AtOnce, over.Limit.Name))
}

// limitsOf are the bounds of a call.
func (s *Service) limitsOf(a actor.Actor, c Context) []bound.Limit {
	limits := []bound.Limit{s.limitOf(a)}
	if a.KeyID != "" {
		limits = append(limits, bound.Limit{UID: a.UID, Name: "key", ID: a.KeyID, Bound: s.settings.Bounds.Key})
	}
	if c.ResultID != "" {
		limits = append(limits, bound.Limit{UID: a.UID, Name: "run", ID: c.ResultID, Bound: s.settings.Bounds.Run})
	}
	return limits
}

func (s *Service) limitOf(a actor.Actor) bound.Limit {
	return bound.Limit{UID: a.UID, Name: "user", Bound: s.settings.Bounds.User}
}

// AtOnce is how many calls a user has in this process, and how many there may be in
// all; 0 is no bound.
func (s *Service) AtOnce(a actor.Actor) (now, most int) {
	return s.limiter.Active(s.limitOf(a)), s.settings.Bounds.User.AtOnce
}

// ErrTooMany is a call over a bound.
var ErrTooMany = errs.New(errs.RateLimited, "Too many calls.").After(time.Second)
