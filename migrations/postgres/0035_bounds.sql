-- +goose Up
-- What users use of their bounds, in all processes: how many may still begin, as of a
-- moment, and how many places each process has. It is worth nothing after a crash, so
-- that it need not be flushed.
CREATE UNLOGGED TABLE bounds (
    uid         text NOT NULL,
    scope       text NOT NULL,
    starts      double precision NOT NULL,
    refilled_at timestamptz NOT NULL,
    PRIMARY KEY (uid, scope)
);
CREATE UNLOGGED TABLE bound_places (
    uid     text NOT NULL,
    scope   text NOT NULL,
    node_id text NOT NULL,
    places  integer NOT NULL,
    PRIMARY KEY (uid, scope, node_id)
);

-- +goose Down
DROP TABLE bound_places;
DROP TABLE bounds;
