-- +goose Up
-- The calls that execute, for whoever looks for those whose process is gone: an
-- index on the lease in the record would be one more to write when a call ends.
CREATE TABLE executing_calls (
    call_pk integer PRIMARY KEY,
    uid     text NOT NULL
);
INSERT INTO executing_calls (call_pk, uid) SELECT pk, uid FROM tool_call_results WHERE status = 'executing';
DROP INDEX tool_call_results_lease_idx;

-- +goose Down
CREATE INDEX tool_call_results_lease_idx ON tool_call_results (lease_expires_at) WHERE status = 'executing';
DROP TABLE executing_calls;
