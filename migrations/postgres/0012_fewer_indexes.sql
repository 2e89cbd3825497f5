-- +goose NO TRANSACTION
-- +goose Up
-- Every call writes to each index of these tables, and the end of a call writes
-- to those of tool_call_results again. What no query uses goes. pk orders the
-- rows of one user; no query looks for a row by pk alone.
-- Indexes are built while calls go on, so there is no transaction around it all:
-- a migration that was interrupted starts over.
DROP INDEX CONCURRENTLY IF EXISTS tool_call_results_next;
CREATE UNIQUE INDEX CONCURRENTLY tool_call_results_next ON tool_call_results (uid, pk);
ALTER TABLE tool_call_results DROP CONSTRAINT IF EXISTS tool_call_results_pkey, ADD CONSTRAINT tool_call_results_pkey PRIMARY KEY USING INDEX tool_call_results_next;
DROP INDEX CONCURRENTLY IF EXISTS tool_call_results_uid_pk_idx;
DROP INDEX CONCURRENTLY IF EXISTS tool_call_results_toolset_id_deleted_at_idx;
DROP INDEX CONCURRENTLY IF EXISTS tool_call_results_tool_name_deleted_at_idx;
DROP INDEX CONCURRENTLY IF EXISTS tool_call_results_result_id_version_idx;
CREATE INDEX CONCURRENTLY tool_call_results_result_id_version_idx ON tool_call_results (result_id, version);
DROP INDEX CONCURRENTLY IF EXISTS tool_call_results_result_id_version_type_idx;
-- Most calls have neither.
DROP INDEX CONCURRENTLY IF EXISTS tool_call_results_ptc_call_id_idx;
CREATE INDEX CONCURRENTLY tool_call_results_ptc_call_id_idx ON tool_call_results (ptc_call_id) WHERE ptc_call_id IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS tool_call_results_ptc_call_id_type_deleted_at_idx;
DROP INDEX CONCURRENTLY IF EXISTS tool_call_results_next;
CREATE UNIQUE INDEX CONCURRENTLY tool_call_results_next ON tool_call_results (uid, idempotency_key) WHERE idempotency_key IS NOT NULL;
ALTER TABLE tool_call_results DROP CONSTRAINT IF EXISTS tool_call_results_uid_idempotency_key_key;
DROP INDEX CONCURRENTLY IF EXISTS tool_call_results_uid_idempotency_key_key;
ALTER INDEX tool_call_results_next RENAME TO tool_call_results_uid_idempotency_key_key;

DROP INDEX CONCURRENTLY IF EXISTS run_events_next;
CREATE UNIQUE INDEX CONCURRENTLY run_events_next ON run_events (result_id, version, seq);
ALTER TABLE run_events DROP CONSTRAINT IF EXISTS run_events_pkey, ADD CONSTRAINT run_events_pkey PRIMARY KEY USING INDEX run_events_next;
ALTER TABLE run_events DROP CONSTRAINT IF EXISTS run_events_result_id_version_seq_key;

DROP INDEX CONCURRENTLY IF EXISTS action_messages_next;
CREATE UNIQUE INDEX CONCURRENTLY action_messages_next ON action_messages (result_id, version, seq);
ALTER TABLE action_messages DROP CONSTRAINT IF EXISTS action_messages_pkey, ADD CONSTRAINT action_messages_pkey PRIMARY KEY USING INDEX action_messages_next;
ALTER TABLE action_messages DROP CONSTRAINT IF EXISTS action_messages_result_id_version_seq_key;

DROP INDEX CONCURRENTLY IF EXISTS credit_usages_provider_item_id_created_at_idx;

-- +goose Down
CREATE INDEX credit_usages_provider_item_id_created_at_idx ON credit_usages (provider_item_id, created_at);

ALTER TABLE action_messages DROP CONSTRAINT action_messages_pkey;
ALTER TABLE action_messages ADD PRIMARY KEY (pk);
ALTER TABLE action_messages ADD UNIQUE (result_id, version, seq);

ALTER TABLE run_events DROP CONSTRAINT run_events_pkey;
ALTER TABLE run_events ADD PRIMARY KEY (pk);
ALTER TABLE run_events ADD UNIQUE (result_id, version, seq);

DROP INDEX tool_call_results_uid_idempotency_key_key;
ALTER TABLE tool_call_results ADD UNIQUE (uid, idempotency_key);
DROP INDEX tool_call_results_ptc_call_id_idx;
CREATE INDEX tool_call_results_ptc_call_id_type_deleted_at_idx ON tool_call_results (ptc_call_id, type, deleted_at);
DROP INDEX tool_call_results_result_id_version_idx;
CREATE INDEX tool_call_results_result_id_version_type_idx ON tool_call_results (result_id, version, type);
CREATE INDEX tool_call_results_tool_name_deleted_at_idx ON tool_call_results (tool_name, deleted_at);
CREATE INDEX tool_call_results_toolset_id_deleted_at_idx ON tool_call_results (toolset_id, deleted_at);
ALTER TABLE tool_call_results DROP CONSTRAINT tool_call_results_pkey;
ALTER TABLE tool_call_results ADD PRIMARY KEY (pk);
CREATE INDEX tool_call_results_uid_pk_idx ON tool_call_results (uid, pk);
