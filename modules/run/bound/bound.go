// Package bound counts what is bounded in and out, over all processes that share a
// database.
//
// A process that is alone counts by itself. Among several, each has an eighth of its
// even share of every bound for itself and asks nobody for it, so that those who use
// little cost nothing. What is used beyond that is borrowed from the database in
// batches, in the background and ahead of need, and given back when it is not used;
// only a burst waits for one transaction. So all processes together never let through
// more than an eighth over a bound, and one of them that is used alone gets all of it.
//
// What is borrowed is in two tables: bounds has what may still begin, bound_places how
// many places each process has. Those of a process that is gone count no more.
package bound

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/portico-run/portico/internal/database"
)

// Bound is how many there may be: at once, and begun in a second. Zero is no bound.
type Bound struct {
	AtOnce    int
	PerSecond float64
	// Burst is how many may begin together after a pause; 0 for those of two seconds.
	Burst int
}

// Limit is the bound of one thing of a user's.
type Limit struct {
	UID      string
	Name, ID string // what it is, such as "key", and which one
	Bound    Bound
}

func (l Limit) scope() string { return l.Name + " " + l.ID }

// Over is the answer to what is over a bound.
type Over struct {
	Limit Limit
	// Rate says that it is the one of those that begin.
	Rate bool
	// After is when to ask again.
	After time.Duration
}

// Error implements error.
func (o *Over) Error() string { return fmt.Sprintf("over the bound of a %s", o.Limit.Name) }

// Deps is what a limiter needs.
type Deps struct {
	DB *database.DB
	// Self is the id of this process among the nodes.
	Self string
	// Processes is how many share the database; nil for this one alone.
	Processes func() int
	// Now tells the time.
	Now    func() time.Time
	Logger *slog.Logger
}

// Limiter counts for one process.
type Limiter struct {
	deps Deps
	rows repository

	mu     sync.Mutex
	scopes map[string]*scope
	loans  map[*scope]struct{} // those that have, or want, what is borrowed
	next   *round

	kick chan struct{}
	once sync.Once
	stop chan struct{}
	done chan struct{} // nil until Start
}

// New returns a limiter that borrows nothing until Start.
func New(d Deps) *Limiter {
	if d.Processes == nil {
		d.Processes = func() int { return 1 }
	}
	if d.Now == nil {
		d.Now = database.Now
	}
	return &Limiter{
		deps: d, scopes: map[string]*scope{}, loans: map[*scope]struct{}{}, next: newRound(), kick: make(chan struct{}, 1), stop: make(chan struct{}),
	}
}

const (
	// ownShare is the part of a bound that processes have without asking, all together.
	ownShare = 8
	// batchShare is the part of it that they borrow at a time, all together.
	batchShare = 4
	// usualBurst is for how many seconds a rate may be used up at once.
	usualBurst = 2
)

// scope is one thing that is bounded.
type scope struct {
	limit     Limit
	processes int // that its own part was reckoned for

	active int           // counted in now
	own    *rate.Limiter // what may begin without asking; nil without a rate
	seen   time.Time

	// What is borrowed: places, and how many may begin.
	places int
	starts float64
	// What callers wait for.
	wantPlaces, wantStarts int
	// Until when it is known that there is no more, and how much a user may begin then.
	noPlaces, noStarts time.Time
	// stale says that the database may not know what this process has.
	stale bool
}

func (b Bound) burst() int {
	if b.Burst > 0 {
		return b.Burst
	}
	return max(1, int(usualBurst*b.PerSecond))
}

// reckon adapts a scope to its bound, and to how many processes there are.
func (s *scope) reckon(b Bound, processes int, now time.Time) {
	if s.limit.Bound == b && s.processes == processes {
		return
	}
	if was := s.limit.Bound; was.PerSecond != b.PerSecond || was.Burst != b.Burst {
		s.own = nil // another rate begins anew
	}
	s.limit.Bound, s.processes = b, processes
	per, burst := b.PerSecond, b.burst()
	if processes > 1 {
		per, burst = per/float64(ownShare*processes), burst/(ownShare*processes)
	}
	switch {
	case b.PerSecond <= 0:
		s.own = nil
	case s.own == nil:
		s.own = rate.NewLimiter(rate.Limit(per), burst)
	default:
		s.own.SetLimitAt(now, rate.Limit(per))
		s.own.SetBurstAt(now, burst)
	}
}

// ownPlaces is how many there may be at once without asking.
func (s *scope) ownPlaces() int {
	if s.processes == 1 {
		return s.limit.Bound.AtOnce
	}
	return s.limit.Bound.AtOnce / (ownShare * s.processes)
}

// room is how many there may be at once in this process.
func (s *scope) room() int { return min(s.limit.Bound.AtOnce, s.ownPlaces()+s.places) }

// placesAtATime and startsAtATime are what is borrowed ahead of need.
func (s *scope) placesAtATime() int { return max(1, s.limit.Bound.AtOnce/(batchShare*s.processes)) }

func (s *scope) startsAtATime() float64 {
	return max(1, s.limit.Bound.PerSecond/float64(batchShare*s.processes))
}
