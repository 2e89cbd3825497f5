package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/portico-run/portico/internal/database"
)

// Expired returns at most limit running runs, of all users, whose lease is over at a
// moment: the process that kept them is gone. Those of this process are not among
// them.
func (s *Service) Expired(ctx context.Context, now time.Time, limit int) ([]Run, error) {
	rows, err := s.repo.expired(s.db.Read(ctx), s.owner, now, limit)
	if err != nil {
		return nil, fmt.Errorf("read expired runs: %w", err)
	}
	return toRuns(rows), nil
}

// ErrTaken says that another process works on a run.
var ErrTaken = errors.New("another process goes on with the run")

// TakeOver makes this process the one that works on a running run whose process is
// gone. Of several that try at once one succeeds; the others get ErrTaken.
func (s *Service) TakeOver(_ context.Context, tx database.Tx, r Ref) error {
	return s.repo.takeOver(tx, r, s.now(), claim{owner: s.owner, than: s.owner})
}

// Leave ends the work of this process on a running run, for another one to take it
// over at once.
func (s *Service) Leave(ctx context.Context, r Ref) error {
	return s.db.InTx(ctx, func(tx database.Tx) error { return s.repo.leave(tx, r, s.owner, s.now()) })
}

// Abandon has every running run of this process looked at as if it were gone, also by
// itself.
func (s *Service) Abandon(ctx context.Context) error {
	return s.db.InTx(ctx, func(tx database.Tx) error { return s.repo.abandon(tx, s.owner, s.now()) })
}

// Postpone has a run whose process is gone looked at again at another moment.
func (s *Service) Postpone(ctx context.Context, r Ref, until time.Time) error {
	return s.db.InTx(ctx, func(tx database.Tx) error {
		err := s.repo.takeOver(tx, r, s.now(), claim{than: s.owner, until: new(until.UTC())})
		if errors.Is(err, ErrTaken) {
			return nil
		}
		return err
	})
}

// Mine returns ErrTaken unless this process works on a run, which has not ended and
// does not until the transaction ends.
func (s *Service) Mine(_ context.Context, tx database.Tx, r Ref) error {
	return s.repo.mine(tx, r, s.owner)
}
