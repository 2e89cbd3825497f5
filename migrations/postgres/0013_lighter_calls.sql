-- +goose NO TRANSACTION
-- +goose Up
-- Each statement holds its table for a moment only, and may be repeated: a
-- migration that was interrupted starts over. Nothing is written anew.

-- The calls that execute, for whoever looks for those whose process is gone: an
-- index on the lease in the record would be one more to write when a call ends.
CREATE TABLE IF NOT EXISTS executing_calls (
    call_pk bigint PRIMARY KEY,
    uid     text NOT NULL
) WITH (autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_scale_factor = 0);
INSERT INTO executing_calls (call_pk, uid) SELECT pk, uid FROM tool_call_results WHERE status = 'executing' ON CONFLICT DO NOTHING;
DROP INDEX CONCURRENTLY IF EXISTS tool_call_results_lease_idx;
-- A record grows when its call ends. With room in its page, no index changes.
ALTER TABLE tool_call_results SET (fillfactor = 50);

-- A statement that appends an event finds its run first, and holds it.
ALTER TABLE run_events DROP CONSTRAINT IF EXISTS run_events_result_id_version_fkey;
-- A usage is written in the transaction that ends its call.
ALTER TABLE credit_usages DROP CONSTRAINT IF EXISTS credit_usages_tool_call_id_fkey;
-- Nothing looks for a usage by this id, which is random.
ALTER TABLE credit_usages DROP CONSTRAINT IF EXISTS credit_usages_usage_id_key;

-- +goose Down
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS credit_usages_usage_id_key ON credit_usages (usage_id);
ALTER TABLE credit_usages ADD CONSTRAINT credit_usages_usage_id_key UNIQUE USING INDEX credit_usages_usage_id_key;
ALTER TABLE credit_usages ADD CONSTRAINT credit_usages_tool_call_id_fkey FOREIGN KEY (tool_call_id) REFERENCES tool_call_results (call_id) NOT VALID;
ALTER TABLE run_events ADD CONSTRAINT run_events_result_id_version_fkey FOREIGN KEY (result_id, version) REFERENCES action_results (result_id, version) NOT VALID;
ALTER TABLE tool_call_results RESET (fillfactor);
CREATE INDEX CONCURRENTLY IF NOT EXISTS tool_call_results_lease_idx ON tool_call_results (lease_expires_at) WHERE status = 'executing';
DROP TABLE executing_calls;
