package bound

import (
	"context"
	"time"

	"golang.org/x/time/rate"
)

// Scopes that nobody has used for a while are forgotten, once there are many.
const (
	manyScopes  = 10_000
	forgetAfter = time.Minute
)

const (
	// patience is how long somebody waits for what is borrowed.
	patience = 5 * time.Second
	// rounds is how often they wait, where others were faster.
	rounds = 3
)

// Enter counts somebody into all of their scopes, or into none: then the error is an
// *Over, which says when to ask again, or says why nothing could be borrowed. They
// leave by Visit.Leave.
func (l *Limiter) Enter(ctx context.Context, limits []Limit) (*Visit, error) {
	for waited := 0; ; waited++ {
		now := l.deps.Now()
		l.mu.Lock()
		visit, short := l.count(now, limits)
		if short == nil {
			l.mu.Unlock()
			return visit, nil
		}
		r := l.next
		if waited == rounds || !short.ask(now) {
			over := short.over(now)
			l.mu.Unlock()
			return nil, over
		}
		l.want(short, 1)
		l.mu.Unlock()
		err := l.wait(ctx, r)
		l.mu.Lock()
		l.want(short, -1)
		l.mu.Unlock()
		if err != nil {
			return nil, err
		}
	}
}

// Let counts somebody in who was let in before, whatever the bounds are now.
func (l *Limiter) Let(limits []Limit) *Visit {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := &Visit{limiter: l}
	for _, one := range limits {
		s := l.scope(one, l.deps.Now())
		s.active++
		v.scopes = append(v.scopes, s)
	}
	return v
}

// Active is how many a scope has now in this process.
func (l *Limiter) Active(one Limit) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s, ok := l.scopes[one.key()]; ok {
		return s.active
	}
	return 0
}

// Visit is somebody who was counted in. One goroutine uses it.
type Visit struct {
	limiter *Limiter
	scopes  []*scope
}

// Leave counts them out of their scopes.
func (v *Visit) Leave() { v.limiter.add(v.scopes, -1) }

// Rest counts them out while they wait for a person, and in again afterwards,
// whatever the bounds: they were let in before.
func (v *Visit) Rest() (back func()) {
	v.Leave()
	return func() { v.limiter.add(v.scopes, 1) }
}

// short is what there is too little of.
type short struct {
	scope *scope
	rate  bool
	after time.Duration // until this process has more of its own
}

// ask reports whether more may be borrowed.
func (s *short) ask(now time.Time) bool {
	if s.scope.processes == 1 {
		return false
	}
	if s.rate {
		return !now.Before(s.scope.noStarts)
	}
	return s.scope.room() < s.scope.limit.Bound.AtOnce && !now.Before(s.scope.noPlaces)
}

func (s *short) over(now time.Time) *Over {
	o := &Over{Limit: s.scope.limit, Rate: s.rate, After: s.after}
	if s.rate && s.scope.processes > 1 {
		o.After = max(s.scope.noStarts.Sub(now), time.Millisecond)
	}
	return o
}

// want changes what callers wait for. The caller holds mu.
func (l *Limiter) want(s *short, n int) {
	if s.rate {
		s.scope.wantStarts += n
	} else {
		s.scope.wantPlaces += n
	}
	if n > 0 {
		l.borrow(s.scope)
	}
}

// count counts somebody in, or says what there is too little of. The caller holds mu.
func (l *Limiter) count(now time.Time, limits []Limit) (*Visit, *short) {
	if len(l.scopes) > manyScopes {
		l.forget(now)
	}
	v := &Visit{limiter: l}
	var taken []func()
	undo := func(s *short) (*Visit, *short) {
		for _, back := range taken {
			back()
		}
		return nil, s
	}
	for _, one := range limits {
		s := l.scope(one, now)
		if s.limit.Bound.AtOnce > 0 && s.active >= s.room() {
			return undo(&short{scope: s})
		}
		back, after := s.begin(now)
		if back == nil {
			return undo(&short{scope: s, rate: true, after: after})
		}
		s.active++
		taken = append(taken, back, func() { s.active-- })
		v.scopes = append(v.scopes, s)
	}
	for _, s := range v.scopes {
		if s.low(now) {
			l.borrow(s)
		}
	}
	return v, nil
}

// begin takes one that may begin, and says how it is given back, or when there is one.
func (s *scope) begin(now time.Time) (back func(), after time.Duration) {
	if s.own == nil {
		return func() {}, 0
	}
	var r *rate.Reservation
	if r = s.own.ReserveN(now, 1); r.OK() {
		after = r.DelayFrom(now)
		if after == 0 {
			return func() { r.CancelAt(now) }, 0
		}
		r.CancelAt(now)
	}
	if s.starts >= 1 {
		s.starts--
		return func() { s.starts++ }, 0
	}
	return nil, after
}

// low reports whether there is soon too little, and more may be borrowed.
func (s *scope) low(now time.Time) bool {
	if s.processes == 1 {
		return false
	}
	if most := s.limit.Bound.AtOnce; most > 0 && s.room() < most && !now.Before(s.noPlaces) {
		least := s.ownPlaces() / 2
		if s.places > 0 {
			least = s.placesAtATime() / 2
		}
		if s.room()-s.active <= least {
			return true
		}
	}
	if s.own == nil || now.Before(s.noStarts) {
		return false
	}
	least := float64(s.own.Burst()) / 2
	if s.starts > 0 {
		least = s.startsAtATime() / 2
	}
	return s.own.TokensAt(now)+s.starts <= least
}

func (l Limit) key() string { return l.UID + " " + l.scope() }

// scope finds what is bounded. The caller holds mu.
func (l *Limiter) scope(one Limit, now time.Time) *scope {
	s, ok := l.scopes[one.key()]
	if !ok {
		s = &scope{limit: Limit{UID: one.UID, Name: one.Name, ID: one.ID}}
		l.scopes[one.key()] = s
	}
	s.reckon(one.Bound, max(1, l.deps.Processes()), now)
	s.seen = now
	return s
}

func (l *Limiter) add(entered []*scope, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range entered {
		s.active += n
	}
}

func (l *Limiter) forget(now time.Time) {
	for key, s := range l.scopes {
		if _, lent := l.loans[s]; !lent && s.active == 0 && now.Sub(s.seen) > forgetAfter {
			delete(l.scopes, key)
		}
	}
}
