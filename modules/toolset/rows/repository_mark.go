package rows

import (
	"time"

	"github.com/portico-run/portico/internal/database"
)

// Mark makes a tool one that programs call as a plain function.
type Mark struct {
	PK         int64 `gorm:"primaryKey"`
	ToolsetKey string
	ToolName   string
	Name       string
	ReadOnly   bool
	Idempotent bool
	FromFile   bool
	CreatedAt  time.Time
}

// TableName implements gorm.Tabler.
func (Mark) TableName() string { return "tool_marks" }

// Marks lists all marks, by the names of their functions.
func (Repository) Marks(h database.Handle) ([]Mark, error) {
	var rows []Mark
	return rows, database.Unscoped(h).Order("name").Find(&rows).Error
}

// MarksOf lists the marks of one toolset, by the names of its tools.
func (Repository) MarksOf(h database.Handle, key string) ([]Mark, error) {
	var rows []Mark
	return rows, database.Unscoped(h).Where("toolset_key = ?", key).Order("tool_name").Find(&rows).Error
}

// InsertMark writes a mark. A name or a tool that is marked already is
// database.IsDuplicate.
func (Repository) InsertMark(tx database.Tx, row Mark) error {
	if err := database.Unscoped(tx.Handle).Create(&row).Error; err != nil {
		return err
	}
	return changed(tx, everybody)
}

// DeleteMark deletes the mark of a tool and reports whether there was one.
func (Repository) DeleteMark(tx database.Tx, key, tool string) (bool, error) {
	deleted := database.Unscoped(tx.Handle).Where("toolset_key = ? AND tool_name = ?", key, tool).Delete(&Mark{})
	if deleted.Error != nil || deleted.RowsAffected == 0 {
		return false, deleted.Error
	}
	return true, changed(tx, everybody)
}

// DeleteMarks deletes the marks of a toolset.
func (Repository) DeleteMarks(tx database.Tx, key string) error {
	if err := database.Unscoped(tx.Handle).Where("toolset_key = ?", key).Delete(&Mark{}).Error; err != nil {
		return err
	}
	return changed(tx, everybody)
}
