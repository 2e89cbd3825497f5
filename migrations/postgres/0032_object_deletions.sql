-- +goose Up
-- Objects that no row names any more, written down in the transaction that deleted the
-- row. They are taken away after it; what is due later is being taken away now.
CREATE TABLE object_deletions (
    pk     bigserial PRIMARY KEY,
    uid    text        NOT NULL,
    key    text        NOT NULL,
    due_at timestamptz NOT NULL
);
CREATE INDEX object_deletions_due_at_idx ON object_deletions (due_at);

-- +goose Down
DROP TABLE object_deletions;
