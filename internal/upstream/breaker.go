package upstream

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"

	"github.com/portico-run/portico/internal/egress"
)

// BreakerSettings say when calls to an upstream stop for a while.
type BreakerSettings struct {
	// Failures stops the calls when so many of the last 2×Failures calls got no
	// answer; 0 never stops them.
	Failures int
	// Delay is how long they stop. Then one call tries first.
	Delay time.Duration
}

// maxBreakers bounds how many upstreams are watched.
const maxBreakers = 1000

// believeOwn is for how long an answer from an upstream counts more than what another
// process says of it.
const believeOwn = 10 * time.Second

// breakers watches upstreams by their origin.
type breakers struct {
	settings BreakerSettings
	now      func() time.Time

	mu      sync.Mutex
	origins map[string]*breaker
}

func newBreakers(s BreakerSettings, now func() time.Time) *breakers {
	return &breakers{settings: s, now: now, origins: map[string]*breaker{}}
}

func (b *breakers) of(address string) *breaker {
	u, err := url.Parse(address)
	if err != nil || b.settings.Failures <= 0 {
		return &breaker{}
	}
	origin := u.Scheme + "://" + u.Host
	b.mu.Lock()
	defer b.mu.Unlock()
	if found, ok := b.origins[origin]; ok {
		found.used.Store(b.now().UnixNano())
		return found
	}
	if len(b.origins) >= maxBreakers {
		b.forget()
	}
	n := uint(b.settings.Failures)
	made := &breaker{
		origin: origin, now: b.now,
		// Without the threshold of successes, 2n calls would try after the delay.
		circuit: circuitbreaker.NewBuilder[any]().WithFailureThresholdRatio(n, 2*n).WithSuccessThreshold(1).WithDelay(b.settings.Delay).Build(),
	}
	made.used.Store(b.now().UnixNano())
	b.origins[origin] = made
	return made
}

// forget takes one upstream out: of those that calls go to the one that was unused for
// longest, and only then one that they have stopped to, which they will soonest go to
// again. The caller holds mu.
func (b *breakers) forget() {
	var victim *breaker
	for _, one := range b.origins {
		if victim == nil || one.lessThan(victim) {
			victim = one
		}
	}
	delete(b.origins, victim.origin)
}

// lessThan reports whether less is lost with it.
func (b *breaker) lessThan(other *breaker) bool {
	if mine, theirs := b.rank(), other.rank(); mine != theirs {
		return mine < theirs
	}
	if b.circuit.IsOpen() {
		return b.circuit.RemainingDelay() < other.circuit.RemainingDelay()
	}
	return b.used.Load() < other.used.Load()
}

func (b *breaker) rank() int {
	return slices.Index([]circuitbreaker.State{circuitbreaker.ClosedState, circuitbreaker.HalfOpenState, circuitbreaker.OpenState}, b.circuit.State())
}

// Doubt says that calls of another process to an origin got no answer and stopped.
// Then one call of this process tries, alone, before others follow. Where the origin
// answered this process a moment ago, its calls go on, and one that gets no answer
// stops them: the fault may be the other process'. What another process says never
// stops calls by itself.
func (c *Caller) Doubt(origin string) {
	b := c.breakers.of(origin)
	if b.circuit == nil || !b.circuit.IsClosed() {
		return
	}
	if c.breakers.now().UnixNano()-b.answered.Load() > int64(believeOwn) {
		b.circuit.HalfOpen()
		return
	}
	for range c.breakers.settings.Failures - 1 - int(b.circuit.Metrics().Failures()) {
		b.circuit.RecordFailure()
	}
}

// breaker watches one upstream. The zero value lets everything pass.
type breaker struct {
	origin  string
	circuit circuitbreaker.CircuitBreaker[any]
	now     func() time.Time

	used, answered atomic.Int64 // when, in nanoseconds
}

// open reports whether nothing may be sent, and for how long.
func (b *breaker) open() (left time.Duration, open bool) {
	if b.circuit == nil || b.circuit.TryAcquirePermit() {
		return 0, false
	}
	return b.circuit.RemainingDelay(), true
}

// Stopped is an upstream that nothing is sent to for a while.
type Stopped struct {
	Origin string // its scheme and host
	Left   time.Duration
}

// Stopped lists the upstreams that nothing is sent to now, by their origin.
func (c *Caller) Stopped() []Stopped {
	c.breakers.mu.Lock()
	defer c.breakers.mu.Unlock()
	var out []Stopped
	for origin, b := range c.breakers.origins {
		if b.circuit != nil && b.circuit.IsOpen() {
			out = append(out, Stopped{origin, b.circuit.RemainingDelay()})
		}
	}
	slices.SortFunc(out, func(a, b Stopped) int { return strings.Compare(a.Origin, b.Origin) })
	return out
}

// record counts a call. An upstream that refuses a call counts as working; a call
// that its caller cancelled, or that was not sent, says nothing. It reports whether
// this call stopped the calls.
func (b *breaker) record(got Response, err error) (stopped bool) {
	if b.circuit == nil {
		return false
	}
	_, ours := err.(errTooLarge) //nolint:errorlint // made here
	ours = ours || errors.Is(err, errNoRoom)
	before := b.circuit.IsOpen()
	switch kind := egress.KindOf(err); {
	case err != nil && !ours && slices.Contains([]egress.Kind{egress.Canceled, egress.Refused, egress.Invalid}, kind):
		if b.circuit.IsHalfOpen() { // it was the one that tries: another may
			b.circuit.Open()
			b.circuit.HalfOpen()
		}
	case err != nil && !ours, err == nil && slices.Contains([]int{502, 503, 504}, got.Status):
		b.circuit.RecordFailure()
	default:
		b.answered.Store(b.now().UnixNano())
		b.circuit.RecordSuccess()
	}
	return !before && b.circuit.IsOpen()
}
