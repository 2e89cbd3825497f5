-- +goose Up
-- Tools that programs call as plain functions. A toolset may also be an MCP
-- server, so that its key refers to no other table.
CREATE TABLE tool_marks (
    pk          integer PRIMARY KEY AUTOINCREMENT,
    toolset_key text    NOT NULL,
    tool_name   text    NOT NULL,
    -- Of the function, in every language.
    name        text    NOT NULL UNIQUE,
    read_only   boolean NOT NULL,
    idempotent  boolean NOT NULL,
    -- Written by a toolset file, which alone changes it.
    from_file   boolean NOT NULL,
    created_at  datetime NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '+00:00'),
    UNIQUE (toolset_key, tool_name),
    CHECK (read_only OR idempotent)
);

-- +goose Down
DROP TABLE tool_marks;
