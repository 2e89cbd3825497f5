-- +goose Up
-- A call may wait several times: to be allowed, and for answers to questions.
ALTER TABLE approvals DROP CONSTRAINT approvals_call_id_key;
-- Which wait of its call it is, from 0.
ALTER TABLE approvals ADD COLUMN round integer NOT NULL DEFAULT 0;
-- What the tool asks, as JSON; NULL where the call waits to be allowed.
ALTER TABLE approvals ADD COLUMN question text;
CREATE UNIQUE INDEX approvals_call_id_round_idx ON approvals (call_id, round);

-- +goose Down
DELETE FROM approvals WHERE round > 0;
DROP INDEX approvals_call_id_round_idx;
ALTER TABLE approvals DROP COLUMN question;
ALTER TABLE approvals DROP COLUMN round;
ALTER TABLE approvals ADD CONSTRAINT approvals_call_id_key UNIQUE (call_id);
