package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/portico-run/portico/modules/demo"
)

// baseline is what the least program could be that does the same: the same
// statements through pgx alone, the same call of the upstream, no layers, no
// checks.
type baseline struct {
	pool     *pgxpool.Pool
	upstream string
	client   *http.Client
}

// ServeHTTP answers one call.
func (b *baseline) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct {
		ToolsetKey, ToolName string
		Arguments            json.RawMessage
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	data, err := b.call(r.Context(), r.Header.Get("X-API-Key"), in.ToolsetKey, in.ToolName, in.Arguments)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"success":true,"data":{"status":"success","data":%s}}`, data)
}

func (b *baseline) call(ctx context.Context, key, set, name string, arguments json.RawMessage) ([]byte, error) {
	sum := sha256.Sum256([]byte(key))
	var pk int64
	var uid string
	err := b.pool.QueryRow(ctx, `SELECT pk, uid FROM user_api_keys WHERE key_hash = $1 AND revoked_at IS NULL LIMIT 1`, hex.EncodeToString(sum[:])).Scan(&pk, &uid)
	if err != nil {
		return nil, err
	}
	id, now := "standalone:"+uuid.NewString(), time.Now()
	err = pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, `INSERT INTO tool_call_results (result_id, version, call_id, uid, toolset_id, tool_name, input, output, status, type,
			lease_owner, lease_expires_at, created_at, updated_at) VALUES ('non-result-id', 0, $1, $2, $3, $4, $5, '', 'executing', 'standalone', 'b', $6, $7, $7)
			RETURNING pk`, id, uid, set, name, string(arguments), now.Add(time.Minute), now).Scan(&pk)
	})
	if err != nil {
		return nil, err
	}
	if err := b.identify(ctx, uid, set); err != nil {
		return nil, err
	}
	data, err := b.ask(ctx)
	if err != nil {
		return nil, err
	}
	return data, pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error { return b.settle(ctx, tx, id, uid, data) })
}

func (b *baseline) identify(ctx context.Context, uid, set string) error {
	var id, name string
	var global, mcp bool
	var auth, data *string
	var updated time.Time
	return b.pool.QueryRow(ctx, `SELECT t.toolset_id, t.name, t.is_global, t.auth_type, t.auth_data, i.updated_at, EXISTS (SELECT 1 FROM mcp_servers m
		WHERE m.uid = $1 AND m.name = $2 AND m.enabled AND m.deleted_at IS NULL) FROM toolsets t LEFT JOIN toolset_inventory i ON i.key = t.key
		AND i.enabled AND i.deleted_at IS NULL WHERE (t.uid = $1 OR t.is_global) AND t.deleted_at IS NULL AND t.key = $2 AND t.enabled
		AND NOT t.uninstalled ORDER BY t.is_global, t.pk LIMIT 1`, uid, set).Scan(&id, &name, &global, &auth, &data, &updated, &mcp)
}

func (b *baseline) ask(ctx context.Context) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, b.upstream+"/cities?min_population=0", nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("X-Demo-Key", demo.Key)
	resp, err := b.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

func (b *baseline) settle(ctx context.Context, tx pgx.Tx, id, uid string, data []byte) error {
	now := time.Now()
	var pk int64
	var plus bool
	var balance float64
	_, err := tx.Exec(ctx, `UPDATE tool_call_results SET error = NULL, lease_expires_at = NULL, lease_owner = NULL, output = $1, status = 'completed',
		updated_at = $2 WHERE uid = $3 AND call_id = $4 AND status = 'executing'`, string(data), now, uid, id)
	if err == nil {
		err = tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM subscriptions s WHERE s.uid = users.uid AND s.status = 'active'
			AND s.lookup_key LIKE 'refly\_plus\_%' AND s.created_at > $2 AND (s.cancel_at IS NULL OR s.cancel_at > $3))
			FROM users WHERE uid = $1 LIMIT 1 FOR NO KEY UPDATE`, uid, now.AddDate(0, -1, 0), now).Scan(&plus)
	}
	if err == nil {
		err = tx.QueryRow(ctx, `INSERT INTO credit_usages (usage_id, uid, amount, due_amount, usage_type, description, tool_call_id, created_at)
			VALUES ($1, $2, 1, 1, 'tool_call', 'Tool call', $3, $4) ON CONFLICT (tool_call_id) DO NOTHING RETURNING pk`, uuid.NewString(), uid, id, now).Scan(&pk)
	}
	if err == nil {
		err = tx.QueryRow(ctx, `SELECT pk, balance FROM credit_recharges WHERE uid = $1 AND enabled AND expires_at >= $2 AND balance > 0
			ORDER BY expires_at, pk`, uid, now).Scan(&pk, &balance)
	}
	if err == nil {
		_, err = tx.Exec(ctx, `UPDATE credit_recharges SET balance = balance - 1, updated_at = $1 WHERE uid = $2 AND pk = $3`, now, uid, pk)
	}
	return err
}
