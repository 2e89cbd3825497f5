package rows

import (
	"cmp"
	"time"

	"github.com/portico-run/portico/internal/database"
)

// Sealed lists credentials that are stored: of the inventory, or one of a user's where that has none.
func (Repository) Sealed(h database.Handle) ([]string, error) {
	var texts []string
	err := database.Unscoped(h).Model(&Inventory{}).Where("api_key IS NOT NULL AND deleted_at IS NULL").Order("pk").Pluck("api_key", &texts).Error
	if err != nil || len(texts) > 0 {
		return texts, err
	}
	return texts, database.Unscoped(h).Model(&Toolset{}).Where("auth_data IS NOT NULL AND deleted_at IS NULL").Order("pk").Limit(1).Pluck("auth_data", &texts).Error
}

// CountInstalled counts the own toolsets of users that have a key.
func (Repository) CountInstalled(h database.Handle, key string) (n int64, err error) {
	return n, database.Unscoped(h).Model(&Toolset{}).Where("key = ? AND NOT is_global AND NOT uninstalled AND deleted_at IS NULL", key).Count(&n).Error
}

// DeleteInventory deletes an inventory row with its credential.
func (Repository) DeleteInventory(tx database.Tx, key string, at time.Time) error {
	err := database.MustAffect(database.Unscoped(tx.Handle).Model(&Inventory{}).Where("key = ? AND deleted_at IS NULL", key).
		Updates(map[string]any{"api_key": nil, "deleted_at": at, "updated_at": at}), Missing(key))
	return cmp.Or(err, changed(tx, everybody))
}

// DeleteToolsets deletes all toolsets of a key with their credentials.
func (Repository) DeleteToolsets(tx database.Tx, key string, at time.Time) error {
	err := database.Unscoped(tx.Handle).Model(&Toolset{}).Where("key = ? AND deleted_at IS NULL", key).
		Updates(map[string]any{"auth_data": nil, "deleted_at": at, "updated_at": at}).Error
	return cmp.Or(err, changed(tx, everybody))
}
