// Package cached keeps facts that were read a moment ago, so that who asks for
// them again and again costs one read in a while.
package cached

import (
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/portico-run/portico/internal/flight"
)

// Settings bound a Cache.
type Settings struct {
	// Max is how many facts are kept. Where there is no room, the one goes that
	// nobody has asked for the longest. Those that are too old go as others come, so
	// that a cache holds no more than what was asked for lately.
	Max int
	// Age is how old a fact may be, counted from before it was read. With zero,
	// none is kept.
	Age time.Duration
	// Now tells the time; nil is the wall clock.
	Now func() time.Time
}

// Cache keeps facts by keys. A key names everything that the fact depends on,
// its tenant included. It is safe for concurrent use.
//
// What is returned is shared with others who ask: nobody changes it.
type Cache[K comparable, V any] struct {
	settings Settings
	reads    flight.Group[reading[K], V]

	mu      sync.Mutex
	entries map[K]entry[V]
	order   *list.List // of keys, the one that was asked for last in front
	dropped uint64     // how often facts were dropped
}

type entry[V any] struct {
	value V
	since time.Time     // when it began to be read
	place *list.Element // in the order
}

// reading names a read that callers may share: one that began neither before
// facts were dropped nor long ago.
type reading[K comparable] struct {
	key     K
	dropped uint64
	period  int64
}

// New returns an empty cache.
func New[K comparable, V any](s Settings) *Cache[K, V] {
	if s.Now == nil {
		s.Now = time.Now
	}
	return &Cache[K, V]{settings: s, entries: map[K]entry[V]{}, order: list.New()}
}

// Get returns the fact that is kept, or reads it. Callers that miss the same one
// at once share a read. A failure is not kept.
func (c *Cache[K, V]) Get(ctx context.Context, key K, read func(ctx context.Context) (V, error)) (V, error) {
	if c.settings.Age <= 0 || c.settings.Max <= 0 {
		return read(ctx)
	}
	now := c.settings.Now()
	value, dropped, ok := c.find(key, now)
	if ok {
		return value, nil
	}
	mine := reading[K]{key, dropped, now.UnixNano() / int64(c.settings.Age)}
	return c.reads.Do(ctx, mine, func(ctx context.Context) (V, error) {
		value, err := read(ctx)
		if err == nil {
			c.keep(key, value, now, dropped)
		}
		return value, err
	})
}

// Drop forgets the facts that may have changed, and what is being read now: that
// may be from before the change.
func (c *Cache[K, V]) Drop(stale func(key K, value V) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropped++
	for key, e := range c.entries {
		if stale(key, e.value) {
			c.forget(key)
		}
	}
}

func (c *Cache[K, V]) find(key K, now time.Time) (value V, dropped uint64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[key]
	if age := now.Sub(e.since); !ok || age < 0 || age >= c.settings.Age { // below zero, the clock was set back
		return value, c.dropped, false
	}
	c.order.MoveToFront(e.place)
	return e.value, c.dropped, true
}

// keep stores a fact unless facts were dropped while it was read.
func (c *Cache[K, V]) keep(key K, value V, since time.Time, dropped uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if dropped != c.dropped || c.entries[key].since.After(since) {
		return
	}
	c.forget(key)
	now := c.settings.Now()
	for last := c.order.Back(); last != nil; last = c.order.Back() {
		oldest := last.Value.(K) //nolint:forcetypeassert // the order holds nothing else
		if c.order.Len() < c.settings.Max && now.Sub(c.entries[oldest].since) < c.settings.Age {
			break
		}
		c.forget(oldest)
	}
	c.entries[key] = entry[V]{value, since, c.order.PushFront(key)}
}

func (c *Cache[K, V]) forget(key K) {
	if e, ok := c.entries[key]; ok {
		c.order.Remove(e.place)
		delete(c.entries, key)
	}
}
