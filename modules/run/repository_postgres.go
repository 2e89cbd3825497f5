package run

import (
	"fmt"

	"github.com/portico-run/portico/internal/database"
)

// The statements of transactions that are sent to PostgreSQL as a whole. Each
// does what the functions of its name in the other files do.

// next is advance: the next event number of a run that is not over. uid with an
// empty text behind it keeps the index of a user's runs out of it, which PostgreSQL
// would take for that of the run in a table that it has not analysed yet.
const next = `WITH one AS (UPDATE action_results SET event_seq = event_seq + 1
	WHERE uid || '' = $1 AND result_id = $2 AND version = $3 AND status IN ('waiting', 'running') RETURNING event_seq),
e AS (INSERT INTO run_events (result_id, version, seq, type, call_id, payload, created_at)
	SELECT $2, $3, event_seq, $4, $5, $6, $7 FROM one)`

// rowOf names the run, whose row an event holds.
func rowOf(r Ref) string { return fmt.Sprintf("%s %d", r.ResultID, r.Version) }

func (repository) queueEvent(b *database.Batch, of Ref, e eventRow) {
	if b.Dialect() == database.SQLite {
		liteQueueEvent(b, of, e)
		return
	}
	b.Last(rowOf(of), next, of.UID, of.ResultID, of.Version, e.Type, e.CallID, e.Payload, e.CreatedAt)
}

// queueMessage adds an event and its message. A message without the number of
// an event that showed it gets that of this one.
func (repository) queueMessage(b *database.Batch, of Ref, e eventRow, m messageRow) {
	if b.Dialect() == database.SQLite {
		liteQueueMessage(b, of, e, m)
		return
	}
	b.Last(rowOf(of), next+`,
m AS (INSERT INTO action_messages (message_id, result_id, version, seq, type, content, reasoning_content, usage_meta, tool_call_meta, tool_call_id, created_at, updated_at)
	SELECT $8, $2, $3, CASE WHEN $9::bigint = 0 THEN event_seq ELSE $9 END, $10, $11, $12, $13, $14, $15, $16, $16 FROM one)`,
		of.UID, of.ResultID, of.Version, e.Type, e.CallID, e.Payload, e.CreatedAt,
		m.MessageID, m.Seq, string(m.Type), m.Content, m.ReasoningContent, m.UsageMeta, m.ToolCallMeta, m.ToolCallID, m.CreatedAt)
}
