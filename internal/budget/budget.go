// Package budget bounds the memory that large values take at once: those of all
// users together, and those of one user.
package budget

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Budget is an amount of bytes that large values share. It is safe for
// concurrent use.
type Budget struct {
	share int64 // of one owner
	all   *semaphore.Weighted

	mu     sync.Mutex
	owners map[string]*owner
}

// owner is what one user holds at present.
type owner struct {
	bytes *semaphore.Weighted
	holds int
}

// New returns a budget of so many bytes, of which one owner may have a share.
func New(total, share int64) *Budget {
	return &Budget{share: min(share, total), all: semaphore.NewWeighted(total), owners: map[string]*owner{}}
}

// Hold is what one call has of the budget. It belongs to one goroutine.
type Hold struct {
	budget *Budget
	name   string
	owner  *owner
	whole  bool
	kept   int64 // of it, what stays
	held   int64
}

type holdKey struct{}

// Open returns a context in which Take counts for an owner, until Release.
func (b *Budget) Open(ctx context.Context, name string) (context.Context, *Hold) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o, ok := b.owners[name]
	if !ok {
		o = &owner{bytes: semaphore.NewWeighted(b.share)}
		b.owners[name] = o
	}
	o.holds++
	h := &Hold{budget: b, name: name, owner: o}
	return context.WithValue(ctx, holdKey{}, h), h
}

// Heavy says that the values of the call that ctx was opened for take many times
// their size, because they are decoded: the first one takes the whole share of its
// owner. Where no budget was opened, nothing is counted.
func Heavy(ctx context.Context) {
	if h, ok := ctx.Value(holdKey{}).(*Hold); ok {
		h.whole = true
	}
}

// Take waits until there is room for a value of so many bytes, or returns ctx's
// error. A value takes the place of the one before in the same context, since a
// call that kept one while it waits for the next could wait for itself, but not of
// those of Keep. Where no budget was opened, nothing is counted.
func Take(ctx context.Context, bytes int64) error {
	h, ok := ctx.Value(holdKey{}).(*Hold)
	if !ok {
		return nil
	}
	if bytes = min(h.kept+bytes, h.budget.share); h.whole {
		bytes = h.budget.share
	}
	if bytes <= h.held {
		return nil
	}
	h.give()
	if err := h.owner.bytes.Acquire(ctx, bytes); err != nil {
		return err
	}
	if err := h.budget.all.Acquire(ctx, bytes); err != nil {
		h.owner.bytes.Release(bytes)
		return err
	}
	h.held = bytes
	return nil
}

// Keep is Take for a value that stays until Release, beside all that come after it.
func Keep(ctx context.Context, bytes int64) error {
	if h, ok := ctx.Value(holdKey{}).(*Hold); ok {
		h.kept += bytes
	}
	return Take(ctx, 0)
}

func (h *Hold) give() {
	h.owner.bytes.Release(h.held)
	h.budget.all.Release(h.held)
	h.held = 0
}

// Release gives back what the call took.
func (h *Hold) Release() {
	h.give()
	h.budget.mu.Lock()
	defer h.budget.mu.Unlock()
	if h.owner.holds--; h.owner.holds == 0 {
		delete(h.budget.owners, h.name)
	}
}
