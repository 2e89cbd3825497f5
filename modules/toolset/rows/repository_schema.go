package rows

import "github.com/portico-run/portico/internal/database"

// Schema is a JSON Schema that tools of an inventory row refer to.
type Schema struct {
	PK           int64 `gorm:"primaryKey"`
	InventoryKey string
	Name         string
	Definition   string
}

// TableName implements gorm.Tabler.
func (Schema) TableName() string { return "tool_schemas" }

// Schemas lists the schemas that tools of a toolset share.
func (Repository) Schemas(h database.Handle, key string) ([]Schema, error) {
	var rows []Schema
	return rows, database.Unscoped(h).Where("inventory_key = ?", key).Order("name").Find(&rows).Error
}

// InsertSchemas writes new schemas.
func (Repository) InsertSchemas(tx database.Tx, rows []Schema) error {
	return database.Unscoped(tx.Handle).CreateInBatches(rows, batch).Error
}

// DeleteSchemas deletes the schemas that tools of a toolset share.
func (Repository) DeleteSchemas(tx database.Tx, key string) error {
	return database.Unscoped(tx.Handle).Where("inventory_key = ?", key).Delete(&Schema{}).Error
}
