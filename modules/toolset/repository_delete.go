package toolset

import (
	"time"

	"github.com/portico-run/portico/internal/database"
)

// For operators: what everybody shares, and what all users have of it.

func (repository) sealed(h database.Handle) ([]string, error) {
	var texts []string
	err := database.Unscoped(h).Model(&inventoryRow{}).Where("api_key IS NOT NULL AND deleted_at IS NULL").Order("pk").Pluck("api_key", &texts).Error
	if err != nil || len(texts) > 0 {
		return texts, err
	}
	return texts, database.Unscoped(h).Model(&toolsetRow{}).Where("auth_data IS NOT NULL AND deleted_at IS NULL").Order("pk").Limit(1).Pluck("auth_data", &texts).Error
}

func (repository) countInstalled(h database.Handle, key string) (n int64, err error) {
	return n, database.Unscoped(h).Model(&toolsetRow{}).Where("key = ? AND NOT is_global AND NOT uninstalled AND deleted_at IS NULL", key).Count(&n).Error
}

func (repository) countConnected(h database.Handle, key string) (n int64, err error) {
	return n, database.Unscoped(h).Model(&connectionRow{}).Where("integration_id = ? AND deleted_at IS NULL", key).Count(&n).Error
}

func (repository) deleteInventory(tx database.Tx, key string, at time.Time) error {
	return database.MustAffect(database.Unscoped(tx.Handle).Model(&inventoryRow{}).Where("key = ? AND deleted_at IS NULL", key).
		Updates(map[string]any{"api_key": nil, "deleted_at": at, "updated_at": at}), missing(key))
}

func (repository) deleteToolsets(tx database.Tx, key string, at time.Time) error {
	return database.Unscoped(tx.Handle).Model(&toolsetRow{}).Where("key = ? AND deleted_at IS NULL", key).
		Updates(map[string]any{"auth_data": nil, "deleted_at": at, "updated_at": at}).Error
}

func (repository) deleteConnections(tx database.Tx, key string, at time.Time) error {
	return database.Unscoped(tx.Handle).Model(&connectionRow{}).Where("integration_id = ? AND deleted_at IS NULL", key).
		Updates(map[string]any{"deleted_at": at, "updated_at": at}).Error
}
