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

// usage is what is counted of an owner, or of all.
type usage struct {
	Counts

	starting int   // of the queued, those that wait in the room of paused jobs
	bytes    int64 // that the queued hold
}

// add adds another, n times.
func (u *usage) add(other usage, n int) {
	u.Running += n * other.Running
	u.Queued += n * other.Queued
	u.Paused += n * other.Paused
	u.starting += n * other.starting
	u.bytes += int64(n) * other.bytes
}

// The states of a job.
func running() usage { return usage{Counts: Counts{Running: 1}} }
func paused() usage  { return usage{Counts: Counts{Paused: 1}} }

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
	bytes        int64 // that all queued jobs may hold

	mu      sync.Mutex
	all     usage
	owners  map[string]*holder // that hold anything
	served  int                // turns that were given
	waiting []*waiter          // whoever came first is first
}

// holder is an owner, with the number of the last turn it was given.
type holder struct {
	usage

	served int
}

// waiter is a job that waits for a turn, and what it is counted as meanwhile:
// paused, or queued before its first turn.
type waiter struct {
	owner string
	as    usage
	turn  chan struct{} // closed when it has one
}

// wish is what a job asks for before its first turn.
type wish struct {
	owner    string
	bytes    int64         // that it holds while it waits
	patience time.Duration // in the queue
	// starting is how long it waits in the room of paused jobs; zero for a job
	// that may not.
	starting time.Duration
}

func newTurns(whole, share Counts, bytes int64) *turns {
	return &turns{whole: whole, share: share.quarters(whole), bytes: bytes, owners: map[string]*holder{}}
}

// change counts a job of an owner as something else. The caller holds mu.
func (t *turns) change(owner string, from, to usage) {
	h := t.owners[owner]
	if h == nil {
		h = &holder{}
		t.owners[owner] = h
	}
	for _, u := range []*usage{&t.all, &h.usage} {
		u.add(from, -1)
		u.add(to, 1)
	}
	if h.usage == (usage{}) {
		delete(t.owners, owner)
	}
}

// serve gives a job of an owner a turn. The caller holds mu.
func (t *turns) serve(owner string, from usage) {
	t.change(owner, from, running())
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

// place is what a job is counted as that waits for its first turn. It returns
// why there is no place for it. The caller holds mu.
func (t *turns) place(w wish) (as usage, refused *errs.Error) {
	own := t.of(w.owner)
	as = usage{Counts: Counts{Queued: 1}, bytes: w.bytes}
	if w.starting > 0 && below(w.owner, own.starting+own.Paused, t.share.Paused) && t.all.starting+t.all.Paused < t.whole.Paused {
		as.starting = 1
	}
	ordinary := as.starting == 0
	large := func(held, most int64) bool { return held > 0 && held+w.bytes > most }
	switch {
	case ordinary && !below(w.owner, own.Queued-own.starting, t.share.Queued), w.owner != "" && large(own.bytes, t.bytes/4):
		return as, ErrOwnerBusy.Do("Wait for one to end; send the program again after Retry-After.")
	case ordinary && t.all.Queued-t.all.starting >= t.whole.Queued, large(t.all.bytes, t.bytes):
		return as, ErrBusy.Do("Send the program again after Retry-After.")
	}
	return as, nil
}

// take waits for a first turn, as long as the job is patient.
func (t *turns) take(ctx context.Context, asked wish) error {
	owner := asked.owner
	t.mu.Lock()
	if t.free(owner) {
		t.serve(owner, usage{})
		t.mu.Unlock()
		return nil
	}
	as, refused := t.place(asked)
	if refused != nil {
		t.mu.Unlock()
		return refused.After(time.Second)
	}
	w := &waiter{owner: owner, as: as, turn: make(chan struct{})}
	t.waiting = append(t.waiting, w)
	t.change(owner, usage{}, as)
	t.mu.Unlock()

	patience := asked.patience
	if as.starting > 0 {
		patience = max(patience, asked.starting)
	}
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
	if w.as.Queued > 0 { // otherwise it stays paused
		t.change(w.owner, w.as, usage{})
	}
	return true
}

// give takes a turn back.
func (t *turns) give(owner string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.change(owner, running(), usage{})
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
		t.serve(w.owner, w.as)
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
	t.change(owner, running(), paused())
	t.next()
	return nil
}

// unpark waits until a paused job has a turn again, and counts it as one that
// runs. It reports false, and the job stays paused, when done is closed or ctx
// ends first.
func (t *turns) unpark(ctx context.Context, owner string, done <-chan struct{}) bool {
	w := &waiter{owner: owner, as: paused(), turn: make(chan struct{})}
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
	t.change(owner, running(), paused())
	t.next()
}

// drop forgets a paused job that has ended.
func (t *turns) drop(owner string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.change(owner, paused(), usage{})
}

// held is what an owner holds.
func (t *turns) held(owner string) Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.of(owner).Counts
}

// counts is what all owners hold together.
func (t *turns) counts() Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all.Counts
}
