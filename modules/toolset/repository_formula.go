package toolset

import (
	"encoding/json"
	"time"

	"github.com/portico-run/portico/internal/database"

	"gorm.io/gorm/clause"
)

type formulaRow struct {
	PK           int64 `gorm:"primaryKey"`
	InventoryKey string
	MethodName   string
	BillingRules string
	TokenPricing *string
	Enabled      bool
	CreatedAt    time.Time
	UpdatedAt    time.Time
}

func (formulaRow) TableName() string { return "tool_billing" }

func (repository) formulas(h database.Handle, key string) ([]formulaRow, error) {
	var rows []formulaRow
	return rows, database.Unscoped(h).Where("inventory_key = ?", key).Order("method_name").Find(&rows).Error
}

// saveFormula writes the formula of a method in place of the one before.
func (repository) saveFormula(tx database.Tx, row formulaRow) error {
	return database.Unscoped(tx.Handle).Clauses(clause.OnConflict{
		Columns:   []clause.Column{{Name: "inventory_key"}, {Name: "method_name"}},
		DoUpdates: clause.AssignmentColumns([]string{"billing_rules", "token_pricing", "enabled", "updated_at"}),
	}).Create(&row).Error
}

// withFormulas adds to methods what prices them.
func (r repository) withFormulas(h database.Handle, key string, methods []Method) error {
	rows, err := r.formulas(h, key)
	for _, f := range rows {
		for i := range methods {
			if f.Enabled && methods[i].Name == f.MethodName {
				methods[i].Rules = json.RawMessage(f.BillingRules)
				if f.TokenPricing != nil {
					methods[i].TokenPricing = json.RawMessage(*f.TokenPricing)
				}
			}
		}
	}
	return err
}
