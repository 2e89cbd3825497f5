package billing

import (
	"time"

	"github.com/portico-run/portico/internal/database"
)

// The statements of transactions that are sent to PostgreSQL as a whole.

// queueLock is lockUser for a user to whom no subscription and no plan applies.
func (repository) queueLock(b *database.Batch, uid string, now time.Time) {
	if b.Dialect() == database.SQLite {
		liteQueueLock(b, uid, now)
		return
	}
	b.One(`WITH one AS (SELECT 1 FROM users WHERE uid = $1 AND NOT EXISTS (SELECT 1 FROM subscription_plans)
		AND NOT EXISTS (SELECT 1 FROM subscriptions s WHERE s.uid = users.uid AND s.status = 'active'
			AND s.lookup_key LIKE 'refly\_plus\_%' AND s.created_at > $2 AND (s.cancel_at IS NULL OR s.cancel_at > $3))
		FOR NO KEY UPDATE)`, uid, now.AddDate(0, -1, 0), now)
}

// queueUsage writes a usage and takes its amount from the recharge that expires
// first, which must cover it. It follows queueLock, whose lock keeps recharges as
// this statement finds them. A usage of the same call fails.
func (repository) queueUsage(b *database.Batch, r usageRow) {
	if b.Dialect() == database.SQLite {
		liteQueueUsage(b, r)
		return
	}
	const insert = `INSERT INTO credit_usages (usage_id, uid, amount, due_amount, usage_type, action_result_id, version, description, tool_call_id, tool_call_meta, created_at)`
	args := []any{
		r.UsageID, r.UID, r.Amount.String(), r.DueAmount.String(), r.UsageType, r.ActionResultID, r.Version, r.Description, r.ToolCallID, r.ToolCallMeta, r.CreatedAt,
	}
	if r.Amount == 0 {
		b.Queue(insert+` VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`, args...)
		return
	}
	b.One(`WITH lot AS (SELECT pk FROM credit_recharges WHERE uid = $2 AND enabled AND expires_at >= $11 AND balance > 0 ORDER BY expires_at, pk LIMIT 1),
one AS (UPDATE credit_recharges r SET balance = balance - $3::numeric, updated_at = $11 FROM lot
	WHERE r.uid = $2 AND r.pk = lot.pk AND balance >= $3::numeric RETURNING 1),
used AS (`+insert+` SELECT $1, $2, $3::numeric, $4::numeric, $5, $6, $7::integer, $8, $9, $10, $11 FROM one)`, args...)
}
