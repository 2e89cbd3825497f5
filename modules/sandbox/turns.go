package sandbox

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/portico-run/portico/internal/errs"
)

// Refusals of jobs whose owner, or whose server, has as many as may be. All of
// them are answered with 429 and a time to wait.
var (
	// ErrBusy is returned when the queue is full or the wait in it too long.
	ErrBusy = errs.New(errs.RateLimited, "All sandboxes are in use.")
	// ErrOwnerBusy is returned when as many jobs of one owner wait as may.
	ErrOwnerBusy = errs.New(errs.RateLimited, "You have as many programs running and waiting as one user may.")
	// ErrManyPaused is returned by Pause when as many jobs are paused as may be.
	ErrManyPaused = errs.New(errs.RateLimited, "Too many programs wait for their tools.")
	// ErrOwnerPaused is returned by Pause when as many of one owner are.
	ErrOwnerPaused = errs.New(errs.RateLimited, "You have as many programs waiting for their tools as one user may.")
)

// Counts is a number of jobs in each state that holds something.
type Counts struct {
	Running int // jobs that have a turn
	Queued  int // jobs that wait for their first turn
	Paused  int // jobs that wait for somebody outside
}

// quarters is the share of one owner where nothing else is said: a quarter of
// the whole, rounded up.
func (share Counts) quarters(whole Counts) Counts {
	quarter := func(set *int, of int) {
		if *set == 0 {
			*set = (of + 3) / 4
		}
	}
	quarter(&share.Running, whole.Running)
	quarter(&share.Queued, whole.Queued)
	quarter(&share.Paused, whole.Paused)
	return share
}

// turns decides which job runs. What bounds an owner is counted apart from what
// bounds all, so that somebody at a bound of theirs keeps nobody else waiting.
// Jobs without an owner are the server's own, which has no share.
type turns struct {
	whole, share Counts

	mu      sync.Mutex
	all     Counts
	owners  map[string]*holder // that hold anything
	served  int                // turns that were given
	waiting []*waiter          // whoever came first is first
}

// holder is an owner, with the number of the last turn it was given.
type holder struct {
	Counts

	served int
}

// waiter is a job that waits for a turn. It is queued before its first one.
type waiter struct {
	owner  string
	queued bool
	turn   chan struct{} // closed when it has one
}

func newTurns(whole, share Counts) *turns {
	return &turns{whole: whole, share: share.quarters(whole), owners: map[string]*holder{}}
}

// change counts for an owner and for all. The caller holds mu.
func (t *turns) change(owner string, by func(c *Counts)) {
	by(&t.all)
	h := t.owners[owner]
	if h == nil {
		h = &holder{}
		t.owners[owner] = h
	}
	by(&h.Counts)
	if h.Counts == (Counts{}) {
		delete(t.owners, owner)
	}
}

// serve gives an owner a turn. The caller holds mu.
func (t *turns) serve(owner string, by func(c *Counts)) {
	t.change(owner, by)
	t.served++
	t.owners[owner].served = t.served
}

// of is what an owner holds. The caller holds mu.
func (t *turns) of(owner string) holder {
	if h := t.owners[owner]; h != nil {
		return *h
	}
	return holder{}
}

// below reports whether an owner may have one more of what is counted.
func below(owner string, count, share int) bool { return owner == "" || count < share }

// take waits for a first turn, for so long at most.
func (t *turns) take(ctx context.Context, owner string, patience time.Duration) error {
	w := &waiter{owner: owner, queued: true, turn: make(chan struct{})}
	t.mu.Lock()
	if t.free(owner) {
		t.serve(owner, func(c *Counts) { c.Running++ })
		t.mu.Unlock()
		return nil
	}
	var refused *errs.Error
	switch {
	case !below(owner, t.of(owner).Queued, t.share.Queued):
		refused = ErrOwnerBusy.Do("Wait for one to end; send the program again after Retry-After.")
	case t.all.Queued >= t.whole.Queued:
		refused = ErrBusy.Do("Send the program again after Retry-After.")
	}
	if refused != nil {
		t.mu.Unlock()
		return refused.After(time.Second)
	}
	t.waiting = append(t.waiting, w)
	t.change(owner, func(c *Counts) { c.Queued++ })
	t.mu.Unlock()

	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-w.turn:
		return nil
	case <-timer.C:
		if !t.leave(w) {
			return nil // its turn came at the last moment
		}
		return ErrBusy.Do("Send the program again after Retry-After.").After(time.Second)
	case <-ctx.Done():
		if !t.leave(w) {
			t.give(owner)
		}
		return ctx.Err()
	}
}

// free reports whether a job of an owner may run now. The caller holds mu.
func (t *turns) free(owner string) bool {
	return t.all.Running < t.whole.Running && below(owner, t.of(owner).Running, t.share.Running)
}

// leave takes a waiter out. It reports false when it has its turn already.
func (t *turns) leave(w *waiter) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := slices.Index(t.waiting, w)
	if at < 0 {
		return false
	}
	t.waiting = slices.Delete(t.waiting, at, at+1)
	if w.queued {
		t.change(w.owner, func(c *Counts) { c.Queued-- })
	}
	return true
}

// give takes a turn back.
func (t *turns) give(owner string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.change(owner, func(c *Counts) { c.Running-- })
	t.next()
}

// next gives free turns to those that wait: to the owner that has the fewest,
// and of those to who was given none for longest. The jobs of one owner keep
// their order. The caller holds mu.
func (t *turns) next() {
	for {
		best := -1
		var first holder
		for i, w := range t.waiting {
			h := t.of(w.owner)
			if t.free(w.owner) && (best < 0 || h.Running < first.Running || h.Running == first.Running && h.served < first.served) {
				best, first = i, h
			}
		}
		if best < 0 {
			return
		}
		w := t.waiting[best]
		t.waiting = slices.Delete(t.waiting, best, best+1)
		t.serve(w.owner, func(c *Counts) {
			c.Running++
			if w.queued {
				c.Queued--
			} else {
				c.Paused--
			}
		})
		close(w.turn)
	}
}

// park makes a job that runs one that is paused, if there is room.
func (t *turns) park(owner string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case !below(owner, t.of(owner).Paused, t.share.Paused):
		return ErrOwnerPaused.Do("Continue one of them, or send the program again after Retry-After.").After(time.Second)
	case t.all.Paused >= t.whole.Paused:
		return ErrManyPaused.Do("Send the program again after Retry-After.").After(time.Second)
	}
	t.change(owner, func(c *Counts) { c.Running--; c.Paused++ })
	t.next()
	return nil
}

// unpark waits until a paused job has a turn again, and counts it as one that
// runs. It reports false, and the job stays paused, when done is closed or ctx
// ends first.
func (t *turns) unpark(ctx context.Context, owner string, done <-chan struct{}) bool {
	w := &waiter{owner: owner, turn: make(chan struct{})}
	t.mu.Lock()
	t.waiting = append(t.waiting, w)
	t.next()
	t.mu.Unlock()
	select {
	case <-w.turn:
		return true
	case <-done:
	case <-ctx.Done():
	}
	if !t.leave(w) {
		t.back(owner)
	}
	return false
}

// back undoes unpark.
func (t *turns) back(owner string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.change(owner, func(c *Counts) { c.Running--; c.Paused++ })
	t.next()
}

// drop forgets a paused job that has ended.
func (t *turns) drop(owner string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.change(owner, func(c *Counts) { c.Paused-- })
}

// counts is what all owners hold together.
func (t *turns) counts() Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all
}
