// Package discard takes away objects that no row names any more. Whoever deletes the
// last row that names an object writes its key down in the same transaction, so that
// nothing refers to an object that is gone, and no object stays when a process dies in
// between.
package discard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/objectstore"
)

// Later writes down objects of a user that are to go once the transaction is committed.
// Their keys must never be used again.
func Later(tx database.Tx, uid string, now time.Time, keys ...string) error {
	if len(keys) == 0 {
		return nil
	}
	rows := make([]row, len(keys))
	for i, key := range keys {
		rows[i] = row{UID: uid, Key: key, DueAt: now}
	}
	return repository{}.insert(tx, rows)
}

// Waits reports whether an object of a user is written down and not known to be gone.
func Waits(tx database.Tx, uid, key string) (bool, error) {
	return repository{}.waits(tx, uid, key)
}

// Service takes objects away.
type Service struct {
	db      *database.DB
	objects objectstore.Store
	rows    repository
}

// New returns a service and starts nothing.
func New(db *database.DB, objects objectstore.Store) *Service {
	return &Service{db: db, objects: objects}
}

const (
	// batch is how many objects are taken at once.
	batch = 100
	// claim is how long one process has for them.
	claim = 10 * time.Minute
	// patience is how long Try may take.
	patience = 10 * time.Second
)

// Run takes away what is due at a moment, and returns how much that was. What it does
// not come to is due again later.
func (s *Service) Run(ctx context.Context, now time.Time) (n int, err error) {
	for {
		var rows []row
		err := s.db.InTx(ctx, func(tx database.Tx) (err error) {
			rows, err = s.rows.take(tx, now, now.Add(claim), batch)
			return err
		})
		if err != nil || len(rows) == 0 {
			return n, err
		}
		var pks []int64
		var refused []error
		for _, r := range rows { // one that cannot go keeps none of the others
			if err := s.objects.Delete(ctx, r.Key); err != nil {
				refused = append(refused, fmt.Errorf("take %s away: %w", r.Key, err))
				continue
			}
			pks = append(pks, r.PK)
		}
		err = s.db.InTx(ctx, func(tx database.Tx) error { return s.rows.done(tx, pks) })
		if err = errors.Join(err, errors.Join(refused...)); err != nil {
			return n, err
		}
		n += len(rows)
	}
}

// Try takes objects of a user away that were written down a moment ago, so that few wait
// for Run. What the storage refuses, Run tries again and tells of: nobody waits for it.
func (s *Service) Try(ctx context.Context, uid string, keys ...string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	var gone []string
	for _, key := range keys {
		if s.objects.Delete(ctx, key) != nil {
			break
		}
		gone = append(gone, key)
	}
	if len(gone) > 0 {
		_ = s.db.InTx(ctx, func(tx database.Tx) error { return s.rows.forget(tx, uid, gone) }) // or Run does
	}
}
