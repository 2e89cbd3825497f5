package billing

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/portico-run/portico/modules/internal/actor"
	"github.com/portico-run/portico/modules/internal/database"
	"github.com/portico-run/portico/modules/internal/httpapi"
	"github.com/portico-run/portico/modules/internal/ids"
	"github.com/portico-run/portico/modules/internal/money"
)

// Service keeps credits.
type Service struct {
	Deps
	rows repository
}

// Charge pays for one completed call in the caller's transaction, so that the
// call is completed and billed, or neither. Charging a call again changes
// nothing and returns the first receipt. A call that costs nothing by the
// list leaves no row.
func (s *Service) Charge(_ context.Context, tx database.Tx, c Charge) (Receipt, error) {
	if !c.Global || c.Price <= 0 {
		return Receipt{}, nil
	}
	now := s.Now()
	plus, err := s.rows.lockUser(tx, c.UID, now.AddDate(0, -1, 0), now)
	if err != nil {
		return Receipt{}, err
	}
	receipt := Receipt{Amount: c.Price, Due: c.Price}
	// The one rule for what costs nothing: a toolset on the free list, or a
	// user whose Plus subscription is younger than a calendar month.
	if plus || slices.Contains(s.FreeToolsets, c.Toolset) {
		receipt.Amount = 0
	}
	written, err := s.record(tx, c, receipt)
	if err != nil {
		return Receipt{}, err
	}
	if !written {
		row, err := s.rows.usageOf(tx.Handle, c.UID, c.CallID)
		return Receipt{Amount: row.Amount, Due: row.DueAmount}, err
	}
	return receipt, s.deduct(tx, c.UID, "call "+c.CallID, receipt.Amount)
}

func (s *Service) record(tx database.Tx, c Charge, r Receipt) (written bool, err error) {
	meta, err := json.Marshal(map[string]string{"toolName": c.Tool, "toolsetKey": c.Toolset})
	if err != nil {
		return false, err
	}
	row := usageRow{
		UsageID: ids.New(ids.Usage), UID: c.UID, Amount: r.Amount, DueAmount: r.Due, UsageType: toolCall,
		ActionResultID: optional(c.ResultID), Description: optional(fmt.Sprintf("Tool call: %s.%s", c.Toolset, c.Tool)),
		ToolCallID: &c.CallID, ToolCallMeta: optional(string(meta)), CreatedAt: s.Now(),
	}
	if c.ResultID != "" {
		row.Version = &c.Version
	}
	return s.rows.insertUsage(tx, row)
}

// ChargeModel pays for one answer of a model in the caller's transaction, which
// also records the answer. An answer that costs nothing leaves no row. What is
// free for tools is not free here.
func (s *Service) ChargeModel(_ context.Context, tx database.Tx, c ModelCharge) error {
	if c.Price <= 0 {
		return nil
	}
	if _, err := s.rows.lockUser(tx, c.UID, s.Now(), s.Now()); err != nil {
		return err
	}
	details, err := json.Marshal(map[string]int64{"inputTokens": c.Input, "outputTokens": c.Output})
	if err != nil {
		return err
	}
	_, err = s.rows.insertUsage(tx, usageRow{
		UsageID: ids.New(ids.Usage), UID: c.UID, Amount: c.Price, DueAmount: c.Price, UsageType: modelCall,
		ActionResultID: optional(c.ResultID), Version: &c.Version, Description: optional("Model call: " + c.Model),
		ModelName: optional(c.Model), ModelUsageDetails: optional(string(details)), CreatedAt: s.Now(),
	})
	if err != nil {
		return err
	}
	return s.deduct(tx, c.UID, "run "+c.ResultID, c.Price)
}

