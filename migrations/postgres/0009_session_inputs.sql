-- +goose Up
-- Files of other sessions that a program of this one was given: they are files
-- of this session, too, whose content stays where it is.
CREATE TABLE code_inputs (
    session_id text        NOT NULL REFERENCES code_sessions (session_id) ON DELETE CASCADE,
    -- What the program found it under.
    name       text        NOT NULL,
    uid        text        NOT NULL REFERENCES users (uid),
    file_id    text        NOT NULL REFERENCES code_files (file_id) ON DELETE CASCADE,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (session_id, name)
);
CREATE INDEX code_inputs_file_id_idx ON code_inputs (file_id);
-- The sizes of a user's files are added up whenever one is added.
CREATE INDEX code_files_uid_idx ON code_files (uid);

-- +goose Down
DROP INDEX code_files_uid_idx;
DROP TABLE code_inputs;
