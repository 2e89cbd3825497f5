package run

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/portico-run/portico/modules/internal/database"
)

// repository is the tables action_results, run_events and canvases.
type repository struct{}

type resultRow struct {
	PK             int64 `gorm:"primaryKey"`
	ResultID       string
	Version        int
	Type           string
	UID            string
	Title          string
	TargetType     *string
	TargetID       *string
	Input          *string
	Errors         *string
	Toolsets       *string
	Status         Status
	PTCEnabled     bool `gorm:"column:ptc_enabled"`
	EventSeq       int64
	LeaseOwner     *string
	LeaseExpiresAt *time.Time
	CreatedAt      time.Time
	UpdatedAt      time.Time
}

func (resultRow) TableName() string { return "action_results" }

// canvasTarget is the target type of a run that belongs to a canvas.
const canvasTarget = "canvas"

func (r resultRow) run() Run {
	out := Run{
		PK: r.PK, ResultID: r.ResultID, Version: r.Version, UID: r.UID, Type: r.Type, Title: r.Title, Status: r.Status,
		PTCEnabled: r.PTCEnabled, CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
	}
	if r.TargetType != nil && *r.TargetType == canvasTarget && r.TargetID != nil {
		out.CanvasID = *r.TargetID
	}
	if r.Input != nil {
		out.Input = json.RawMessage(*r.Input)
	}
	out.Toolsets, out.Errors = list(r.Toolsets), list(r.Errors)
	return out
}

// list reads a column that holds a JSON list of strings.
func list(column *string) []string {
	var out []string
	if column == nil || json.Unmarshal([]byte(*column), &out) != nil {
		return nil
	}
	return out
}

type eventRow struct {
	PK        int64 `gorm:"primaryKey"`
	ResultID  string
	Version   int
	Seq       int64
	Type      EventType
	CallID    *string
	Payload   string
	CreatedAt time.Time
}

func (eventRow) TableName() string { return "run_events" }

type canvasRow struct {
	PK         int64 `gorm:"primaryKey"`
	CanvasID   string
	UID        string
	Title      string
	Version    string
	ReadOnly   bool
	IsPublic   bool
	Status     string
	Visibility bool
	CreatedAt  time.Time
	UpdatedAt  time.Time
	DeletedAt  *time.Time
}

func (canvasRow) TableName() string { return "canvases" }

func (r canvasRow) canvas() Canvas {
	return Canvas{PK: r.PK, CanvasID: r.CanvasID, Title: r.Title, CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC()}
}

func (repository) insert(tx database.Tx, row resultRow) error {
	return database.Unscoped(tx.Handle).Create(&row).Error
}

// newest reads a version of a run, the highest when none is named.
func (repository) newest(h database.Handle, uid, resultID string, version *int) (Run, error) {
	q := database.Scoped(h, uid).Where("result_id = ?", resultID)
	if version != nil {
		q = q.Where("version = ?", *version)
	}
	var row resultRow
	if err := absent(q.Order("version DESC").Limit(1).Take(&row).Error, ErrMissing); err != nil {
		return Run{}, err
	}
	return row.run(), nil
}

// taken reports whether any user has a run of this id.
func (repository) taken(h database.Handle, resultID string) (bool, error) {
	var n int64
	// Ids are unique over all users; nothing but their existence is read.
	err := database.Unscoped(h).Model(&resultRow{}).Where("result_id = ?", resultID).Count(&n).Error
	return n > 0, err
}

func (repository) list(h database.Handle, uid string, before int64, limit int) ([]Run, error) {
	q := database.Scoped(h, uid)
	if before > 0 {
		q = q.Where("pk < ?", before)
	}
	var rows []resultRow
	if err := q.Order("pk DESC").Limit(limit).Find(&rows).Error; err != nil {
		return nil, err
	}
	runs := make([]Run, len(rows))
	for i, r := range rows {
		runs[i] = r.run()
	}
	return runs, nil
}

// nextSeq raises the run's event counter under the row's lock, which is what
// makes the order of events the order of commits. A run that has ended is
// absent.
func (repository) nextSeq(tx database.Tx, uid, resultID string, version int) (int64, error) {
	var seq int64
	q := database.Unscoped(tx.Handle).Raw(`UPDATE action_results SET event_seq = event_seq + 1
		WHERE uid = ? AND result_id = ? AND version = ? AND status IN ('waiting', 'running') RETURNING event_seq`,
		uid, resultID, version).Scan(&seq)
	if q.Error == nil && seq == 0 {
		return 0, ErrEnded
	}
	return seq, q.Error
}

func (repository) insertEvent(tx database.Tx, row eventRow) error {
	return database.Unscoped(tx.Handle).Create(&row).Error
}

func (repository) events(h database.Handle, resultID string, version int, after int64, limit int) ([]Event, error) {
	var rows []eventRow
	// The caller has read the run as its owner; events have no uid of their own.
	err := database.Unscoped(h).Where("result_id = ? AND version = ? AND seq > ?", resultID, version, after).
		Order("seq").Limit(limit).Find(&rows).Error
	if err != nil {
		return nil, err
	}
	events := make([]Event, len(rows))
	for i, r := range rows {
		events[i] = Event{Seq: r.Seq, Type: r.Type, Payload: json.RawMessage(r.Payload), CreatedAt: r.CreatedAt.UTC()}
		if r.CallID != nil {
			events[i].CallID = *r.CallID
		}
	}
	return events, nil
}

func (repository) finish(tx database.Tx, uid, resultID string, version int, set map[string]any) error {
	return database.MustAffect(database.Scoped(tx.Handle, uid).Model(&resultRow{}).
		Where("result_id = ? AND version = ? AND status IN ('waiting', 'running')", resultID, version).Updates(set), ErrEnded)
}

func (repository) renew(tx database.Tx, owner string, until time.Time) error {
	// A system job: a process answers for the runs of all its users.
	return database.Unscoped(tx.Handle).Model(&resultRow{}).
		Where("lease_owner = ? AND status = ?", owner, Running).Update("lease_expires_at", until).Error
}

func (repository) expired(h database.Handle, now time.Time, limit int) ([]Run, error) {
	var rows []resultRow
	// A system job: the dead process's runs belong to any user.
	err := database.Unscoped(h).Where("status = ? AND lease_expires_at < ?", Running, now).Order("pk").Limit(limit).Find(&rows).Error
	runs := make([]Run, len(rows))
	for i, r := range rows {
		runs[i] = r.run()
	}
	return runs, err
}

func (repository) insertCanvas(tx database.Tx, row canvasRow) error {
	return database.Unscoped(tx.Handle).Create(&row).Error
}

// hasCanvas returns ErrCanvasMissing when the user has no such canvas.
func (repository) hasCanvas(h database.Handle, uid, canvasID string) error {
	var row canvasRow
	return absent(database.Scoped(h, uid).Where("canvas_id = ? AND deleted_at IS NULL", canvasID).Take(&row).Error, ErrCanvasMissing)
}

func (repository) canvases(h database.Handle, uid string, before int64, limit int) ([]Canvas, error) {
	q := database.Scoped(h, uid).Where("deleted_at IS NULL")
	if before > 0 {
		q = q.Where("pk < ?", before)
	}
	var rows []canvasRow
	if err := q.Order("pk DESC").Limit(limit).Find(&rows).Error; err != nil {
		return nil, err
	}
	out := make([]Canvas, len(rows))
	for i, r := range rows {
		out[i] = r.canvas()
	}
	return out, nil
}

func absent(err, missing error) error {
	if errors.Is(err, database.ErrNotFound) {
		return missing
	}
	return err
}
