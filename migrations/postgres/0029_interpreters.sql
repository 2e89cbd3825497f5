-- +goose Up
-- Which process has the persistent interpreter of a place, such as a canvas. It is taken
-- over when the process is gone.
CREATE TABLE interpreters (
    uid     text        NOT NULL REFERENCES users (uid),
    place   text        NOT NULL,
    node_id text        NOT NULL,
    used_at timestamptz NOT NULL,
    PRIMARY KEY (uid, place)
);

-- Housekeeping looks for places that nobody has used for long.
CREATE INDEX interpreters_used_at ON interpreters (used_at);

-- +goose Down
DROP TABLE interpreters;
