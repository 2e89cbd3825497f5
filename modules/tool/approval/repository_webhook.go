package approval

import (
	"time"

	"github.com/portico-run/portico/internal/database"
)

// due are approvals that the webhook is to be told of. A system job: they are of
// all users.
func (repository) due(h database.Handle, now time.Time, limit int) (rows []approvalRow, err error) {
	return rows, database.Unscoped(h).Where("notify_at <= ?", now).Order("notify_at").Limit(limit).Find(&rows).Error
}

// claim takes an attempt to tell the webhook, so that no other process makes it.
// next is when another one is due; nil for never.
func (repository) claim(tx database.Tx, row approvalRow, next *time.Time) (claimed bool, err error) {
	q := database.Scoped(tx.Handle, row.UID).Model(&approvalRow{}).
		Where("pk = ? AND notify_attempts = ? AND notify_at IS NOT NULL", row.PK, row.NotifyAttempts).
		Updates(map[string]any{"notify_at": next, "notify_attempts": row.NotifyAttempts + 1})
	return q.RowsAffected == 1, q.Error
}

// told ends the attempts.
func (repository) told(tx database.Tx, row approvalRow) error {
	return database.Scoped(tx.Handle, row.UID).Model(&approvalRow{}).Where("pk = ?", row.PK).Update("notify_at", nil).Error
}
