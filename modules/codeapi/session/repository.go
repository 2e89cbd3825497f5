package session

import (
	"errors"
	"time"

	"gorm.io/gorm/clause"

	"github.com/portico-run/portico/internal/database"
)

// repository is the SQL of this package.
type repository struct{}

type sessionRow struct {
	SessionID string `gorm:"primaryKey"`
	UID       string
	CreatedAt time.Time `gorm:"autoCreateTime:false"`
	ExpiresAt time.Time
}

// TableName names the table.
func (sessionRow) TableName() string { return "code_sessions" }

type fileRow struct {
	FileID      string `gorm:"primaryKey"`
	SessionID   string
	UID         string
	Name        string
	Size        int64
	ContentType string
	Digest      string
	Kind        string
	ResourceID  string
	Version     string
	ReadOnly    bool
	CreatedAt   time.Time `gorm:"autoCreateTime:false"`
}

// TableName names the table.
func (fileRow) TableName() string { return "code_files" }

func (r fileRow) file() File {
	return File{
		ID: r.FileID, SessionID: r.SessionID, Name: r.Name, Size: r.Size, ContentType: r.ContentType, Digest: r.Digest, ReadOnly: r.ReadOnly,
		Owner: FileOwner{Kind: r.Kind, ResourceID: r.ResourceID, Version: r.Version}, CreatedAt: r.CreatedAt.UTC(),
	}
}

func toRow(uid string, f File) fileRow {
	return fileRow{
		FileID: f.ID, SessionID: f.SessionID, UID: uid, Name: f.Name, Size: f.Size, ContentType: f.ContentType, Digest: f.Digest, ReadOnly: f.ReadOnly,
		Kind: f.Owner.Kind, ResourceID: f.Owner.ResourceID, Version: f.Owner.Version, CreatedAt: f.CreatedAt,
	}
}

// keep inserts a session, or makes one that is there live longer.
func (repository) keep(tx database.Tx, uid, id string, now, until time.Time) error {
	err := database.Unscoped(tx.Handle).Clauses(clause.OnConflict{DoNothing: true}).
		Create(&sessionRow{SessionID: id, UID: uid, CreatedAt: now, ExpiresAt: until}).Error // the row carries its uid
	if err != nil {
		return err
	}
	return database.MustAffect(database.Scoped(tx.Handle, uid).Model(&sessionRow{}).
		Where("session_id = ?", id).Update("expires_at", until), ErrFileMissing)
}

// alive reports whether a session of the user's is there and not over.
func (repository) alive(h database.Handle, uid, id string, now time.Time) (bool, error) {
	var n int64
	err := database.Scoped(h, uid).Model(&sessionRow{}).Where("session_id = ? AND expires_at > ?", id, now).Count(&n).Error
	return n > 0, err
}

func (repository) insert(tx database.Tx, uid string, files []File) error {
	if len(files) == 0 {
		return nil
	}
	rows := make([]fileRow, len(files))
	for i, f := range files {
		rows[i] = toRow(uid, f)
	}
	return database.Unscoped(tx.Handle).CreateInBatches(&rows, 100).Error // the rows carry their uid
}

// Stored is how many bytes the files of a user's sessions take.
func Stored(h database.Handle, uid string) (int64, error) {
	var sum int64
	err := database.Scoped(h, uid).Model(&fileRow{}).Select("COALESCE(SUM(size), 0)").Scan(&sum).Error
	return sum, err
}

// live restricts a query on files to sessions that are not over.
const live = "session_id IN (SELECT session_id FROM code_sessions WHERE expires_at > ?)"

func (repository) file(h database.Handle, uid, session, id string, now time.Time) (File, error) {
	var r fileRow
	err := database.Scoped(h, uid).Where("session_id = ? AND file_id = ?", session, id).Where(live, now).Take(&r).Error
	if errors.Is(err, database.ErrNotFound) {
		return File{}, ErrFileMissing
	}
	return r.file(), err
}

func (repository) files(h database.Handle, uid, session string, now time.Time) ([]File, error) {
	var rows []fileRow
	err := database.Scoped(h, uid).Where("session_id = ?", session).Where(live, now).Order("created_at, file_id").Find(&rows).Error
	files := make([]File, len(rows))
	for i, r := range rows {
		files[i] = r.file()
	}
	return files, err
}

// page is a part of a list, the newest first.
type page struct {
	after *File // the last one of the part before; nil for the first part
	most  int
}

func (repository) recent(h database.Handle, uid string, p page, now time.Time) ([]File, error) {
	query := database.Scoped(h, uid).Where(live, now)
	if p.after != nil {
		query = query.Where("created_at < ? OR (created_at = ? AND file_id < ?)", p.after.CreatedAt, p.after.CreatedAt, p.after.ID)
	}
	var rows []fileRow
	err := query.Order("created_at DESC, file_id DESC").Limit(p.most).Find(&rows).Error
	files := make([]File, len(rows))
	for i, r := range rows {
		files[i] = r.file()
	}
	return files, err
}

func (repository) deleteFile(tx database.Tx, uid, session, id string) error {
	return database.MustAffect(database.Scoped(tx.Handle, uid).
		Where("session_id = ? AND file_id = ?", session, id).Delete(&fileRow{}), ErrFileMissing)
}

// expired is a system job: sessions of all users that are over.
func (repository) expired(h database.Handle, before time.Time, limit int) ([]sessionRow, error) {
	var rows []sessionRow
	err := database.Unscoped(h).Where("expires_at <= ?", before).Order("expires_at").Limit(limit).Find(&rows).Error
	return rows, err
}

// deleteSession deletes a session with its files, if it is still over. It reports
// whether it was.
func (repository) deleteSession(tx database.Tx, uid, session string, before time.Time) (bool, error) {
	q := database.Scoped(tx.Handle, uid).Where("session_id = ? AND expires_at <= ?", session, before).Delete(&sessionRow{})
	return q.RowsAffected > 0, q.Error
}
