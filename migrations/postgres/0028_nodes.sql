-- +goose Up
-- The processes that serve, each by its id, which it has for its life. Calls, programs
-- and runs whose lease has no moment live with their process.
CREATE TABLE nodes (
    node_id    text PRIMARY KEY,
    -- Where the other processes reach it; empty where they cannot.
    address    text NOT NULL DEFAULT '',
    version    text NOT NULL,
    role       text NOT NULL,
    -- How many programs run at once, do, and wait; how many may pause, and do.
    capacity   integer NOT NULL DEFAULT 0,
    running    integer NOT NULL DEFAULT 0,
    queued     integer NOT NULL DEFAULT 0,
    max_paused integer NOT NULL DEFAULT 0,
    paused     integer NOT NULL DEFAULT 0,
    -- It ends, and takes no new work.
    draining   boolean NOT NULL DEFAULT false,
    -- Somebody wants it to.
    drain      boolean NOT NULL DEFAULT false,
    started_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL
);

-- +goose Down
-- What lives with its process gets a moment before that.
UPDATE action_results SET lease_expires_at = now() WHERE lease_expires_at IS NULL AND lease_owner IS NOT NULL AND status = 'running';
UPDATE tool_call_results SET lease_expires_at = now() WHERE lease_expires_at IS NULL AND lease_owner IS NOT NULL AND status IN ('executing', 'waiting');
DROP TABLE nodes;
