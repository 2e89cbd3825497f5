package record

import (
	"time"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/modules/run"
)

// The statements of transactions that are sent to PostgreSQL as a whole. Each
// does what the function of its name in the other files does.
//
// uid with an empty text behind it keeps the index of a user's calls out of it:
// PostgreSQL would take that for the one of call ids, and read all calls of the user
// for each, in a table that it has not analysed yet.
const (
	finish = `WITH one AS (UPDATE tool_call_results SET status = $1, output = $2, error = $3, lease_owner = NULL, lease_expires_at = NULL, updated_at = $4, result_bytes = $7
		WHERE uid || '' = $5 AND call_id = $6 AND status = 'executing' RETURNING pk),
		gone AS (DELETE FROM executing_calls e USING one WHERE e.uid = $5 AND e.call_pk = one.pk)`

	join = `WITH one AS (SELECT 1 FROM tool_call_results WHERE uid || '' = $1 AND call_id = $2 AND status = 'executing' AND deleted_at IS NULL
		AND (lease_owner IS NULL OR lease_owner NOT IN ($3, $4) OR lease_expires_at IS NULL OR (lease_owner = $3 AND lease_expires_at > $5))
		FOR SHARE)`
)

func (repository) queueInsert(b *database.Batch, r callRow) {
	if b.Dialect() == database.SQLite {
		liteQueueInsert(b, r)
		return
	}
	b.Queue(`WITH one AS (INSERT INTO tool_call_results (result_id, version, call_id, uid, toolset_id, tool_name, step_name, input, output, status, type,
		ptc_call_id, canvas_id, idempotency_key, request_hash, lease_owner, lease_expires_at, created_at, updated_at, line)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $18, $19) RETURNING pk, uid)
		INSERT INTO executing_calls (call_pk, uid) SELECT pk, uid FROM one`,
		r.ResultID, r.Version, r.CallID, r.UID, r.ToolsetID, r.ToolName, r.StepName, r.Input, r.Output, string(r.Status), string(r.Type),
		r.PTCCallID, r.CanvasID, r.IdempotencyKey, r.RequestHash, r.LeaseOwner, r.LeaseExpiresAt, r.CreatedAt, r.Line)
}

func (repository) queueFinish(b *database.Batch, c Call, at time.Time) {
	if b.Dialect() == database.SQLite {
		liteQueueFinish(b, c, at)
		return
	}
	b.One(finish, string(c.Status), string(c.Output), database.Optional(c.Error), at, c.UID, c.CallID, c.Bytes)
}

// queueJoin holds the program's row together with the other calls that it makes:
// they do not wait for each other, and its end waits for all of them.
func (repository) queueJoin(b *database.Batch, c Call, now time.Time) {
	if b.Dialect() == database.SQLite {
		liteQueueJoin(b, c, now)
		return
	}
	b.One(join, c.UID, c.ParentID, run.Outside, ending, now)
}
