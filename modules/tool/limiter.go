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
// ErrTooMany, which says when to ask again. The call leaves by visit.leave.
func (l *limiter) enter(now time.Time, limits []limit) (*visit, error) {
	entered, err := l.count(now, limits)
	if err != nil {
		return nil, err
	}
	return &visit{limiter: l, scopes: entered}, nil
}

// let counts a call in that was let in before, whatever the bounds are now.
func (l *limiter) let(now time.Time, limits []limit) *visit {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := &visit{limiter: l}
	for _, one := range limits {
		s := l.scope(one, now)
		s.active++
		v.scopes = append(v.scopes, s)
	}
	return v
}

// visit is a call that was counted in. One goroutine uses it.
type visit struct {
	limiter *limiter
	scopes  []*scope
}

// leave counts the call out of its scopes.
func (v *visit) leave() { v.limiter.add(v.scopes, -1) }

// rest counts the call out while it waits for a person, and in again afterwards,
// whatever the bounds: it was let in before.
func (v *visit) rest() (back func()) {
	v.leave()
	return func() { v.limiter.add(v.scopes, 1) }
}

func (l *limiter) count(now time.Time, limits []limit) (entered []*scope, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.scopes) > manyScopes {
		l.forget(now)
	}
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
	return entered, nil
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

func (l *limiter) add(entered []*scope, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range entered {
		s.active += n
	}
}

// active is how many calls a scope has now.
func (l *limiter) active(name, id string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s, ok := l.scopes[name+" "+id]; ok {
		return s.active
	}
	return 0
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

// AtOnce is how many calls a user has in this process, and how many there may be;
// 0 is no bound.
func (s *Service) AtOnce(a actor.Actor) (now, most int) {
	return s.limiter.active("user", a.UID), s.settings.Bounds.User.AtOnce
}

// ErrTooMany is a call over a bound.
var ErrTooMany = errs.New(errs.RateLimited, "Too many calls.").After(time.Second)
