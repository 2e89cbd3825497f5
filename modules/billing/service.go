package billing

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/money"
)

// Service keeps credits.
type Service struct {
	db           *database.DB
	freeToolsets []string
	limits       Limits // of users without limits of their own
	now          func() time.Time
	rows         repository
	remembered   *limitCache
	ways         ways
}

// Charge pays for one completed call in the caller's transaction, so that the
// call is completed and billed, or neither. Charging a call again changes
// nothing and returns the first receipt. A call that costs nothing by the
// list leaves no row.
func (s *Service) Charge(_ context.Context, tx database.Tx, c Charge) (Receipt, error) {
	if !c.Global || c.Price <= 0 {
		return Receipt{}, nil // a user's own toolset, or nothing by the list
	}
	if b := tx.Batch(); b != nil {
		if s.ways.oneByOne(c.UID) {
			return Receipt{}, database.ErrOneByOne
		}
		return s.queue(b, c)
	}
	who, err := s.rows.lockUser(tx, c.UID, s.now())
	if err != nil {
		return Receipt{}, err
	}
	receipt := Receipt{Amount: c.Price, Due: c.Price}
	if s.free(c, who) {
		receipt.Amount = 0
	}
	usage, err := s.usageOf(c, receipt)
	if err != nil {
		return Receipt{}, err
	}
	written, err := s.rows.insertUsage(tx, usage)
	if err != nil {
		return Receipt{}, err
	}
	if !written {
		row, err := s.rows.usageOf(tx.Handle, c.UID, c.CallID)
		return Receipt{Amount: row.Amount, Due: row.DueAmount}, err
	}
	if err := s.deduct(tx, who, "call "+c.CallID, receipt.Amount); err != nil {
		return Receipt{}, err
	}
	return receipt, s.learn(tx, who, c.Price)
}

// queue is Charge in a transaction that is sent as a whole, for a user without a
// Plus subscription, on a server without plans, whose next recharge covers the
// call.
func (s *Service) queue(b *database.Batch, c Charge) (Receipt, error) {
	receipt := Receipt{Amount: c.Price, Due: c.Price}
	if s.free(c, payer{}) {
		receipt.Amount = 0
	}
	usage, err := s.usageOf(c, receipt)
	if err != nil {
		return Receipt{}, err
	}
	s.rows.queueLock(b, c.UID, s.now())
	s.rows.queueUsage(b, usage)
	return receipt, nil
}

// free is the one rule for what costs nothing: a user's own toolset, a toolset
// on the free list, or a user whose Plus subscription is younger than a
// calendar month.
func (s *Service) free(c Charge, who payer) bool {
	return !c.Global || who.Plus || slices.Contains(s.freeToolsets, c.Toolset)
}

func (s *Service) usageOf(c Charge, r Receipt) (usageRow, error) {
	meta, err := json.Marshal(map[string]string{"toolName": c.Tool, "toolsetKey": c.Toolset})
	row := usageRow{
		UsageID: ids.New(ids.Usage), UID: c.UID, Amount: r.Amount, DueAmount: r.Due, UsageType: toolCall,
		ActionResultID: database.Optional(c.ResultID), Description: database.Optional(fmt.Sprintf("Tool call: %s.%s", c.Toolset, c.Tool)),
		ToolCallID: &c.CallID, ToolCallMeta: database.Optional(string(meta)), CreatedAt: s.now(),
	}
	if c.ResultID != "" {
		row.Version = &c.Version
	}
	return row, err
}

// ChargeModel pays for one answer of a model in the caller's transaction, which
// also records the answer. An answer that costs nothing leaves no row. What is
// free for tools is not free here.
func (s *Service) ChargeModel(_ context.Context, tx database.Tx, c ModelCharge) error {
	if c.Price <= 0 {
		return nil
	}
	who, err := s.rows.lockUser(tx, c.UID, s.now())
	if err != nil {
		return err
	}
	tokens := map[string]int64{"inputTokens": c.Input, "outputTokens": c.Output}
	if c.Cached > 0 || c.Written > 0 {
		tokens["cacheReadTokens"], tokens["cacheWriteTokens"] = c.Cached, c.Written
	}
	details, err := json.Marshal(tokens)
	if err != nil {
		return err
	}
	_, err = s.rows.insertUsage(tx, usageRow{
		UsageID: ids.New(ids.Usage), UID: c.UID, Amount: c.Price, DueAmount: c.Price, UsageType: modelCall,
		ActionResultID: database.Optional(c.ResultID), Version: &c.Version, Description: database.Optional("Model call: " + c.Model),
		ModelName: database.Optional(c.Model), ModelUsageDetails: database.Optional(string(details)), CreatedAt: s.now(),
	})
	if err != nil {
		return err
	}
	return s.deduct(tx, who, "run "+c.ResultID, c.Price)
}

