-- +goose Up
-- What users use of their bounds, in all processes: how many may still begin, as of a
-- moment, and how many places each process has.
CREATE TABLE bounds (
    uid         text     NOT NULL,
    scope       text     NOT NULL,
    starts      real     NOT NULL,
    refilled_at datetime NOT NULL,
    PRIMARY KEY (uid, scope)
);
CREATE TABLE bound_places (
    uid     text    NOT NULL,
    scope   text    NOT NULL,
    node_id text    NOT NULL,
    places  integer NOT NULL,
    PRIMARY KEY (uid, scope, node_id)
);

-- +goose Down
DROP TABLE bound_places;
DROP TABLE bounds;
