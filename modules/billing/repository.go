package billing

import (
	"errors"
	"time"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/money"

	"gorm.io/gorm/clause"
)

// repository is the credit tables.
type repository struct{}

type usageRow struct {
	PK             int64 `gorm:"primaryKey"`
	UsageID        string
	UID            string
	Amount         money.Amount
	DueAmount      money.Amount
	UsageType      string
	ActionResultID *string
	Version        *int
	Description    *string
	ToolCallID     *string
	ToolCallMeta   *string
	ModelName      *string
	// ModelUsageDetails is JSON {"inputTokens","outputTokens"}.
	ModelUsageDetails *string
	CreatedAt         time.Time
}

func (usageRow) TableName() string { return "credit_usages" }

func (r usageRow) usage() Usage {
	return Usage{
		UsageID: r.UsageID, Type: r.UsageType, Amount: r.Amount, Due: r.DueAmount, ResultID: database.Text(r.ActionResultID),
		Version: r.Version, CallID: database.Text(r.ToolCallID), Meta: database.Text(r.ToolCallMeta), Text: database.Text(r.Description), Model: database.Text(r.ModelName), CreatedAt: r.CreatedAt.UTC(),
	}
}

type rechargeRow struct {
	PK          int64 `gorm:"primaryKey"`
	RechargeID  string
	UID         string
	Amount      money.Amount
	Balance     money.Amount
	Enabled     bool
	Source      string
	Description *string
	ExpiresAt   time.Time
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

func (rechargeRow) TableName() string { return "credit_recharges" }

type debtRow struct {
	PK          int64 `gorm:"primaryKey"`
	DebtID      string
	UID         string
	Amount      money.Amount
	Balance     money.Amount
	Enabled     bool
	Source      string
	Description *string
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

func (debtRow) TableName() string { return "credit_debts" }

type subscriptionRow struct {
	PK             int64 `gorm:"primaryKey"`
	SubscriptionID string
	LookupKey      string
	PlanType       string
	Interval       *string
	UID            string
	Status         string
	CancelAt       *time.Time
	CreatedAt      time.Time
	UpdatedAt      time.Time
}

func (subscriptionRow) TableName() string { return "subscriptions" }

// plus is the condition of a Plus subscription that began after a moment and
// has not ended.
const plus = `EXISTS (SELECT 1 FROM subscriptions s WHERE s.uid = users.uid AND s.status = 'active'
	AND s.lookup_key LIKE 'refly\_plus\_%' ESCAPE '\' AND s.created_at > ? AND (s.cancel_at IS NULL OR s.cancel_at > ?)) AS plus`

// payer is a user whose money is locked.
type payer struct {
	UID   string
	Plus  bool // has a Plus subscription younger than a calendar month
	Plans bool // there are plans at all, which may give something
}

// lockUser makes the money of one user a queue: whoever holds the lock sees
// every balance as the one before left it.
func (repository) lockUser(tx database.Tx, uid string, now time.Time) (payer, error) {
	p := payer{UID: uid}
	err := database.Lock(database.Scoped(tx.Handle, uid)).Table("users").
		Select("uid, "+plus+", EXISTS (SELECT 1 FROM subscription_plans) AS plans", now.AddDate(0, -1, 0), now).Take(&p).Error
	if errors.Is(err, database.ErrNotFound) {
		return p, ErrUserMissing
	}
	return p, err
}

func (repository) usageOf(h database.Handle, uid, callID string) (usageRow, error) {
	var row usageRow
	return row, database.Scoped(h, uid).Where("tool_call_id = ?", callID).Take(&row).Error
}

// insertUsage writes a usage, unless there is one of the same call.
func (repository) insertUsage(tx database.Tx, row usageRow) (written bool, err error) {
	q := database.Unscoped(tx.Handle).Clauses(clause.OnConflict{Columns: []clause.Column{{Name: "tool_call_id"}}, DoNothing: true}).Create(&row)
	return q.RowsAffected == 1, q.Error
}

// live lists what is left of the recharges that can pay, the nearest expiry
// first.
func (repository) live(h database.Handle, uid string, now time.Time) ([]rechargeRow, error) {
	var rows []rechargeRow
	err := database.Scoped(h, uid).Select("pk, uid, amount, balance").Where("enabled AND expires_at >= ? AND balance > 0", now).
		Order("expires_at, pk").Find(&rows).Error
	return rows, err
}

func (repository) setRecharge(tx database.Tx, r rechargeRow, at time.Time) error {
	return database.MustAffect(database.Scoped(tx.Handle, r.UID).Model(&rechargeRow{}).Where("pk = ?", r.PK).
		Updates(map[string]any{"balance": r.Balance, "updated_at": at}), database.ErrNotFound)
}

func (repository) rechargeByID(h database.Handle, rechargeID string) (rechargeRow, bool, error) {
	var row rechargeRow
	// Recharge ids are unique over all users; the caller compares the owner.
	err := database.Unscoped(h).Where("recharge_id = ?", rechargeID).Take(&row).Error
	if errors.Is(err, database.ErrNotFound) {
		return row, false, nil
	}
	return row, err == nil, err
}

func (repository) insertRecharge(tx database.Tx, row *rechargeRow) error {
	return database.Unscoped(tx.Handle).Create(row).Error
}

// openDebts lists what is still owed, the oldest first.
func (repository) openDebts(h database.Handle, uid string) ([]debtRow, error) {
	var rows []debtRow
	err := database.Scoped(h, uid).Where("enabled AND balance > 0").Order("created_at, pk").Find(&rows).Error
	return rows, err
}

func (repository) insertDebt(tx database.Tx, row debtRow) error {
	return database.Unscoped(tx.Handle).Create(&row).Error
}

func (repository) setDebt(tx database.Tx, d debtRow, at time.Time) error {
	return database.MustAffect(database.Scoped(tx.Handle, d.UID).Model(&debtRow{}).Where("pk = ?", d.PK).
		Updates(map[string]any{"balance": d.Balance, "enabled": d.Balance > 0, "updated_at": at}), database.ErrNotFound)
}

// usages lists what a user was charged, newest first.
func (repository) usages(h database.Handle, uid string, w database.Window) ([]usageRow, *int64, error) {
	return database.Newest[usageRow](database.Scoped(h, uid), w)
}
