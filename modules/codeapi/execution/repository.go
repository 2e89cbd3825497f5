package execution

import (
	"time"

	"github.com/portico-run/portico/internal/database"
)

// repository is the SQL of this package.
type repository struct{}

type executionRow struct {
	ExecutionID string `gorm:"primaryKey"`
	SessionID   string
	UID         string
	Owner       string
	Status      string
	CreatedAt   time.Time `gorm:"autoCreateTime:false"`
	UpdatedAt   time.Time `gorm:"autoUpdateTime:false"`
}

// TableName names the table.
func (executionRow) TableName() string { return "code_executions" }

func (repository) insertExecution(tx database.Tx, r executionRow) error {
	return database.Unscoped(tx.Handle).Create(&r).Error // the row carries its uid
}

func (repository) endExecution(tx database.Tx, uid, id, status string, now time.Time) error {
	return database.Scoped(tx.Handle, uid).Model(&executionRow{}).Where("execution_id = ?", id).
		Updates(map[string]any{"status": status, "updated_at": now}).Error
}

func (repository) execution(h database.Handle, uid, id string) (executionRow, error) {
	var r executionRow
	err := database.Scoped(h, uid).Where("execution_id = ?", id).Take(&r).Error
	return r, err
}

// purgeExecutions is a system job: what nobody asks for any more.
func (repository) purgeExecutions(tx database.Tx, before time.Time) error {
	return database.Unscoped(tx.Handle).Where("updated_at < ?", before).Delete(&executionRow{}).Error
}
