package session

import (
	"errors"
	"slices"
	"time"

	"gorm.io/gorm/clause"

	"github.com/portico-run/portico/internal/database"
)

// inputRow is a file of another session that belongs to this one, too.
type inputRow struct {
	SessionID string `gorm:"primaryKey"`
	Name      string `gorm:"primaryKey"`
	UID       string
	FileID    string
	CreatedAt time.Time `gorm:"autoCreateTime:false"`
}

// TableName names the table.
func (inputRow) TableName() string { return "code_inputs" }

// input is such a file under the name and in the session that it was given in.
func (r inputRow) input(f File) File {
	f.Stored, f.SessionID, f.Name = f.SessionID, r.SessionID, r.Name
	return f
}

// link gives a session files of others, by the names that its programs find. A
// name that was linked before is another file from now on.
func (repository) link(tx database.Tx, uid, session string, files map[string]File, now time.Time) error {
	var rows []inputRow
	for name, f := range files {
		if f.home() != session {
			rows = append(rows, inputRow{SessionID: session, Name: name, UID: uid, FileID: f.ID, CreatedAt: now})
		}
	}
	if len(rows) == 0 {
		return nil
	}
	return database.Unscoped(tx.Handle).Clauses(clause.OnConflict{ // the rows carry their uid
		Columns: []clause.Column{{Name: "session_id"}, {Name: "name"}}, DoUpdates: clause.AssignmentColumns([]string{"file_id", "created_at"}),
	}).CreateInBatches(&rows, 100).Error
}

// unlink takes a file of another session out of this one, under all names that
// it has here.
func (repository) unlink(tx database.Tx, uid, session, id string) error {
	deleted := database.Scoped(tx.Handle, uid).Where("session_id = ? AND file_id = ?", session, id).Delete(&inputRow{})
	if deleted.Error == nil && deleted.RowsAffected == 0 {
		return ErrFileMissing
	}
	return deleted.Error
}

// extend makes the sessions that hold files live longer.
func (repository) extend(tx database.Tx, uid string, files map[string]File, until time.Time) error {
	var sessions []string
	for _, f := range files {
		if home := f.home(); !slices.Contains(sessions, home) {
			sessions = append(sessions, home)
		}
	}
	return database.Scoped(tx.Handle, uid).Model(&sessionRow{}).Where("session_id IN ? AND expires_at < ?", sessions, until).
		Update("expires_at", until).Error
}

// input is a file that a session has of another one.
func (repository) input(h database.Handle, uid, session, id string, now time.Time) (File, error) {
	var link inputRow
	err := database.Scoped(h, uid).Where("session_id = ? AND file_id = ?", session, id).Where(live, now).Order("created_at DESC").Take(&link).Error
	var r fileRow
	if err == nil {
		err = database.Scoped(h, uid).Where("file_id = ?", id).Where(live, now).Take(&r).Error
	}
	if errors.Is(err, database.ErrNotFound) {
		return File{}, ErrFileMissing
	}
	return link.input(r.file()), err
}

// all are the files of a session, its own and those it has of others, in the
// order in which they came in.
func (r repository) all(h database.Handle, uid, session string, now time.Time) ([]File, error) {
	type arrived struct {
		File

		at time.Time
	}
	var list []arrived
	own, err := r.files(h, uid, session, now)
	if err != nil {
		return nil, err
	}
	for _, f := range own {
		list = append(list, arrived{f, f.CreatedAt})
	}
	var links []inputRow
	if err := database.Scoped(h, uid).Where("session_id = ?", session).Where(live, now).Order("created_at, name").Find(&links).Error; err != nil {
		return nil, err
	}
	var rows []fileRow
	err = database.Scoped(h, uid).Where("file_id IN (SELECT file_id FROM code_inputs WHERE uid = ? AND session_id = ?)", uid, session).
		Where(live, now).Find(&rows).Error
	if err != nil {
		return nil, err
	}
	byID := map[string]File{}
	for _, row := range rows {
		byID[row.FileID] = row.file()
	}
	for _, link := range links {
		if f, alive := byID[link.FileID]; alive {
			list = append(list, arrived{link.input(f), link.CreatedAt})
		}
	}
	slices.SortStableFunc(list, func(a, b arrived) int { return a.at.Compare(b.at) })
	files := make([]File, len(list))
	for i, f := range list {
		files[i] = f.File
	}
	return files, nil
}
