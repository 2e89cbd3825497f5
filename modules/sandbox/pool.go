package sandbox

import (
	"context"
	"time"
)

// capsule takes a ready interpreter, or starts one; a fresh one always.
func (e *Engine) capsule(ctx context.Context, fresh bool) (Capsule, error) {
	if fresh {
		return e.deps.Driver.Start(ctx)
	}
	var ready Capsule
	select {
	case ready = <-e.idle:
	default:
	}
	e.count(func(s *Stats) {
		e.spare = min(e.spare, len(e.idle))
		if ready != nil {
			return
		}
		s.Cold++
		// Jobs that come faster than interpreters can be made find none however
		// many are to wait; the pool would only be filled when they are gone.
		if e.filled {
			e.filled = false
			s.Pool = min(max(2*s.Pool, 1), e.deps.Pool.Max)
		}
	})
	select {
	case e.taken <- struct{}{}:
	default: // the refiller will look anyway
	}
	if ready != nil {
		return ready, nil
	}
	return e.deps.Driver.Start(ctx)
}

// shrinkEvery is how often a pool that is too large gets smaller.
const shrinkEvery = 2 * time.Second

// shrink takes those interpreters out of the pool that no job needed since it
// was called last, so that a burst does not keep its memory and descriptors.
func (e *Engine) shrink() {
	e.mu.Lock()
	e.stats.Pool = max(e.stats.Pool-e.spare, e.deps.Pool.Min)
	e.spare = len(e.idle)
	excess := len(e.idle) - e.stats.Pool
	e.mu.Unlock()
	for ; excess > 0; excess-- {
		select {
		case c := <-e.idle:
			e.discard(c)
		default:
			return // jobs took them
		}
	}
}

// discard closes an interpreter while others go on.
func (e *Engine) discard(c Capsule) {
	e.work.Go(func() {
		if err := c.Close(); err != nil {
			e.deps.Logger.Error("a sandbox could not be removed", "error", err)
		}
	})
}

// full reports whether as many interpreters wait as are to.
func (e *Engine) full() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	full := len(e.idle) >= e.stats.Pool
	e.filled = e.filled || full
	return full
}

// Pauses of the refiller when interpreters do not start.
const (
	firstPause   = time.Second
	longestPause = time.Minute
)

// refill keeps the pool full until the engine stops.
func (e *Engine) refill(ctx context.Context) {
	pause := firstPause
	shrink := time.NewTicker(e.deps.Pool.ShrinkEvery)
	defer shrink.Stop()
	for ctx.Err() == nil {
		if e.full() {
			select {
			case <-e.taken:
			case <-shrink.C:
				e.shrink()
			case <-ctx.Done():
			}
			continue
		}
		c, err := e.deps.Driver.Start(ctx)
		if err == nil {
			e.idle <- c // only this goroutine adds, so there is room
			pause = firstPause
			continue
		}
		if ctx.Err() != nil {
			return
		}
		e.deps.Logger.Error("no interpreter can be started; see portico doctor", "error", err, "again", pause)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		pause = min(2*pause, longestPause)
	}
}
