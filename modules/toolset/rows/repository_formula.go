package rows

import (
	"time"

	"gorm.io/gorm/clause"

	"github.com/portico-run/portico/internal/database"
)

// Formula is the price of a method that depends on the call.
type Formula struct {
	PK           int64 `gorm:"primaryKey"`
	InventoryKey string
	MethodName   string
	BillingRules string
	TokenPricing *string
	Enabled      bool
	CreatedAt    time.Time
	UpdatedAt    time.Time
}

// TableName implements gorm.Tabler.
func (Formula) TableName() string { return "tool_billing" }

// Formulas lists the formulas of a toolset, switched off or not, by method.
func (Repository) Formulas(h database.Handle, key string) ([]Formula, error) {
	var rows []Formula
	return rows, database.Unscoped(h).Where("inventory_key = ?", key).Order("method_name").Find(&rows).Error
}

// SaveFormula writes the formula of a method in place of the one before.
func (Repository) SaveFormula(tx database.Tx, row Formula) error {
	return database.Unscoped(tx.Handle).Clauses(clause.OnConflict{
		Columns:   []clause.Column{{Name: "inventory_key"}, {Name: "method_name"}},
		DoUpdates: clause.AssignmentColumns([]string{"billing_rules", "token_pricing", "enabled", "updated_at"}),
	}).Create(&row).Error
}
