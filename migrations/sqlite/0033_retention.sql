-- +goose Up
-- Whether the events of a run that has ended are deleted, but for the last.
ALTER TABLE action_results ADD COLUMN events_gone boolean NOT NULL DEFAULT false;
CREATE INDEX action_results_events_idx ON action_results (updated_at) WHERE NOT events_gone AND status IN ('finish', 'error', 'aborted');
-- Calls in runs go with their runs; this is about the others.
CREATE INDEX tool_call_results_outside_idx ON tool_call_results (created_at) WHERE result_id = 'non-result-id' OR deleted_at IS NOT NULL;
CREATE INDEX audit_events_created_at_idx ON audit_events (created_at);
-- What was charged stays when the record of its call goes, as in PostgreSQL.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, 'UNIQUE REFERENCES tool_call_results (call_id)', 'UNIQUE')
    WHERE type = 'table' AND name = 'credit_usages';
PRAGMA writable_schema = RESET;

-- +goose Down
DROP INDEX audit_events_created_at_idx;
DROP INDEX tool_call_results_outside_idx;
DROP INDEX action_results_events_idx;
ALTER TABLE action_results DROP COLUMN events_gone;
