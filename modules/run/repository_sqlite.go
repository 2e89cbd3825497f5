package run

import "github.com/portico-run/portico/internal/database"

// The statements of transactions that are sent to SQLite as a whole. Each does what
// that of its name does on PostgreSQL, or several do. The number that liteNext gives
// out is read where it is needed, as one value: SQLite prepares to take back what an
// INSERT … SELECT wrote, which costs as much again.
const (
	liteNext = `UPDATE action_results SET event_seq = event_seq + 1
		WHERE uid = ?1 AND result_id = ?2 AND version = ?3 AND status IN ('waiting', 'running')`
	liteNumber = `(SELECT event_seq FROM action_results WHERE uid = ?1 AND result_id = ?2 AND version = ?3)`
	liteEvent  = `INSERT INTO run_events (result_id, version, seq, type, call_id, payload, created_at)
		VALUES (?2, ?3, ` + liteNumber + `, ?4, ?5, ?6, ?7)`
	liteMessage = `INSERT INTO action_messages (message_id, result_id, version, seq, type, content, reasoning_content, usage_meta, tool_call_meta, tool_call_id, created_at, updated_at)
		VALUES (?4, ?2, ?3, CASE WHEN ?5 = 0 THEN ` + liteNumber + ` ELSE ?5 END, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?12)`
)

func liteQueueEvent(b *database.Batch, of Ref, e eventRow) {
	row := rowOf(of)
	b.Last(row, liteNext, of.UID, of.ResultID, of.Version)
	b.Last(row, liteEvent, of.UID, of.ResultID, of.Version, e.Type, e.CallID, e.Payload, e.CreatedAt)
}

func liteQueueMessage(b *database.Batch, of Ref, e eventRow, m messageRow) {
	liteQueueEvent(b, of, e)
	b.Last(rowOf(of), liteMessage, of.UID, of.ResultID, of.Version,
		m.MessageID, m.Seq, string(m.Type), m.Content, m.ReasoningContent, m.UsageMeta, m.ToolCallMeta, m.ToolCallID, m.CreatedAt)
}
