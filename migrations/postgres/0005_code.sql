-- +goose Up
CREATE TABLE code_sessions (
    session_id text        PRIMARY KEY,
    uid        text        NOT NULL REFERENCES users (uid),
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL
);
CREATE INDEX code_sessions_uid_idx ON code_sessions (uid);
CREATE INDEX code_sessions_expires_at_idx ON code_sessions (expires_at);

CREATE TABLE code_files (
    file_id      text        PRIMARY KEY,
    session_id   text        NOT NULL REFERENCES code_sessions (session_id) ON DELETE CASCADE,
    uid          text        NOT NULL REFERENCES users (uid),
    -- Relative to the program's folder, with slashes.
    name         text        NOT NULL,
    size         bigint      NOT NULL CHECK (size >= 0),
    content_type text        NOT NULL,
    -- SHA-256 of the content, hexadecimal.
    digest       text        NOT NULL,
    -- Whom the file belongs to on the client's side.
    kind         text        NOT NULL DEFAULT '',
    resource_id  text        NOT NULL DEFAULT '',
    version      text        NOT NULL DEFAULT '',
    created_at   timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX code_files_session_id_idx ON code_files (session_id, created_at);

-- Executions that were paused at least once. The process that holds one is its
-- owner; what it holds cannot be restored.
CREATE TABLE code_executions (
    execution_id text        PRIMARY KEY,
    session_id   text        NOT NULL,
    uid          text        NOT NULL REFERENCES users (uid),
    owner        text        NOT NULL,
    status       text        NOT NULL CHECK (status IN ('open', 'completed', 'failed', 'timed_out', 'cancelled', 'expired')),
    created_at   timestamptz NOT NULL DEFAULT now(),
    updated_at   timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX code_executions_updated_at_idx ON code_executions (updated_at);

-- +goose Down
DROP TABLE code_executions;
DROP TABLE code_files;
DROP TABLE code_sessions;
