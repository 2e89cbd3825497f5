package billing

import (
	"errors"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/modules/billing/price"
)

type planRow struct {
	PK                   int64 `gorm:"primaryKey"`
	PlanType             string
	Interval             *string
	LookupKey            string
	CreditQuota          money.Amount
	DailyGiftCreditQuota money.Amount
	CreatedAt            time.Time
	UpdatedAt            time.Time
}

func (planRow) TableName() string { return "subscription_plans" }

type rateRow struct {
	PK                int64 `gorm:"primaryKey"`
	ProviderKey       string
	Plan              string
	StandardRatePer1k money.Amount `gorm:"column:standard_rate_per_1k"`
	PremiumRatePer1k  money.Amount `gorm:"column:premium_rate_per_1k"`
	Margin            money.Amount
	Active            bool
	CreatedAt         time.Time
	UpdatedAt         time.Time
}

func (rateRow) TableName() string { return "tool_provider_billing" }

// absentAs puts an error of the service for a row that is not there.
func absentAs(err, as error) error {
	if err == nil || errors.Is(err, database.ErrNotFound) {
		return as
	}
	return err
}

// replace writes a row, or changes the columns of the one with its key.
func replace(key []string, columns ...string) clause.OnConflict {
	c := clause.OnConflict{DoUpdates: clause.AssignmentColumns(append(columns, "updated_at"))}
	for _, name := range key {
		c.Columns = append(c.Columns, clause.Column{Name: name})
	}
	return c
}

func (repository) savePlan(tx database.Tx, row planRow) error {
	// What everybody may subscribe to has no tenant.
	return database.Unscoped(tx.Handle).
		Clauses(replace([]string{"lookup_key"}, "plan_type", "interval", "credit_quota", "daily_gift_credit_quota")).Create(&row).Error
}

func (repository) plans(h database.Handle) ([]planRow, error) {
	var rows []planRow
	return rows, database.Unscoped(h).Order("lookup_key").Find(&rows).Error
}

func (repository) plan(h database.Handle, lookupKey string) (planRow, error) {
	var row planRow
	err := database.Unscoped(h).Where("lookup_key = ?", lookupKey).Take(&row).Error
	if errors.Is(err, database.ErrNotFound) {
		return row, ErrPlanMissing
	}
	return row, err
}

// quota is what a user's newest subscription gives, or the free plan.
func (repository) quota(h database.Handle, uid string, now time.Time) (quota, error) {
	var q quota
	err := database.Unscoped(h).Table("subscription_plans AS p").
		Select("p.credit_quota, p.daily_gift_credit_quota, s.override_plan").
		Joins("LEFT JOIN subscriptions s ON s.lookup_key = p.lookup_key AND s.uid = ? AND s.status = ? AND (s.cancel_at IS NULL OR s.cancel_at > ?)", uid, subscribed, now).
		Where("s.uid IS NOT NULL OR p.plan_type = ?", FreePlan).
		Order("CASE WHEN s.uid IS NULL THEN 1 ELSE 0 END, s.created_at DESC, p.pk").Limit(1).Take(&q).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return quota{}, nil
	}
	return q, err
}

func (repository) insertSubscription(tx database.Tx, row subscriptionRow) error {
	return database.Unscoped(tx.Handle).Clauses(clause.OnConflict{Columns: []clause.Column{{Name: "subscription_id"}}, DoNothing: true}).Create(&row).Error
}

func (repository) cancelSubscriptions(tx database.Tx, uid string, now time.Time) error {
	return database.Scoped(tx.Handle, uid).Model(&subscriptionRow{}).Where("status = ?", subscribed).
		Updates(map[string]any{"status": cancelled, "cancel_at": now, "updated_at": now}).Error
}

// hostPlan is the plan that a user has by their host, or empty.
func (repository) hostPlan(h database.Handle, uid string) (string, error) {
	var row subscriptionRow
	err := database.Scoped(h, uid).Where("status = ? AND subscription_id LIKE ?", subscribed, hostSubscription+"%").Take(&row).Error
	if errors.Is(err, database.ErrNotFound) {
		return "", nil
	}
	return row.LookupKey, err
}

func (repository) cancelHostSubscriptions(tx database.Tx, uid string, now time.Time) error {
	return database.Scoped(tx.Handle, uid).Model(&subscriptionRow{}).
		Where("status = ? AND subscription_id LIKE ?", subscribed, hostSubscription+"%").
		Updates(map[string]any{"status": cancelled, "cancel_at": now, "updated_at": now}).Error
}

// resumeSubscription adds a subscription, or goes on with the one of its id.
func (repository) resumeSubscription(tx database.Tx, row subscriptionRow) error {
	return database.Unscoped(tx.Handle).
		Clauses(replace([]string{"subscription_id"}, "status", "cancel_at", "plan_type", "interval")).Create(&row).Error
}

// planOf is the plan of a user's newest subscription, or FreePlan.
func (repository) planOf(h database.Handle, uid string, now time.Time) (string, error) {
	var row subscriptionRow
	err := database.Scoped(h, uid).Where("status = ? AND (cancel_at IS NULL OR cancel_at > ?)", subscribed, now).
		Order("created_at DESC, pk DESC").Take(&row).Error
	if errors.Is(err, database.ErrNotFound) {
		return FreePlan, nil
	}
	return row.LookupKey, err
}

func (repository) saveRates(tx database.Tx, row rateRow) error {
	return database.Unscoped(tx.Handle).
		Clauses(replace([]string{"provider_key", "plan"}, "standard_rate_per_1k", "premium_rate_per_1k", "margin", "active")).Create(&row).Error
}

func (repository) rates(h database.Handle, provider string) (*price.Rates, error) {
	var row rateRow
	err := database.Unscoped(h).Where("provider_key = ? AND active", provider).Order("pk DESC").Take(&row).Error
	if errors.Is(err, database.ErrNotFound) {
		return nil, nil //nolint:nilnil // no rates is an answer
	}
	return &price.Rates{Standard: row.StandardRatePer1k, Premium: row.PremiumRatePer1k, Margin: row.Margin}, err
}
