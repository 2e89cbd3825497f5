package discard

import (
	"time"

	"github.com/portico-run/portico/internal/database"
)

// repository is the table object_deletions.
type repository struct{}

type row struct {
	PK    int64 `gorm:"primaryKey"`
	UID   string
	Key   string
	DueAt time.Time
}

// TableName implements gorm's Tabler.
func (row) TableName() string { return "object_deletions" }

func (repository) insert(tx database.Tx, rows []row) error {
	return database.Unscoped(tx.Handle).CreateInBatches(&rows, 100).Error // the rows carry their uid
}

// take is a system job: objects of all users that are due. Nobody else takes them
// before a moment.
func (repository) take(tx database.Tx, now, until time.Time, limit int) ([]row, error) {
	var rows []row
	return rows, database.Unscoped(tx.Handle).Raw(`UPDATE object_deletions SET due_at = ? WHERE due_at <= ? AND pk IN (
		SELECT pk FROM object_deletions WHERE due_at <= ? ORDER BY due_at LIMIT ?) RETURNING pk, uid, key`, until, now, now, limit).Scan(&rows).Error
}

func (repository) done(tx database.Tx, pks []int64) error {
	return database.Unscoped(tx.Handle).Where("pk IN ?", pks).Delete(&row{}).Error
}

func (repository) waits(tx database.Tx, uid, key string) (bool, error) {
	var n int64
	err := database.Scoped(tx.Handle, uid).Model(&row{}).Where("key = ?", key).Count(&n).Error
	return n > 0, err
}

func (repository) forget(tx database.Tx, uid string, keys []string) error {
	return database.Scoped(tx.Handle, uid).Where("key IN ?", keys).Delete(&row{}).Error
}
