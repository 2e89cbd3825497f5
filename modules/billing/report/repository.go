package report

import (
	"time"

	"gorm.io/gorm"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/money"
)

// repository reads the credit tables.
type repository struct{}

// sumRow is what one kind of usage adds up to.
type sumRow struct {
	UsageType    string
	ToolCallMeta *string
	ModelName    *string
	Calls        int
	Due          money.Amount
	Charged      money.Amount
}

// share says which usages are added up; what is empty does not count.
type share struct {
	Period
	resultID string
	version  *int
	canvasID string // of their runs
}

func (repository) sums(h database.Handle, uid string, p share) ([]sumRow, error) {
	q := database.Scoped(h, uid).Table("credit_usages").
		Select("usage_type, tool_call_meta, model_name, COUNT(*) AS calls, SUM(due_amount) AS due, SUM(amount) AS charged").
		Group("usage_type, tool_call_meta, model_name")
	if p.resultID != "" {
		q = q.Where("action_result_id = ?", p.resultID)
	}
	if p.version != nil {
		q = q.Where("version = ?", *p.version)
	}
	if p.canvasID != "" {
		q = q.Where(`EXISTS (SELECT 1 FROM action_results r WHERE r.result_id = credit_usages.action_result_id AND r.version = credit_usages.version
			AND r.uid = ? AND r.target_type = 'canvas' AND r.target_id = ?)`, uid, p.canvasID)
	}
	var rows []sumRow
	return rows, p.of(q).Scan(&rows).Error
}

// usage is one thing that was charged.
type usage struct {
	PK                int64
	DueAmount, Amount money.Amount
	CreatedAt         time.Time
}

// batch is how many usages are in memory at once.
const batch = 2000

// each hands over what a user was charged in a period, a batch at a time.
func (repository) each(h database.Handle, uid string, p Period, take func(u usage)) error {
	for after := int64(0); ; {
		var rows []usage
		q := p.of(database.Scoped(h, uid).Table("credit_usages").Select("pk, due_amount, amount, created_at"))
		if err := q.Where("pk > ?", after).Order("pk").Limit(batch).Find(&rows).Error; err != nil {
			return err
		}
		for _, u := range rows {
			take(u)
		}
		if len(rows) < batch {
			return nil
		}
		after = rows[len(rows)-1].PK
	}
}

// of narrows a query to the period.
func (p Period) of(q *gorm.DB) *gorm.DB {
	if !p.From.IsZero() {
		q = q.Where("created_at >= ?", p.From.UTC())
	}
	if !p.Until.IsZero() {
		q = q.Where("created_at < ?", p.Until.UTC())
	}
	return q
}

// users lists everybody, for the verification of the books.
func (repository) users(h database.Handle) ([]string, error) {
	var uids []string
	return uids, database.Unscoped(h).Table("users").Order("uid").Pluck("uid", &uids).Error
}

// pair is what an entry of the books was and is.
type pair struct{ Amount, Balance money.Amount }

// books adds up the entries of one user. The sums are made here: a database
// may add decimals as floating-point numbers.
func (repository) books(h database.Handle, uid string) (Books, error) {
	b := Books{UID: uid}
	for table, add := range map[string]func(p pair){
		"credit_usages":    func(p pair) { b.Charged += p.Amount },
		"credit_recharges": func(p pair) { b.Taken += p.Amount - p.Balance },
		"credit_debts":     func(p pair) { b.Owed += p.Balance },
	} {
		columns := "amount, balance"
		if table == "credit_usages" {
			columns = "amount"
		}
		var rows []pair
		if err := database.Scoped(h, uid).Table(table).Select(columns).Find(&rows).Error; err != nil {
			return b, err
		}
		for _, p := range rows {
			add(p)
		}
	}
	return b, nil
}