// deduct takes credits from the recharges that expire first; what they do not
// cover becomes a debt, for which there is a reason.
func (s *Service) deduct(tx database.Tx, uid, reason string, amount money.Amount) error {
	now := s.Now()
	lots, err := s.rows.live(tx.Handle, uid, now)
	if err != nil {
		return err
	}
	for _, lot := range lots {
		if amount == 0 {
			return nil
		}
		part := min(amount, lot.Balance)
		lot.Balance -= part
		amount -= part
		if err := s.rows.setRecharge(tx, lot, now); err != nil {
			return err
		}
	}
	if amount == 0 {
		return nil
	}
	return s.rows.insertDebt(tx, debtRow{
		DebtID: ids.New(ids.Debt), UID: uid, Amount: amount, Balance: amount, Enabled: true, Source: overdraft,
		Description: optional("Overdraft by " + reason), CreatedAt: now, UpdatedAt: now,
	})
}

// Grant gives credits to a user once per recharge id: open debts are paid
// from them first, the oldest first. It is for operators, not for users.
func (s *Service) Grant(ctx context.Context, uid string, r Recharge) error {
	now := s.Now()
	if r.ID == "" || r.Amount <= 0 || r.Amount > money.Max || !r.ExpiresAt.After(now) {
		return ErrBadRecharge
	}
	return s.DB.InTx(ctx, func(tx database.Tx) error {
		if _, err := s.rows.lockUser(tx, uid, s.Now(), s.Now()); err != nil {
			return err
		}
		if before, seen, err := s.rows.recharge(tx.Handle, r.ID); err != nil || seen {
			if seen && before.UID != uid {
				return ErrGrantForeign
			}
			return err
		}
		row := rechargeRow{
			RechargeID: r.ID, UID: uid, Amount: r.Amount, Balance: r.Amount, Enabled: true, Source: r.Source,
			Description: optional(r.Text), ExpiresAt: r.ExpiresAt.UTC(), CreatedAt: now, UpdatedAt: now,
		}
		if err := s.rows.insertRecharge(tx, &row); err != nil {
			return err
		}
		return s.payDebts(tx, row)
	})
}

func (s *Service) payDebts(tx database.Tx, lot rechargeRow) error {
	now := s.Now()
	debts, err := s.rows.openDebts(tx.Handle, lot.UID)
	if err != nil {
		return err
	}
	for _, d := range debts {
		part := min(lot.Balance, d.Balance)
		if part == 0 {
			break
		}
		lot.Balance -= part
		d.Balance -= part
		if err := s.rows.setDebt(tx, d, now); err != nil {
			return err
		}
	}
	if lot.Balance == lot.Amount {
		return nil
	}
	return s.rows.setRecharge(tx, lot, now)
}

// Balance is what the actor has.
func (s *Service) Balance(ctx context.Context, a actor.Actor) (Balance, error) {
	var b Balance
	err := s.DB.InSnapshot(ctx, func(h database.Handle) error {
		lots, err := s.rows.live(h, a.UID, s.Now())
		if err != nil {
			return err
		}
		debts, err := s.rows.openDebts(h, a.UID)
		if err != nil {
			return err
		}
		for _, lot := range lots {
			b.Credit += lot.Amount
			b.Net += lot.Balance
		}
		for _, d := range debts {
			b.Debt += d.Balance
		}
		b.Net -= b.Debt
		return nil
	})
	return b, err
}

// Usages returns a page of what the actor was charged, newest first.
func (s *Service) Usages(ctx context.Context, a actor.Actor, p httpapi.PageQuery) (httpapi.Page[Usage], error) {
	before, err := httpapi.DecodeCursor(p.Cursor)
	if err != nil {
		return httpapi.Page[Usage]{}, err
	}
	rows, err := s.rows.usages(s.DB.Read(ctx), a.UID, before, p.Limit+1)
	if err != nil {
		return httpapi.Page[Usage]{}, err
	}
	return httpapi.PageOf(rows, p.Limit, func(u Usage) int64 { return u.PK }), nil
}

// ResultTotal is what a run of the actor's cost; a nil version is all of them.
// A run that is not the actor's cost the actor nothing.
func (s *Service) ResultTotal(ctx context.Context, a actor.Actor, resultID string, version *int) (Total, error) {
	rows, err := s.rows.ofResult(s.DB.Read(ctx), a.UID, resultID, version)
	var t Total
	for _, u := range rows {
		t.Total += u.Due
		t.Charged += u.Amount
	}
	return t, err
}
