package holdings

import "github.com/portico-run/portico/internal/database"

// repository is what names objects: one key in each row of the answer.
type repository struct{}

// named hands over every key that a row of any user names, and whether its object is on
// its way out.
func (repository) named(h database.Handle, take func(key string, leaving bool)) error {
	for _, part := range []struct {
		query   string
		leaving bool
	}{
		// First: a row that goes meanwhile has its key here, or there.
		{"SELECT storage_key FROM drive_files WHERE deleted_at IS NULL AND storage_key IS NOT NULL", false},
		{"SELECT 'code/' || uid || '/' || session_id || '/' || file_id FROM code_files", false},
		// A result may hold the answer of another call: only a call's own name counts.
		{`SELECT 'tool-output/' || uid || '/' || call_id || '.json' FROM tool_call_results
			WHERE deleted_at IS NULL AND status IN ('completed', 'failed') AND output LIKE '%"ref":"/v1/tool/call/output_toolCallId=' || replace(call_id, ':', '%') || '"%'`, false},
		{"SELECT key FROM object_deletions", true},
	} {
		rows, err := database.Unscoped(h).Raw(part.query).Rows()
		if err != nil {
			return err
		}
		for rows.Next() {
			var key string
			if err := rows.Scan(&key); err != nil {
				_ = rows.Close() // the first error counts
				return err
			}
			take(key, part.leaving)
		}
		if err := rows.Close(); err != nil {
			return err
		}
		if err := rows.Err(); err != nil {
			return err
		}
	}
	return nil
}
