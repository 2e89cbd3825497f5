package tool

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
)

// Bound is how many calls there may be: at once, and begun in a second. Zero is
// no bound.
type Bound struct {
	AtOnce    int
	PerSecond float64
}

// Bounds are those of one process.
type Bounds struct{ User, Key, Run Bound }

// limiter counts the calls of users, keys and runs in and out.
type limiter struct {
	mu     sync.Mutex
	scopes map[string]*scope
}

// scope is one user, key or run.
type scope struct {
	active int
	rate   *rate.Limiter
	seen   time.Time
}

func newLimiter() *limiter { return &limiter{scopes: map[string]*scope{}} }

// burst is for how many seconds a rate may be used up at once.
const burst = 2

// Scopes that nobody has used for a while are forgotten, once there are many.
const (
	manyScopes  = 10_000
	forgetAfter = time.Minute
)

// limit is the bound of one scope.
type limit struct {
	name, id string
	bound    Bound
}

// enter counts a call into all of its scopes, or into none: then it returns
// ErrTooMany, which says when to ask again. The call leaves by leave.
func (l *limiter) enter(now time.Time, limits []limit) (leave func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.scopes) > manyScopes {
		l.forget(now)
	}
	var entered []*scope
	var taken []*rate.Reservation
	for _, one := range limits {
		s := l.scope(one, now)
		if one.bound.AtOnce > 0 && s.active >= one.bound.AtOnce {
			err = ErrTooMany.Do(fmt.Sprintf("At most %d calls of a %s execute at once. Wait for some to end, then ask again.", one.bound.AtOnce, one.name))
			break
		}
		if s.rate != nil {
			r := s.rate.ReserveN(now, 1)
			if wait := r.DelayFrom(now); wait > 0 {
				r.CancelAt(now)
				err = ErrTooMany.Do(fmt.Sprintf("At most %v calls of a %s begin in a second. Ask again after Retry-After.", one.bound.PerSecond, one.name)).After(wait)
				break
			}
			taken = append(taken, r)
		}
		s.active++
		entered = append(entered, s)
	}
	if err != nil {
		for _, r := range taken {
			r.CancelAt(now)
		}
		for _, s := range entered {
			s.active--
		}
		return nil, err
	}
	return func() { l.leave(entered) }, nil
}

func (l *limiter) scope(one limit, now time.Time) *scope {
	key := one.name + " " + one.id
	s, ok := l.scopes[key]
	if !ok {
		s = &scope{}
		if r := one.bound.PerSecond; r > 0 {
			s.rate = rate.NewLimiter(rate.Limit(r), max(1, int(burst*r)))
		}
		l.scopes[key] = s
	}
	s.seen = now
	return s
}

func (l *limiter) leave(entered []*scope) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range entered {
		s.active--
	}
}

func (l *limiter) forget(now time.Time) {
	for key, s := range l.scopes {
		if s.active == 0 && now.Sub(s.seen) > forgetAfter {
			delete(l.scopes, key)
		}
	}
}

// limitsOf are the scopes of a call.
func (s *Service) limitsOf(a actor.Actor, c Context) []limit {
	limits := []limit{{"user", a.UID, s.settings.Bounds.User}}
	if a.KeyID != "" {
		limits = append(limits, limit{"key", a.KeyID, s.settings.Bounds.Key})
	}
	if c.ResultID != "" {
		limits = append(limits, limit{"run", a.UID + " " + c.ResultID, s.settings.Bounds.Run})
	}
	return limits
}

// ErrTooMany is a call over a bound.
var ErrTooMany = errs.New(errs.RateLimited, "Too many calls.").After(time.Second)
