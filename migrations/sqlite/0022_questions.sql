-- +goose Up
-- A call may wait several times: to be allowed, and for answers to questions. SQLite
-- drops a constraint by copying the table.
ALTER TABLE approvals RENAME TO approvals_before;
DROP INDEX approvals_uid_state_idx;
DROP INDEX approvals_expires_at_idx;
DROP INDEX approvals_notify_at_idx;
CREATE TABLE approvals (
    pk                integer PRIMARY KEY AUTOINCREMENT,
    call_id           text NOT NULL,
    uid               text NOT NULL REFERENCES users (uid),
    result_id         text NOT NULL,
    version           integer NOT NULL,
    parent_id         text NOT NULL DEFAULT '',
    line              integer NOT NULL DEFAULT 0,
    toolset           text NOT NULL,
    tool              text NOT NULL,
    arguments         text NOT NULL,
    -- Those that the call is made with where the decision changed them.
    changed_arguments text,
    host              text NOT NULL DEFAULT '',
    price             text NOT NULL DEFAULT '',
    reason            text NOT NULL,
    state             text NOT NULL CHECK (state IN ('waiting', 'allowed', 'refused', 'expired')),
    decision          text NOT NULL DEFAULT '',
    decided_by        text NOT NULL DEFAULT '',
    note              text NOT NULL DEFAULT '',
    created_at        datetime NOT NULL,
    expires_at        datetime NOT NULL,
    decided_at        datetime,
    -- When the webhook is told next; NULL for not any more.
    notify_at         datetime,
    notify_attempts   integer NOT NULL DEFAULT 0,
    -- Which wait of its call it is, from 0.
    round             integer NOT NULL DEFAULT 0,
    -- What the tool asks, as JSON; NULL where the call waits to be allowed.
    question          text,
    UNIQUE (call_id, round)
);
INSERT INTO approvals (
    pk, call_id, uid, result_id, version, parent_id, line, toolset, tool, arguments,
    changed_arguments, host, price, reason, state, decision, decided_by, note, created_at,
    expires_at, decided_at, notify_at, notify_attempts
) SELECT
    pk, call_id, uid, result_id, version, parent_id, line, toolset, tool, arguments,
    changed_arguments, host, price, reason, state, decision, decided_by, note, created_at,
    expires_at, decided_at, notify_at, notify_attempts
FROM approvals_before;
DROP TABLE approvals_before;
CREATE INDEX approvals_uid_state_idx ON approvals (uid, state, pk);
CREATE INDEX approvals_expires_at_idx ON approvals (expires_at) WHERE state = 'waiting';
CREATE INDEX approvals_notify_at_idx ON approvals (notify_at) WHERE notify_at IS NOT NULL;

-- +goose Down
DELETE FROM approvals WHERE round > 0;
ALTER TABLE approvals RENAME TO approvals_after;
DROP INDEX approvals_uid_state_idx;
DROP INDEX approvals_expires_at_idx;
DROP INDEX approvals_notify_at_idx;
CREATE TABLE approvals (
    pk                integer PRIMARY KEY AUTOINCREMENT,
    call_id           text NOT NULL UNIQUE,
    uid               text NOT NULL REFERENCES users (uid),
    result_id         text NOT NULL,
    version           integer NOT NULL,
    parent_id         text NOT NULL DEFAULT '',
    line              integer NOT NULL DEFAULT 0,
    toolset           text NOT NULL,
    tool              text NOT NULL,
    arguments         text NOT NULL,
    -- Those that the call is made with where the decision changed them.
    changed_arguments text,
    host              text NOT NULL DEFAULT '',
    price             text NOT NULL DEFAULT '',
    reason            text NOT NULL,
    state             text NOT NULL CHECK (state IN ('waiting', 'allowed', 'refused', 'expired')),
    decision          text NOT NULL DEFAULT '',
    decided_by        text NOT NULL DEFAULT '',
    note              text NOT NULL DEFAULT '',
    created_at        datetime NOT NULL,
    expires_at        datetime NOT NULL,
    decided_at        datetime,
    -- When the webhook is told next; NULL for not any more.
    notify_at         datetime,
    notify_attempts   integer NOT NULL DEFAULT 0
);
INSERT INTO approvals (
    pk, call_id, uid, result_id, version, parent_id, line, toolset, tool, arguments,
    changed_arguments, host, price, reason, state, decision, decided_by, note, created_at,
    expires_at, decided_at, notify_at, notify_attempts
) SELECT
    pk, call_id, uid, result_id, version, parent_id, line, toolset, tool, arguments,
    changed_arguments, host, price, reason, state, decision, decided_by, note, created_at,
    expires_at, decided_at, notify_at, notify_attempts
FROM approvals_after;
DROP TABLE approvals_after;
CREATE INDEX approvals_uid_state_idx ON approvals (uid, state, pk);
CREATE INDEX approvals_expires_at_idx ON approvals (expires_at) WHERE state = 'waiting';
CREATE INDEX approvals_notify_at_idx ON approvals (notify_at) WHERE notify_at IS NOT NULL;
