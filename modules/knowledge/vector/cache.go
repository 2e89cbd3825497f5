package vector

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/portico-run/portico/internal/flight"
)

// ErrTooLarge is the answer for a collection whose vectors are larger than the
// memory for all of them.
var ErrTooLarge = errors.New("the vectors of the collection are larger than the memory for them")

// Source reads the vectors of a collection.
type Source interface {
	// Rows lists the rows that have a vector of a model, in their order.
	Rows(ctx context.Context, k Key) ([]int64, error)
	// Load reads the vectors of some of these rows. Rows that are gone are left out.
	Load(ctx context.Context, k Key, rows []int64) ([]Entry, error)
}

// Key names the vectors of a collection that are of one model.
type Key struct {
	Collection int64
	Model      string
	Dimensions int
}

// Cache keeps sets in memory, up to a size in bytes for all of them. Those that
// were not used for longest go first.
type Cache struct {
	source Source
	most   int64
	now    func() time.Time

	flights flight.Group[versioned, *Set]
	// turn lets one set at a time be read: several would not know of each other's
	// memory.
	turn chan struct{}
	mu   sync.Mutex
	held map[Key]*kept
	size int64
}

// versioned is a state of a collection.
type versioned struct {
	Key

	version int64
}

type kept struct {
	set     *Set
	version int64
	used    time.Time
	// loaded is how many entries were read for the set or those it was made of.
	loaded int
}

// NewCache makes a cache of so many bytes.
func NewCache(source Source, most int64) *Cache {
	return &Cache{source: source, most: most, now: time.Now, turn: make(chan struct{}, 1), held: map[Key]*kept{}}
}

// Get returns the vectors of a collection as they are at a version, or later.
// Of a collection that changed only what is new is read. It is ErrTooLarge where
// they do not fit; whoever wants the same at once shares the reading.
func (c *Cache) Get(ctx context.Context, k Key, version int64) (*Set, error) {
	if set := c.known(k, version); set != nil {
		return set, nil
	}
	return c.flights.Do(ctx, versioned{k, version}, func(ctx context.Context) (*Set, error) { return c.load(ctx, k, version) })
}

func (c *Cache) known(k Key, version int64) *Set {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.held[k]
	if h == nil || h.version < version {
		return nil
	}
	h.used = c.now()
	return h.set
}

// batch is how many vectors are read with one query.
const batch = 1000

func (c *Cache) load(ctx context.Context, k Key, version int64) (*Set, error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	rows, err := c.source.Rows(ctx, k)
	if err != nil {
		return nil, err
	}
	if SizeOf(int64(len(rows)), k.Dimensions) > c.most {
		c.forget(k)
		return nil, ErrTooLarge
	}
	c.mu.Lock()
	old := c.held[k]
	c.mu.Unlock()
	have, loaded := map[int64]Entry{}, 0
	// Vectors are in memory by batches: one that is gone holds its batch as long
	// as another of it is there. With more gone than there, all are read anew.
	switch {
	case old == nil:
	case old.loaded > 2*len(rows):
		c.forget(k)
	default:
		loaded = old.loaded
		for _, e := range old.set.entries {
			have[e.PK] = e
		}
	}
	return c.complete(ctx, k, rows, &kept{version: version, loaded: loaded}, have)
}

// complete reads what is missing of some rows, and keeps the set of all.
func (c *Cache) complete(ctx context.Context, k Key, rows []int64, h *kept, have map[int64]Entry) (*Set, error) {
	missing := slices.DeleteFunc(slices.Clone(rows), func(pk int64) bool { _, there := have[pk]; return there })
	c.room(k, SizeOf(int64(len(rows)), k.Dimensions))
	for some := range slices.Chunk(missing, batch) {
		entries, err := c.source.Load(ctx, k, some)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			have[e.PK] = e
		}
		h.loaded += len(entries)
	}
	entries := make([]Entry, 0, len(rows))
	for _, pk := range rows {
		if e, there := have[pk]; there {
			entries = append(entries, e)
		}
	}
	h.set, h.used = NewSet(entries), c.now()
	c.keep(k, h)
	return h.set, nil
}

// keep remembers a set, unless a later one is there.
func (c *Cache) keep(k Key, h *kept) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.held[k]; old != nil && old.version > h.version {
		return
	}
	c.drop(k)
	c.held[k] = h
	c.size += h.set.size
	c.shrink(k, 0)
}

// room lets go of other sets until so many bytes are free, before they are read.
func (c *Cache) room(k Key, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.held[k]; old != nil {
		bytes -= old.set.size
	}
	c.shrink(k, bytes)
}

// shrink drops sets until more fits beside them, the longest unused first; the
// lock is held.
func (c *Cache) shrink(but Key, more int64) {
	for c.size+more > c.most {
		var oldest Key
		var at *kept
		for k, h := range c.held {
			if k != but && (at == nil || h.used.Before(at.used)) {
				oldest, at = k, h
			}
		}
		if at == nil {
			return
		}
		c.drop(oldest)
	}
}

// drop forgets a set; the lock is held.
func (c *Cache) drop(k Key) {
	if h := c.held[k]; h != nil {
		c.size -= h.set.size
		delete(c.held, k)
	}
}

func (c *Cache) forget(k Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(k)
}

// Size is how many bytes are in use.
func (c *Cache) Size() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.size
}
