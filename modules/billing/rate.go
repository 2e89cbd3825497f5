package billing

import (
	"context"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/billing/price"
)

// ErrBadRate says what rates look like.
var ErrBadRate = errs.New(errs.Invalid, "The rates of a provider are not negative, and its margin is more than 0.")

// SetRates says what a provider takes for a thousand calls. It is for
// operators.
func (s *Service) SetRates(ctx context.Context, provider string, r price.Rates) error {
	if provider == "" || r.Standard < 0 || r.Premium < 0 || r.Margin <= 0 {
		return ErrBadRate
	}
	now := s.now()
	return s.db.InTx(ctx, func(tx database.Tx) error {
		return s.rows.saveRates(tx, rateRow{
			ProviderKey: provider, Plan: "default", StandardRatePer1k: r.Standard, PremiumRatePer1k: r.Premium, Margin: r.Margin,
			Active: true, CreatedAt: now, UpdatedAt: now,
		})
	})
}

// Rates returns what a provider takes; nil where nobody has said it.
func (s *Service) Rates(ctx context.Context, provider string) (*price.Rates, error) {
	return s.rows.rates(s.db.Read(ctx), provider)
}
