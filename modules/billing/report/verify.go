package report

import (
	"context"
	"fmt"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/money"
)

// Books are one user's three columns of the ledger. Everything that was charged
// was taken from a recharge, or is owed.
type Books struct {
	UID     string
	Charged money.Amount // by all usages
	Taken   money.Amount // from all recharges
	Owed    money.Amount // by all debts that are open
}

// Balanced reports whether the columns agree.
func (b Books) Balanced() bool { return b.Charged == b.Taken+b.Owed }

// String is a sentence for an operator.
func (b Books) String() string {
	return fmt.Sprintf("%s was charged %s; %s were taken from recharges and %s are owed", b.UID, b.Charged, b.Taken, b.Owed)
}

// Verify reads the books of every user, and returns those that do not balance.
// It is for operators.
func (s *Service) Verify(ctx context.Context) (users int, wrong []Books, err error) {
	all, err := s.rows.users(s.db.Read(ctx))
	if err != nil {
		return 0, nil, err
	}
	for _, uid := range all {
		var b Books
		err := s.db.InSnapshot(ctx, func(h database.Handle) error {
			b, err = s.rows.books(h, uid)
			return err
		})
		if err != nil {
			return users, wrong, err
		}
		users++
		if !b.Balanced() {
			wrong = append(wrong, b)
		}
	}
	return users, wrong, nil
}
