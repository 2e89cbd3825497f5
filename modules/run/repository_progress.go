package run

import "github.com/portico-run/portico/internal/database"

// progress is unscoped because it asks for the runs of many users at once; each
// is named with its user.
func (repository) progress(h database.Handle, runs []Ref) ([]row, error) {
	names := make([][]any, len(runs))
	for i, r := range runs {
		names[i] = []any{r.UID, r.ResultID, r.Version}
	}
	var rows []row
	err := database.Unscoped(h).Select("uid", "result_id", "version", "event_seq").
		Where("(uid, result_id, version) IN ?", names).Find(&rows).Error
	return rows, err
}
