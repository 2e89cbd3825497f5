package billing

import (
	"context"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/money"
)

// ErrNotBilled says that there is nothing to give back.
var ErrNotBilled = errs.New(errs.NotFound, "This user was not charged for such a call.").Do("Check the call id; portico credit report lists what was charged.")

// refundLife is for how many days given-back credits can be spent, as long as
// bought ones.
const refundLife = 90

// Refund gives back what a call cost, once, as a recharge: what was charged
// stays in the books as it was. It is for operators.
func (s *Service) Refund(ctx context.Context, uid, callID, reason string) (money.Amount, error) {
	var amount money.Amount
	err := s.db.InTx(ctx, func(tx database.Tx) error {
		now := s.now()
		if _, err := s.rows.lockUser(tx, uid, now); err != nil {
			return err
		}
		usage, err := s.rows.usageOf(tx.Handle, uid, callID)
		if err != nil || usage.Amount <= 0 {
			return absentAs(err, ErrNotBilled)
		}
		amount = usage.Amount
		id := "cr-refund-" + callID
		if _, seen, err := s.rows.rechargeByID(tx.Handle, id); err != nil || seen {
			return err
		}
		return s.recharge(tx, rechargeRow{
			RechargeID: id, UID: uid, Amount: amount, Balance: amount, Enabled: true, Source: "refund", Description: database.Optional(reason),
			ExpiresAt: now.AddDate(0, 0, refundLife), CreatedAt: now, UpdatedAt: now,
		})
	})
	return amount, err
}
