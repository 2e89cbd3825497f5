package billing

import (
	"errors"
	"time"

	"gorm.io/gorm"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/money"
)

type limitRow struct {
	PK        int64 `gorm:"primaryKey"`
	UID       string
	RunLimit  *money.Amount
	DayLimit  *money.Amount
	Overdraft *money.Amount
	CreatedAt time.Time
	UpdatedAt time.Time
}

func (limitRow) TableName() string { return "credit_limits" }

type holdRow struct {
	PK             int64 `gorm:"primaryKey"`
	CallID         string
	UID            string
	ActionResultID *string
	Version        int
	Amount         money.Amount
	CreatedAt      time.Time
}

func (holdRow) TableName() string { return "credit_holds" }

func (repository) limits(h database.Handle, uid string) (Limits, error) {
	var row limitRow
	err := database.Scoped(h, uid).Take(&row).Error
	if errors.Is(err, database.ErrNotFound) {
		return Limits{}, nil
	}
	return Limits{Run: row.RunLimit, Day: row.DayLimit, Overdraft: row.Overdraft}, err
}

func (r limitRow) limits() UserLimits {
	return UserLimits{UID: r.UID, Limits: Limits{Run: r.RunLimit, Day: r.DayLimit, Overdraft: r.Overdraft}, UpdatedAt: r.UpdatedAt.UTC()}
}

func (repository) allLimits(h database.Handle, w database.Window) ([]limitRow, *int64, error) {
	return database.Newest[limitRow](database.Unscoped(h).Where("run_limit IS NOT NULL OR day_limit IS NOT NULL OR overdraft IS NOT NULL"), w)
}

func (repository) saveLimits(tx database.Tx, row limitRow) error {
	return database.Unscoped(tx.Handle).Clauses(replace([]string{"uid"}, "run_limit", "day_limit", "overdraft")).Create(&row).Error
}

// hold keeps a call's price, and forgets those of calls that have ended.
func (repository) hold(tx database.Tx, row holdRow) error {
	err := database.Scoped(tx.Handle, row.UID).
		Where("call_id IN (SELECT call_id FROM tool_call_results WHERE uid = ? AND status NOT IN ('executing', 'waiting'))", row.UID).Delete(&holdRow{}).Error
	if err != nil {
		return err
	}
	return database.Unscoped(tx.Handle).Create(&row).Error
}

// spending says which part of what a user spent is meant.
type spending struct {
	result  string
	version int
	since   time.Time
}

// of narrows a query to that part.
func (s spending) of(q *gorm.DB) *gorm.DB {
	if s.result != "" {
		q = q.Where("action_result_id = ? AND version = ?", s.result, s.version)
	}
	if !s.since.IsZero() {
		q = q.Where("created_at >= ?", s.since)
	}
	return q
}

// spent is what was charged, and what is held.
func (r repository) spent(h database.Handle, uid string, s spending) (money.Amount, error) {
	var sum money.Amount
	// Sums of exact decimals: SQLite adds them as floating-point numbers, whose
	// error is far below a millionth for what one user spends in a day.
	err := s.of(database.Scoped(h, uid)).Table("credit_usages").Select("COALESCE(SUM(amount), 0)").Scan(&sum).Error
	if err != nil {
		return 0, err
	}
	held, err := r.held(h, uid, s)
	return sum + held, err
}

// held is what calls that execute will cost, also those that wait for the answer to a
// question: they were sent. Calls that wait to be allowed hold nothing yet.
func (repository) held(h database.Handle, uid string, s spending) (money.Amount, error) {
	var sum money.Amount
	err := s.of(database.Scoped(h, uid)).Table("credit_holds").Select("COALESCE(SUM(amount), 0)").
		Where("call_id IN (SELECT call_id FROM tool_call_results WHERE uid = ? AND status IN ('executing', 'waiting'))", uid).Scan(&sum).Error
	return sum, err
}

func (repository) recharges(h database.Handle, uid string, w database.Window) ([]rechargeRow, *int64, error) {
	return database.Newest[rechargeRow](database.Scoped(h, uid), w)
}
