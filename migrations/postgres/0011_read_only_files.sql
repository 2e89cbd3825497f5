-- +goose Up
-- Programs cannot write a read-only file, and nothing that a program leaves
-- replaces it.
ALTER TABLE code_files ADD COLUMN read_only boolean NOT NULL DEFAULT false;

-- +goose Down
ALTER TABLE code_files DROP COLUMN read_only;
