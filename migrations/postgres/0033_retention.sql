-- +goose NO TRANSACTION
-- +goose Up
-- Indexes are built while calls go on, so there is no transaction around it all: a
-- migration that was interrupted starts over.
-- Whether the events of a run that has ended are deleted, but for the last.
ALTER TABLE action_results ADD COLUMN IF NOT EXISTS events_gone boolean NOT NULL DEFAULT false;
DROP INDEX CONCURRENTLY IF EXISTS action_results_events_idx;
CREATE INDEX CONCURRENTLY action_results_events_idx ON action_results (updated_at) WHERE NOT events_gone AND status IN ('finish', 'error', 'aborted');
-- Calls in runs go with their runs; this is about the others.
DROP INDEX CONCURRENTLY IF EXISTS tool_call_results_outside_idx;
CREATE INDEX CONCURRENTLY tool_call_results_outside_idx ON tool_call_results (created_at) WHERE result_id = 'non-result-id' OR deleted_at IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS audit_events_created_at_idx;
CREATE INDEX CONCURRENTLY audit_events_created_at_idx ON audit_events (created_at);

-- +goose Down
DROP INDEX CONCURRENTLY IF EXISTS audit_events_created_at_idx;
DROP INDEX CONCURRENTLY IF EXISTS tool_call_results_outside_idx;
DROP INDEX CONCURRENTLY IF EXISTS action_results_events_idx;
ALTER TABLE action_results DROP COLUMN IF EXISTS events_gone;
