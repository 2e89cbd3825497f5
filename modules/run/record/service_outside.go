package record

import (
	"context"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/modules/run"
)

// Find is Call within a transaction.
func (s *Service) Find(tx database.Tx, uid, callID string) (Call, error) {
	return s.rows.byID(tx.Handle, uid, callID)
}

// Register records a program that a service beside this server executes until
// the call's ExpiresAt, with its event.
func (s *Service) Register(ctx context.Context, tx database.Tx, c Call) error {
	if err := s.rows.insert(tx, c, claim{owner: run.Outside, until: new(c.ExpiresAt)}); err != nil {
		return err
	}
	return s.tell(ctx, tx, c, run.ToolCallStart)
}

// CountOutside counts the user's programs that are executed outside now.
func (s *Service) CountOutside(tx database.Tx, uid string) (int64, error) {
	return s.rows.outside(tx.Handle, uid)
}

// LockOutside returns the programs of a run that are executed outside now, or
// only the one that is named, and holds their rows until the transaction ends.
func (s *Service) LockOutside(tx database.Tx, r run.Ref, callID string) ([]Call, error) {
	return s.rows.lockOutside(tx, r, callID)
}

// Seal lets those programs make no more calls.
func (s *Service) Seal(ctx context.Context, r run.Ref, callID string) error {
	return s.db.InTx(ctx, func(tx database.Tx) error { return s.rows.seal(tx, r, callID) })
}
