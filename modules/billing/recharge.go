package billing

import (
	"context"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/money"
)

// Recharges returns a page of what the actor was given, newest first.
func (s *Service) Recharges(ctx context.Context, a actor.Actor, p httpapi.PageQuery) (httpapi.Page[Lot], error) {
	w, err := p.Window()
	if err != nil {
		return httpapi.Page[Lot]{}, err
	}
	rows, total, err := s.rows.recharges(s.db.Read(ctx), a.UID, w)
	if err != nil {
		return httpapi.Page[Lot]{}, err
	}
	return httpapi.MapPage(httpapi.PageOf(w, rows, total, func(r rechargeRow) int64 { return r.PK }), lotOf), nil
}

func lotOf(r rechargeRow) Lot {
	return Lot{
		ID: r.RechargeID, Source: r.Source, Text: database.Text(r.Description), Amount: r.Amount, Left: r.Balance,
		ExpiresAt: r.ExpiresAt.UTC(), CreatedAt: r.CreatedAt.UTC(),
	}
}

// Lot is a recharge as it was given, and what is left of it.
type Lot struct {
	ID, Source, Text     string
	Amount, Left         money.Amount
	ExpiresAt, CreatedAt time.Time
}
