package drive

import (
	"errors"
	"path"
	"time"

	"github.com/portico-run/portico/internal/database"
)

// repository is the SQL of this module.
type repository struct{}

// row is a file. One without a storage key is a name, or room for a replacement, that
// is reserved while content is on the way.
type row struct {
	PK            int64 `gorm:"primaryKey"`
	FileID        string
	UID           string
	CanvasID      string
	Name          string
	Type          string
	Category      string
	Size          int64
	Source        string
	Scope         string
	StorageKey    *string
	Summary       *string
	VariableID    *string
	ResultID      *string
	ResultVersion *int
	CreatedAt     time.Time  `gorm:"autoCreateTime:false"`
	UpdatedAt     time.Time  `gorm:"autoUpdateTime:false"`
	DeletedAt     *time.Time // plain column: rows are hidden by the queries, not by gorm

	first bool // nothing was stored under its name before; not a column
}

// replacing is what is reserved for r as the new content of a file: the room that it
// takes more, under a name that no file can have.
func (r row) replacing(old row) row {
	r.Name, r.Size = path.Join(r.FileID, r.Name), max(r.Size-old.Size, 0)
	return r
}

// place is where the content goes that the row is reserved for.
func (r row) place() string {
	if r.first {
		return key(r.UID, r.CanvasID, r.Name)
	}
	return contentKey(r.UID, r.FileID, r.CanvasID, path.Base(r.Name))
}

// TableName implements gorm's Tabler.
func (row) TableName() string { return "drive_files" }

func (r row) file() File {
	f := File{
		FileID: r.FileID, CanvasID: r.CanvasID, Name: r.Name, Type: r.Type, Size: r.Size, Source: Source(r.Source),
		Summary: database.Text(r.Summary), ResultID: database.Text(r.ResultID), CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
	}
	if r.ResultVersion != nil {
		f.Version = *r.ResultVersion
	}
	return f
}

// used is how many bytes the user's files take.
func (repository) used(h database.Handle, uid string) (int64, error) {
	var sum int64
	err := database.Scoped(h, uid).Model(&row{}).Where("deleted_at IS NULL").Select("COALESCE(SUM(size), 0)").Scan(&sum).Error
	return sum, err
}

// named is the row of a name, reserved ones included.
func (repository) named(h database.Handle, uid, canvasID, name string) (r row, found bool, err error) {
	err = database.Scoped(h, uid).Where("canvas_id = ? AND name = ? AND deleted_at IS NULL", canvasID, name).Take(&r).Error
	if errors.Is(err, database.ErrNotFound) {
		return row{}, false, nil
	}
	return r, err == nil, err
}

// had reports whether a file has, or had, its content under a key.
func (repository) had(tx database.Tx, uid, key string) (bool, error) {
	var n int64
	err := database.Scoped(tx.Handle, uid).Model(&row{}).Where("storage_key = ?", key).Count(&n).Error
	return n > 0, err
}

// names reports whether a file has its content under a key.
func (repository) names(tx database.Tx, uid, key string) (bool, error) {
	var n int64
	err := database.Scoped(tx.Handle, uid).Model(&row{}).Where("storage_key = ? AND deleted_at IS NULL", key).Count(&n).Error
	return n > 0, err
}

func (repository) insert(tx database.Tx, r *row) error {
	return database.Unscoped(tx.Handle).Create(r).Error // the row carries its uid
}

func (repository) update(tx database.Tx, uid, fileID string, change map[string]any) error {
	return database.MustAffect(database.Scoped(tx.Handle, uid).Model(&row{}).
		Where("file_id = ? AND deleted_at IS NULL", fileID).Updates(change), ErrMissing)
}

// discard takes back what was reserved. It returns ErrMissing when that has expired.
func (repository) discard(tx database.Tx, uid, fileID string) error {
	return database.MustAffect(database.Scoped(tx.Handle, uid).Where("file_id = ? AND storage_key IS NULL", fileID).Delete(&row{}), ErrMissing)
}

// expired is what was reserved before a time.
func (repository) expired(tx database.Tx, uid string, before time.Time) ([]row, error) {
	var rows []row
	return rows, database.Scoped(tx.Handle, uid).Where("storage_key IS NULL AND created_at < ? AND deleted_at IS NULL", before).Find(&rows).Error
}

// get is a file whose content is there.
func (rp repository) get(h database.Handle, uid, fileID string) (row, error) {
	r, err := rp.live(h, uid, fileID)
	if err == nil && r.StorageKey == nil {
		return row{}, ErrMissing
	}
	return r, err
}

// live is a file, or a name that is reserved for one.
func (repository) live(h database.Handle, uid, fileID string) (row, error) {
	var r row
	err := database.Scoped(h, uid).Where("file_id = ? AND deleted_at IS NULL", fileID).Take(&r).Error
	if errors.Is(err, database.ErrNotFound) {
		return row{}, ErrMissing
	}
	return r, err
}

func (repository) list(h database.Handle, uid, canvasID string, w database.Window) ([]row, *int64, error) {
	q := database.Scoped(h, uid).Where("storage_key IS NOT NULL AND deleted_at IS NULL")
	if canvasID != "" {
		q = q.Where("canvas_id = ?", canvasID)
	}
	return database.Newest[row](q, w)
}

// ofCanvas lists what is in a canvas, names that are reserved left out.
func (repository) ofCanvas(h database.Handle, uid, canvasID string, limit int) ([]row, error) {
	var rows []row
	return rows, database.Scoped(h, uid).Where("canvas_id = ? AND storage_key IS NOT NULL AND deleted_at IS NULL", canvasID).Order("pk").Limit(limit).Find(&rows).Error
}
