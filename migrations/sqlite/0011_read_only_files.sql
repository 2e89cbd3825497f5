-- +goose Up
-- A program finds such a file unwritable, and it stays what it is whatever the
-- program does.
ALTER TABLE code_files ADD COLUMN read_only boolean NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE code_files DROP COLUMN read_only;
