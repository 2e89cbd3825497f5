-- +goose Up
-- A call may wait for a person.
ALTER TABLE tool_call_results DROP CONSTRAINT tool_call_results_status_check;
ALTER TABLE tool_call_results ADD CONSTRAINT tool_call_results_status_check CHECK (status IN ('waiting', 'executing', 'completed', 'failed'));

-- What a toolset file says: never, first or always; empty for what is usual.
ALTER TABLE toolset_inventory ADD COLUMN approval text NOT NULL DEFAULT '';
ALTER TABLE tool_methods ADD COLUMN approval text NOT NULL DEFAULT '';
-- read or write, where the file says which; empty for what follows from the HTTP method.
ALTER TABLE tool_methods ADD COLUMN effect text NOT NULL DEFAULT '';

CREATE TABLE approvals (
    pk                bigserial PRIMARY KEY,
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
    created_at        timestamptz NOT NULL,
    expires_at        timestamptz NOT NULL,
    decided_at        timestamptz,
    -- When the webhook is told next; NULL for not any more.
    notify_at         timestamptz,
    notify_attempts   integer NOT NULL DEFAULT 0
);
CREATE INDEX approvals_uid_state_idx ON approvals (uid, state, pk);
CREATE INDEX approvals_expires_at_idx ON approvals (expires_at) WHERE state = 'waiting';
CREATE INDEX approvals_notify_at_idx ON approvals (notify_at) WHERE notify_at IS NOT NULL;

-- What operators and users want approved: tools of a toolset, and calls by a key.
CREATE TABLE approval_rules (
    pk         bigserial PRIMARY KEY,
    -- Whose calls it is about; empty for everybody's.
    uid        text NOT NULL DEFAULT '',
    -- Empty for any.
    key_id     text NOT NULL DEFAULT '',
    toolset    text NOT NULL DEFAULT '',
    tool       text NOT NULL DEFAULT '',
    level      text NOT NULL CHECK (level IN ('never', 'first', 'always')),
    created_at timestamptz NOT NULL,
    UNIQUE (uid, key_id, toolset, tool)
);

-- What users have allowed for later calls.
CREATE TABLE approval_permissions (
    pk            bigserial PRIMARY KEY,
    permission_id text NOT NULL UNIQUE,
    uid           text NOT NULL REFERENCES users (uid),
    -- The run that it is for; empty for all.
    result_id     text NOT NULL DEFAULT '',
    toolset       text NOT NULL,
    tool          text NOT NULL,
    -- Arguments that are allowed, as an object; empty for any.
    pattern       text NOT NULL DEFAULT '',
    created_at    timestamptz NOT NULL
);
CREATE INDEX approval_permissions_uid_idx ON approval_permissions (uid, toolset, tool);

-- +goose Down
DROP TABLE approval_permissions;
DROP TABLE approval_rules;
DROP TABLE approvals;
ALTER TABLE tool_methods DROP COLUMN effect;
ALTER TABLE tool_methods DROP COLUMN approval;
ALTER TABLE toolset_inventory DROP COLUMN approval;
UPDATE tool_call_results SET status = 'failed', error = 'The call waited for an approval when this server went back to a version without them. Nothing was sent.' WHERE status = 'waiting';
ALTER TABLE tool_call_results DROP CONSTRAINT tool_call_results_status_check;
ALTER TABLE tool_call_results ADD CONSTRAINT tool_call_results_status_check CHECK (status IN ('executing', 'completed', 'failed'));
