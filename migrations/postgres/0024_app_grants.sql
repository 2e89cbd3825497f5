-- +goose Up
-- Apps that users let in over OAuth: one row for each time that somebody allowed it.
CREATE TABLE app_grants (
    pk            bigserial PRIMARY KEY,
    grant_id      text NOT NULL UNIQUE,
    uid           text NOT NULL REFERENCES users (uid),
    -- What the app calls itself, and where its user went back to.
    name          text NOT NULL,
    place         text NOT NULL,
    -- The hash of its client id.
    client        text NOT NULL,
    -- The code that the app redeems for tokens, by its hash, and what belongs to it.
    code          text NOT NULL UNIQUE,
    code_until    timestamptz NOT NULL,
    redirect      text NOT NULL,
    challenge     text NOT NULL,
    -- The hashes of the refresh token that counts, and of the one before.
    refresh       text UNIQUE,
    spent         text,
    created_at    timestamptz NOT NULL,
    used_at       timestamptz,
    expires_at    timestamptz NOT NULL
);
CREATE INDEX app_grants_uid_idx ON app_grants (uid);
CREATE INDEX app_grants_spent_idx ON app_grants (spent);

-- +goose Down
DROP TABLE app_grants;
