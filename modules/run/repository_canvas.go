package run

import (
	"time"

	"github.com/portico-run/portico/internal/database"
)

type canvasRow struct {
	PK        int64 `gorm:"primaryKey"`
	CanvasID  string
	UID       string
	Title     string
	CreatedAt time.Time  `gorm:"autoCreateTime:false"`
	UpdatedAt time.Time  `gorm:"autoUpdateTime:false"`
	DeletedAt *time.Time // plain column: rows are hidden by the queries, not by gorm
}

// TableName implements gorm's Tabler.
func (canvasRow) TableName() string { return "canvases" }

func (r canvasRow) canvas() Canvas {
	return Canvas{CanvasID: r.CanvasID, Title: r.Title, CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC()}
}

func (repository) insertCanvas(tx database.Tx, r *canvasRow) error {
	return database.Unscoped(tx.Handle).Create(r).Error // the row carries its uid
}

func (repository) canvases(h database.Handle, uid string, w database.Window) ([]canvasRow, *int64, error) {
	return database.Newest[canvasRow](database.Scoped(h, uid).Where("deleted_at IS NULL"), w)
}

func (repository) canvasOwned(h database.Handle, uid, canvasID string) (bool, error) {
	var n int64
	err := database.Scoped(h, uid).Model(&canvasRow{}).
		Where("canvas_id = ? AND deleted_at IS NULL", canvasID).Count(&n).Error
	return n == 1, err
}
