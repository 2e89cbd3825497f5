package account

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
)

// A temporary key lives a day and is handed out for half of it, so that
// whoever gets one has at least half a day: docs/wire/refly.md#keys-of-programs.
const (
	temporaryLife  = 24 * time.Hour
	temporaryReuse = 12 * time.Hour
	temporaryMax   = 500 // users whose key is remembered
	purgeAfter     = 7 * 24 * time.Hour
)

// temporaryKeys remembers the key of each user's sandboxes.
type temporaryKeys struct {
	mu     sync.Mutex
	byUser map[string]temporaryKey
	making singleflight.Group
}

type temporaryKey struct {
	plain Plaintext
	until time.Time
}

func (t *temporaryKeys) get(uid string, now time.Time) (Plaintext, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k, ok := t.byUser[uid]
	return k.plain, ok && now.Before(k.until)
}

func (t *temporaryKeys) put(uid string, k temporaryKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byUser == nil {
		t.byUser = map[string]temporaryKey{}
	}
	if _, ok := t.byUser[uid]; !ok && len(t.byUser) >= temporaryMax {
		oldest := ""
		for u, other := range t.byUser {
			if oldest == "" || other.until.Before(t.byUser[oldest].until) {
				oldest = u
			}
		}
		delete(t.byUser, oldest)
	}
	t.byUser[uid] = k
}

func (t *temporaryKeys) forget(uid string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byUser, uid)
}

// TemporaryKey returns a key for the actor's sandboxes: it may execute tools
// and nothing else. It is made once and handed out again for twelve hours,
// unless it was revoked, in whatever process.
func (s *Service) TemporaryKey(ctx context.Context, a actor.Actor) (Plaintext, error) {
	if plain, ok := s.temporary.get(a.UID, s.now()); ok {
		_, err := s.KeyOwner(ctx, plain.Reveal())
		if err == nil || !errors.Is(err, ErrBadKey) {
			return plain, err
		}
		s.temporary.forget(a.UID)
	}
	plain, err, _ := s.temporary.making.Do(a.UID, func() (any, error) {
		if plain, ok := s.temporary.get(a.UID, s.now()); ok {
			return plain, nil
		}
		return s.makeTemporary(context.WithoutCancel(ctx), a) // others wait for it too
	})
	if err != nil {
		return "", err
	}
	return plain.(Plaintext), nil //nolint:forcetypeassert // the function above returns nothing else
}

func (s *Service) makeTemporary(ctx context.Context, a actor.Actor) (Plaintext, error) {
	now := s.now()
	expires := now.Add(temporaryLife)
	var plain Plaintext
	err := s.db.InTx(ctx, func(tx database.Tx) (err error) {
		_, plain, err = s.insertKey(tx, a.UID, "PTC_SESSION_"+a.UID, actor.ToolExecute, &expires)
		return err
	})
	if err == nil {
		s.temporary.put(a.UID, temporaryKey{plain, now.Add(temporaryReuse)})
	}
	return plain, err
}

// PurgeTemporaryKeys deletes temporary keys that expired more than a week ago
// and returns how many. It is a system job.
func (s *Service) PurgeTemporaryKeys(ctx context.Context) (n int64, err error) {
	err = s.db.InTx(ctx, func(tx database.Tx) (err error) {
		n, err = s.rows.purge(tx, s.now().Add(-purgeAfter))
		return err
	})
	return n, err
}
