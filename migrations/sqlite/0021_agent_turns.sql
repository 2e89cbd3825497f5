-- +goose Up
-- What the turn of an agent has come to, so that another process can go on with
-- it. A turn that has ended leaves nothing here.
CREATE TABLE agent_turns (
    pk         integer PRIMARY KEY AUTOINCREMENT,
    uid        text NOT NULL REFERENCES users (uid),
    result_id  text NOT NULL,
    version    integer NOT NULL,
    -- 0 is what the turn began with; the others are the answers that had calls.
    step       integer NOT NULL,
    body       text NOT NULL,
    -- How often another process went on with it; counted at step 0.
    continued  integer NOT NULL DEFAULT 0,
    created_at datetime NOT NULL,
    UNIQUE (result_id, version, step)
);

-- +goose Down
DROP TABLE agent_turns;
