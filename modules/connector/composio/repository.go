package composio

import (
	"errors"
	"time"

	"gorm.io/gorm/clause"

	"github.com/portico-run/portico/internal/database"
)

// repository is the table composio_connections.
type repository struct{}

type connectionRow struct {
	PK                 int64 `gorm:"primaryKey"`
	UID                string
	IntegrationID      string
	ConnectedAccountID string
	Status             string
	Metadata           *string
	CreatedAt          time.Time
	UpdatedAt          time.Time
	DeletedAt          *time.Time
}

func (connectionRow) TableName() string { return "composio_connections" }

// connection finds a user's active account at Composio; empty for none.
func (r repository) connection(h database.Handle, uid, key string) (string, error) {
	row, err := r.anyConnectionRow(h, uid, key)
	if errors.Is(err, database.ErrNotFound) || row.Status != connected {
		return "", ignoreAbsent(err)
	}
	return row.ConnectedAccountID, err
}

func ignoreAbsent(err error) error {
	if errors.Is(err, database.ErrNotFound) {
		return nil
	}
	return err
}

// anyConnection finds the account of a connection in any state.
func (r repository) anyConnection(h database.Handle, uid, key string) (string, error) {
	row, err := r.anyConnectionRow(h, uid, key)
	if errors.Is(err, database.ErrNotFound) {
		return "", ErrNotConnected
	}
	return row.ConnectedAccountID, err
}

func (repository) anyConnectionRow(h database.Handle, uid, key string) (connectionRow, error) {
	var row connectionRow
	return row, database.Scoped(h, uid).Where("integration_id = ? AND deleted_at IS NULL", key).Take(&row).Error
}

// onConnection is a conflict with the connection that is there.
func onConnection(c clause.OnConflict) clause.OnConflict {
	c.Columns = []clause.Column{{Name: "uid"}, {Name: "integration_id"}}
	return c
}

// saveConnection writes a connection in place of the one before.
func (repository) saveConnection(tx database.Tx, row connectionRow) error {
	return database.Unscoped(tx.Handle).Clauses(onConnection(clause.OnConflict{
		DoUpdates: clause.AssignmentColumns([]string{"connected_account_id", "status", "metadata", "updated_at", "deleted_at"}),
	})).Create(&row).Error
}

// claimConnection writes a connection that is being made, unless another caller
// has claimed it after a moment. Exactly one caller gets true. A deleted one is free.
func (repository) claimConnection(tx database.Tx, row connectionRow, since time.Time) (mine bool, err error) {
	q := database.Unscoped(tx.Handle).Clauses(onConnection(clause.OnConflict{DoNothing: true})).Create(&row)
	if q.Error != nil || q.RowsAffected == 1 {
		return q.Error == nil, q.Error
	}
	q = database.Scoped(tx.Handle, row.UID).Model(&connectionRow{}).
		Where("integration_id = ? AND (deleted_at IS NOT NULL OR status <> ? AND (status <> ? OR updated_at < ?))", row.IntegrationID, connected, connecting, since).
		Updates(map[string]any{"status": connecting, "connected_account_id": "", "updated_at": row.UpdatedAt, "deleted_at": nil})
	return q.RowsAffected == 1, q.Error
}

// setConnected writes the account of a connection that was claimed.
func (repository) setConnected(tx database.Tx, row connectionRow) error {
	return database.MustAffect(database.Scoped(tx.Handle, row.UID).Model(&connectionRow{}).Where("integration_id = ?", row.IntegrationID).
		Updates(map[string]any{"status": connected, "connected_account_id": row.ConnectedAccountID, "metadata": row.Metadata, "updated_at": row.UpdatedAt}), ErrNotConnected)
}

func (repository) loseConnection(tx database.Tx, uid, key string, now time.Time) error {
	return database.Scoped(tx.Handle, uid).Model(&connectionRow{}).Where("integration_id = ? AND status = ?", key, connected).
		Updates(map[string]any{"status": revoked, "updated_at": now}).Error
}

// deleteConnection forgets a connection that its user revoked:
// docs/wire/refly.md#connections.
func (repository) deleteConnection(tx database.Tx, uid, key string) error {
	return database.Scoped(tx.Handle, uid).Where("integration_id = ?", key).Delete(&connectionRow{}).Error
}

// connections lists the toolsets for which a user has an active account.
func (repository) connections(h database.Handle, uid string) ([]string, error) {
	var keys []string
	return keys, database.Scoped(h, uid).Model(&connectionRow{}).Where("status = ? AND deleted_at IS NULL", connected).Order("integration_id").Pluck("integration_id", &keys).Error
}

// For operators: what all users have.

func (repository) count(h database.Handle, key string) (n int64, err error) {
	return n, database.Unscoped(h).Model(&connectionRow{}).Where("integration_id = ? AND deleted_at IS NULL", key).Count(&n).Error
}

func (repository) deleteAll(tx database.Tx, key string, at time.Time) error {
	return database.Unscoped(tx.Handle).Model(&connectionRow{}).Where("integration_id = ? AND deleted_at IS NULL", key).
		Updates(map[string]any{"deleted_at": at, "updated_at": at}).Error
}
