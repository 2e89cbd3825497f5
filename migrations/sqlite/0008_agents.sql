-- +goose Up
-- Warnings of a run, a JSON list of sentences; and to whom the model handed its
-- work over, {"agent","summary"}. Both are written when the run ends.
ALTER TABLE action_results ADD COLUMN warnings text;
ALTER TABLE action_results ADD COLUMN handoff text;

-- +goose Down
ALTER TABLE action_results DROP COLUMN handoff;
ALTER TABLE action_results DROP COLUMN warnings;
