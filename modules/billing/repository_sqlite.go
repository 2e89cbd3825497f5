package billing

import (
	"time"

	"github.com/portico-run/portico/internal/database"
)

// The statements of transactions that are sent to SQLite as a whole. Each does what
// that of its name does on PostgreSQL.
const (
	liteLock = `SELECT 1 FROM users WHERE uid = ?1 AND NOT EXISTS (SELECT 1 FROM subscription_plans)
		AND NOT EXISTS (SELECT 1 FROM subscriptions s WHERE s.uid = users.uid AND s.status = 'active'
			AND s.lookup_key LIKE 'refly\_plus\_%' ESCAPE '\' AND s.created_at > ?2 AND (s.cancel_at IS NULL OR s.cancel_at > ?3))`

	// SQLite keeps a balance as a double. What is left is rounded to the six digits of
	// an amount, which is what is left of a balance below the bound, where a double has
	// some digits more.
	litePay = `UPDATE credit_recharges SET balance = round(balance - ?3, 6), updated_at = ?2
		WHERE pk = (SELECT pk FROM credit_recharges WHERE uid = ?1 AND enabled AND expires_at >= ?2 AND balance > 0 ORDER BY expires_at, pk LIMIT 1)
		AND balance >= ?3 AND balance < 100000000`
	liteUsage = `INSERT INTO credit_usages (usage_id, uid, amount, due_amount, usage_type, action_result_id, version, description, tool_call_id, tool_call_meta, created_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)`
)

func liteQueueLock(b *database.Batch, uid string, now time.Time) {
	b.One(liteLock, uid, now.AddDate(0, -1, 0), now)
}

func liteQueueUsage(b *database.Batch, r usageRow) {
	if r.Amount != 0 {
		b.One(litePay, r.UID, r.CreatedAt, r.Amount.String())
	}
	b.One(liteUsage, r.UsageID, r.UID, r.Amount.String(), r.DueAmount.String(), r.UsageType, r.ActionResultID, r.Version, r.Description, r.ToolCallID, r.ToolCallMeta, r.CreatedAt)
}
