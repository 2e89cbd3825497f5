package record

import (
	"time"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/modules/run"
)

// The statements of transactions that are sent to SQLite as a whole. Each does what
// that of its name does on PostgreSQL, or several do. Nothing is locked: SQLite has
// one writer.
const (
	liteInsert = `INSERT INTO tool_call_results (result_id, version, call_id, uid, toolset_id, tool_name, step_name, input, output, status, type,
		ptc_call_id, canvas_id, idempotency_key, request_hash, lease_owner, lease_expires_at, created_at, updated_at, line)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?18, ?19)`
	liteExecutes = `INSERT INTO executing_calls (call_pk, uid) VALUES (last_insert_rowid(), ?1)`

	liteFinish = `UPDATE tool_call_results SET status = ?1, output = ?2, error = ?3, lease_owner = NULL, lease_expires_at = NULL, updated_at = ?4, result_bytes = ?7
		WHERE uid = ?5 AND call_id = ?6 AND status = 'executing'`
	liteGone = `DELETE FROM executing_calls WHERE uid = ?1 AND call_pk = (SELECT pk FROM tool_call_results WHERE uid = ?1 AND call_id = ?2)`

	liteJoin = `SELECT 1 FROM tool_call_results WHERE uid = ?1 AND call_id = ?2 AND status = 'executing' AND deleted_at IS NULL
		AND (lease_owner IS NULL OR lease_owner NOT IN (?3, ?4) OR lease_expires_at IS NULL OR (lease_owner = ?3 AND lease_expires_at > ?5))`
)

func liteQueueInsert(b *database.Batch, r callRow) {
	b.One(liteInsert, r.ResultID, r.Version, r.CallID, r.UID, r.ToolsetID, r.ToolName, r.StepName, r.Input, r.Output, string(r.Status), string(r.Type),
		r.PTCCallID, r.CanvasID, r.IdempotencyKey, r.RequestHash, r.LeaseOwner, r.LeaseExpiresAt, r.CreatedAt, r.Line)
	b.One(liteExecutes, r.UID)
}

func liteQueueFinish(b *database.Batch, c Call, at time.Time) {
	b.One(liteFinish, string(c.Status), string(c.Output), database.Optional(c.Error), at, c.UID, c.CallID, c.Bytes)
	b.Queue(liteGone, c.UID, c.CallID)
}

func liteQueueJoin(b *database.Batch, c Call, now time.Time) {
	b.One(liteJoin, c.UID, c.ParentID, run.Outside, ending, now)
}