// deduct takes credits from the recharges that expire first; what they do not
// cover becomes a debt, for which there is a reason.
func (s *Service) deduct(tx database.Tx, who payer, reason string, amount money.Amount) error {
	now := s.now()
	if amount == 0 {
		return nil
	}
	if err := s.allowances(tx, who, now); err != nil {
		return err
	}
	lots, err := s.rows.live(tx.Handle, who.UID, now)
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
		DebtID: ids.New(ids.Debt), UID: who.UID, Amount: amount, Balance: amount, Enabled: true, Source: overdraft,
		Description: database.Optional("Overdraft by " + reason), CreatedAt: now, UpdatedAt: now,
	})
}

// Grant gives credits to a user once per recharge id: open debts are paid
// from them first, the oldest first. It is for operators, not for users.
func (s *Service) Grant(ctx context.Context, uid string, r Recharge) error {
	now := s.now()
	if r.ID == "" || r.Amount <= 0 || r.Amount > money.Max || !r.ExpiresAt.After(now) {
		return ErrBadRecharge
	}
	return s.db.InTx(ctx, func(tx database.Tx) error {
		if _, err := s.rows.lockUser(tx, uid, now); err != nil {
			return err
		}
		if before, seen, err := s.rows.rechargeByID(tx.Handle, r.ID); err != nil || seen {
			if seen && before.UID != uid {
				return ErrGrantForeign
			}
			return err
		}
		return s.recharge(tx, rechargeRow{
			RechargeID: r.ID, UID: uid, Amount: r.Amount, Balance: r.Amount, Enabled: true, Source: r.Source,
			Description: database.Optional(r.Text), ExpiresAt: r.ExpiresAt.UTC(), CreatedAt: now, UpdatedAt: now,
		})
	})
}

// recharge writes a recharge first and then pays debts from it: its id says
// that it was given, even where the debts take all of it.
func (s *Service) recharge(tx database.Tx, lot rechargeRow) error {
	if err := s.rows.insertRecharge(tx, &lot); err != nil {
		return err
	}
	now := s.now()
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

// Balance is what the actor has, with what the plan gives today.
func (s *Service) Balance(ctx context.Context, a actor.Actor) (Balance, error) {
	if err := s.give(ctx, a.UID); err != nil {
		return Balance{}, err
	}
	var b Balance
	err := s.db.InSnapshot(ctx, func(h database.Handle) (err error) {
		b, err = s.balance(h, a.UID)
		return err
	})
	return b, err
}

func (s *Service) balance(h database.Handle, uid string) (Balance, error) {
	lots, err := s.rows.live(h, uid, s.now())
	if err != nil {
		return Balance{}, err
	}
	debts, err := s.rows.openDebts(h, uid)
	if err != nil {
		return Balance{}, err
	}
	var b Balance
	for _, lot := range lots {
		b.Credit += lot.Amount
		b.Regular += lot.Balance
	}
	for _, d := range debts {
		b.Debt += d.Balance
	}
	b.Net = b.Regular - b.Debt
	return b, nil
}

// Usages returns a page of what the actor was charged, newest first.
func (s *Service) Usages(ctx context.Context, a actor.Actor, p httpapi.PageQuery) (httpapi.Page[Usage], error) {
	w, err := p.Window()
	if err != nil {
		return httpapi.Page[Usage]{}, err
	}
	rows, total, err := s.rows.usages(s.db.Read(ctx), a.UID, w)
	if err != nil {
		return httpapi.Page[Usage]{}, err
	}
	return httpapi.MapPage(httpapi.PageOf(w, rows, total, func(r usageRow) int64 { return r.PK }), usageRow.usage), nil
}
