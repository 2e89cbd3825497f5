package run

import (
	"context"
	"fmt"
	"time"

	"github.com/portico-run/portico/internal/database"
)

// Renew says that this process still keeps its running runs alive, for all
// users.
func (s *Service) Renew(ctx context.Context, until time.Time) error {
	return s.db.InTx(ctx, func(tx database.Tx) error {
		if err := s.repo.renew(tx, s.owner, until); err != nil {
			return fmt.Errorf("renew leases: %w", err)
		}
		return nil
	})
}

// Expired returns at most limit running runs, of all users, whose lease ended
// before now: the process that kept them is gone. Those of this process are not
// among them.
func (s *Service) Expired(ctx context.Context, now time.Time, limit int) ([]Run, error) {
	rows, err := s.repo.expired(s.db.Read(ctx), s.owner, now, limit)
	if err != nil {
		return nil, fmt.Errorf("read expired runs: %w", err)
	}
	return toRuns(rows), nil
}
