package run

import (
	"time"

	"github.com/portico-run/portico/internal/database"
)

// versions is a system job: the events of all users are published.
func (repository) versions(h database.Handle, resultIDs []string) ([]row, error) {
	var rows []row
	err := database.Unscoped(h).Select("uid", "result_id", "version", "event_seq", "status").
		Where("result_id IN ?", resultIDs).Order("result_id, version").Find(&rows).Error
	return rows, err
}

// changed is a system job: the events of all users are published.
func (repository) changed(h database.Handle, since time.Time, limit int) ([]string, error) {
	var ids []string
	err := database.Unscoped(h).Model(&row{}).
		Where("status IN ? OR status IN ? AND updated_at >= ?", []string{string(Waiting), string(Running)}, []string{string(Done), string(Failed), string(Aborted)}, since.UTC()).
		Order("updated_at DESC").Limit(limit).Pluck("result_id", &ids).Error
	return ids, err
}
