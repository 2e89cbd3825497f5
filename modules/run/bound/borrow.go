package bound

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
)

const (
	// look is how often what is borrowed is looked at, for what is not used.
	look = 250 * time.Millisecond
	// idle is after how long without use all of it is given back.
	idle = time.Second
	// noMore is for how long nobody asks again where there were no places.
	noMore = 100 * time.Millisecond
	// fewMore is that where there was nothing that may begin, at least: what comes
	// meanwhile is borrowed together.
	fewMore = 50 * time.Millisecond
	// maxRound bounds the scopes of one transaction.
	maxRound = 64
	// roundTimeout bounds one transaction.
	roundTimeout = 3 * time.Second
	// sweepEvery is how often rows that nobody needs are deleted; those of rates when
	// they were not used for keepUnused.
	sweepEvery = time.Minute
	keepUnused = 10 * time.Minute
)

// round is one transaction for all that is wanted when it begins.
type round struct {
	over chan struct{} // closed when it is
	err  error
}

func newRound() *round { return &round{over: make(chan struct{})} }

// errUnreachable is the answer to those who need what cannot be borrowed.
var errUnreachable = errs.New(errs.Unavailable, "How much you use could not be counted.").Do("Ask again after Retry-After.").After(time.Second)

// wait waits until a round is over.
func (l *Limiter) wait(ctx context.Context, r *round) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-r.over:
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
	case <-l.stop:
	}
	return errUnreachable
}

// borrow has a scope looked at in the next round. The caller holds mu.
func (l *Limiter) borrow(s *scope) {
	l.loans[s] = struct{}{}
	select {
	case l.kick <- struct{}{}:
	default: // one is about to begin
	}
}

// Start borrows, and gives back, in the background until Stop.
func (l *Limiter) Start(ctx context.Context) error {
	l.done = make(chan struct{})
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(l.done)
		defer cancel()
		tick, sweep := time.NewTicker(look), time.NewTicker(sweepEvery)
		defer tick.Stop()
		defer sweep.Stop()
		for {
			select {
			case <-l.stop:
				return
			case <-l.kick:
			case <-tick.C:
			case <-sweep.C:
				l.sweep(work)
			}
			l.round(work)
		}
	}()
	return nil
}

// Stop ends that. What is borrowed ends with this process.
func (l *Limiter) Stop(context.Context) error {
	if l.done == nil {
		return nil
	}
	l.once.Do(func() { close(l.stop) })
	<-l.done
	return nil
}

// ask is what is wanted of a scope: places in all, and starts more or, below zero,
// fewer.
type ask struct {
	limit  Limit
	places int
	starts float64
}

// grant is what is given: places in all, and starts; left is what is left of those.
type grant struct {
	places       int
	starts, left float64
}

// round borrows what is wanted and gives back what is not needed.
func (l *Limiter) round(ctx context.Context) {
	l.mu.Lock()
	now, r := l.deps.Now(), l.next
	l.next = newRound()
	scopes, asks := l.plan(now)
	l.mu.Unlock()
	defer close(r.over)
	if len(asks) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, roundTimeout)
	defer cancel()
	var grants []grant
	err := l.deps.DB.InTx(ctx, func(tx database.Tx) (err error) {
		grants, err = l.rows.settle(tx, l.deps.Self, asks, now)
		return err
	})
	l.mu.Lock()
	for i, s := range scopes {
		if s.stale = err != nil; s.stale {
			continue
		}
		s.apply(asks[i], grants[i], now)
	}
	l.mu.Unlock()
	if err != nil {
		r.err = errUnreachable.With(err)
		l.deps.Logger.WarnContext(ctx, "what users use in all processes could not be counted", "error", err)
	}
}

// plan says what to ask for, and takes out what is given back. The caller holds mu.
func (l *Limiter) plan(now time.Time) (scopes []*scope, asks []ask) {
	processes := max(1, l.deps.Processes())
	for s := range l.loans {
		s.reckon(s.limit.Bound, processes, now)
		if s.places == 0 && s.starts == 0 && s.wantPlaces == 0 && s.wantStarts == 0 && !s.stale && !s.low(now) {
			delete(l.loans, s)
			continue
		}
		if s.settled(s.ask(now)) {
			continue
		}
		scopes = append(scopes, s)
	}
	// Those for whom somebody waits come first; the database locks in one order.
	slices.SortFunc(scopes, func(a, b *scope) int { return b.wantPlaces + b.wantStarts - a.wantPlaces - a.wantStarts })
	if len(scopes) > maxRound {
		scopes = scopes[:maxRound]
		l.borrow(scopes[0]) // the others follow at once
	}
	slices.SortFunc(scopes, func(a, b *scope) int { return strings.Compare(a.limit.key(), b.limit.key()) })
	for _, s := range scopes {
		a := s.ask(now)
		s.places = min(s.places, a.places)
		s.starts += min(a.starts, 0)
		asks = append(asks, a)
	}
	return scopes, asks
}

// ask is what a scope needs now.
func (s *scope) ask(now time.Time) ask {
	a := ask{limit: s.limit, starts: -s.starts}
	b := s.limit.Bound
	waits := s.wantPlaces+s.wantStarts > 0
	quiet := !waits && now.Sub(s.seen) >= idle
	if s.processes == 1 {
		return a
	}
	if b.AtOnce > 0 && !(quiet && s.active <= s.ownPlaces()/2) {
		a.places = min(b.AtOnce, max(0, s.active+s.wantPlaces-s.ownPlaces()+s.placesAtATime()))
	}
	if b.PerSecond > 0 && !quiet {
		a.starts = max(0, s.startsAtATime()+float64(s.wantStarts)-s.starts)
	}
	return a
}

// settled reports whether it is not worth a transaction.
func (s *scope) settled(a ask) bool {
	if s.stale || s.wantPlaces+s.wantStarts > 0 {
		return false
	}
	more, fewer := a.places-s.places, s.places-a.places
	some := max(1, s.placesAtATime()/2)
	if fewer > some || fewer > 0 && a.places == 0 || more > 0 && s.room()-s.active <= some {
		return false
	}
	return a.starts >= 0 && a.starts <= s.startsAtATime()/2
}

// apply takes what was given.
func (s *scope) apply(a ask, g grant, now time.Time) {
	b := s.limit.Bound
	s.places = g.places
	s.starts = max(0, s.starts+max(0, g.starts))
	if g.places < a.places && s.active+s.wantPlaces > s.room() {
		s.noPlaces = now.Add(noMore)
	}
	if b.PerSecond > 0 && a.starts > 0 && g.starts < a.starts {
		next := time.Duration((1 - min(g.left, 1)) / b.PerSecond * float64(time.Second))
		s.noStarts = now.Add(max(next, fewMore))
	}
}

// sweep deletes what nobody needs any more.
func (l *Limiter) sweep(ctx context.Context) {
	if l.deps.Processes() <= 1 {
		return
	}
	now := l.deps.Now()
	err := l.deps.DB.InTx(ctx, func(tx database.Tx) error { return l.rows.purge(tx, now, now.Add(-keepUnused)) })
	if err != nil {
		l.deps.Logger.WarnContext(ctx, "old counts of what users use were not deleted", "error", err)
	}
}
