package run

import (
	"errors"
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

func (repository) canvas(h database.Handle, uid, canvasID string) (canvasRow, error) {
	var r canvasRow
	err := database.Scoped(h, uid).Where("canvas_id = ? AND deleted_at IS NULL", canvasID).Take(&r).Error
	if errors.Is(err, database.ErrNotFound) {
		return r, ErrCanvasMissing
	}
	return r, err
}

func (repository) changeCanvas(tx database.Tx, uid, canvasID string, columns map[string]any) error {
	return database.MustAffect(database.Scoped(tx.Handle, uid).Model(&canvasRow{}).
		Where("canvas_id = ? AND deleted_at IS NULL", canvasID).Updates(columns), ErrCanvasMissing)
}

// canvasBusy reports whether a run of the canvas has not ended.
func (repository) canvasBusy(h database.Handle, uid, canvasID string) (bool, error) {
	var n int64
	err := database.Scoped(h, uid).Model(&row{}).
		Where("target_type = ? AND target_id = ? AND status IN ?", targetCanvas, canvasID, []string{string(Waiting), string(Running)}).Limit(1).Count(&n).Error
	return n > 0, err
}

// measure counts what is in canvases of a user's.
func (repository) measure(h database.Handle, uid string, canvases []Canvas) error {
	if len(canvases) == 0 {
		return nil
	}
	at := map[string]*Canvas{}
	keys := make([]string, len(canvases))
	for i, c := range canvases {
		keys[i], at[c.CanvasID] = c.CanvasID, &canvases[i]
	}
	var runs, files []struct {
		ID    string
		N     int
		Bytes int64
	}
	err := database.Scoped(h, uid).Table("action_results").Select("target_id AS id, COUNT(DISTINCT result_id) AS n").
		Where("target_type = ? AND target_id IN ?", targetCanvas, keys).Group("target_id").Scan(&runs).Error
	if err != nil {
		return err
	}
	err = database.Scoped(h, uid).Table("drive_files").Select("canvas_id AS id, COUNT(*) AS n, SUM(size) AS bytes").
		Where("canvas_id IN ? AND storage_key IS NOT NULL AND deleted_at IS NULL", keys).Group("canvas_id").Scan(&files).Error
	if err != nil {
		return err
	}
	for _, r := range runs {
		at[r.ID].Runs = r.N
	}
	for _, f := range files {
		at[f.ID].Files, at[f.ID].Bytes = f.N, f.Bytes
	}
	return nil
}
