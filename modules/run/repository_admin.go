package run

import "github.com/portico-run/portico/internal/database"

// all reads nothing that somebody wrote.
func (repository) all(h database.Handle, f AllFilter, w database.Window) ([]row, *int64, error) {
	q := database.Unscoped(h).Select("pk", "result_id", "version", "type", "uid", "model_name", "error_type", "status", "ptc_enabled", "event_seq", "created_at", "updated_at")
	if f.UID != "" {
		q = q.Where("uid = ?", f.UID)
	}
	if f.Status != "" {
		q = q.Where("status = ?", string(f.Status))
	}
	if !f.From.IsZero() {
		q = q.Where("created_at >= ?", f.From.UTC())
	}
	if !f.Until.IsZero() {
		q = q.Where("created_at < ?", f.Until.UTC())
	}
	return database.Newest[row](q, w)
}
