package sandbox

import (
	"sync"
	"time"
)

// Clock counts the time of one job against its timeout. It is safe for
// concurrent use.
type Clock struct {
	mu      sync.Mutex
	counted time.Duration
	since   time.Time // when it began to run; zero while it does not
	started bool
	pauses  int
	changed chan struct{}
}

// NewClock returns a clock that stands at zero until its job starts.
func NewClock() *Clock { return &Clock{changed: make(chan struct{}, 1)} }

// Start lets the clock run, unless it is paused. Drivers call it when the job
// begins.
func (c *Clock) Start() { c.change(func() { c.started = true }) }

// Pause stops the clock until Resume was called as often as Pause.
func (c *Clock) Pause() { c.change(func() { c.pauses++ }) }

// Resume undoes one Pause.
func (c *Clock) Resume() { c.change(func() { c.pauses-- }) }

// Charge counts time that passed otherwise, such as processor time used during
// a pause. It is the driver's, who knows that the clock changed.
func (c *Clock) Charge(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counted += d
}

func (c *Clock) change(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.since.IsZero() {
		c.counted += time.Since(c.since)
		c.since = time.Time{}
	}
	f()
	if c.started && c.pauses == 0 {
		c.since = time.Now()
	}
	select {
	case c.changed <- struct{}{}:
	default: // the driver has not looked since the last change
	}
}

// Elapsed is what the clock counted so far, and whether it is paused.
func (c *Clock) Elapsed() (d time.Duration, paused bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d = c.counted
	if !c.since.IsZero() {
		d += time.Since(c.since)
	}
	return d, c.pauses > 0
}

// Changed tells the driver that it should look at the clock again.
func (c *Clock) Changed() <-chan struct{} { return c.changed }
