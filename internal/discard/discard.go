// Package discard takes away objects that no row names any more. Whoever deletes the
// last row that names an object writes its key down in the same transaction, so that
// nothing refers to an object that is gone, and no object stays when a process dies in
// between.
package discard

import (
	"context"
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
		pks := make([]int64, len(rows))
		for i, r := range rows {
			pks[i] = r.PK
			if err := s.objects.Delete(ctx, r.Key); err != nil {
				return n, fmt.Errorf("take %s away: %w", r.Key, err)
			}
		}
		if err := s.db.InTx(ctx, func(tx database.Tx) error { return s.rows.done(tx, pks) }); err != nil {
			return n, err
		}
		n += len(rows)
	}
}
