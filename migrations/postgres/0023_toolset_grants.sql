-- +goose Up
-- What users have authorized this server for at the authorization servers of the
-- APIs of toolsets.
CREATE TABLE toolset_grants (
    pk          bigserial PRIMARY KEY,
    toolset_key text NOT NULL REFERENCES toolset_inventory (key) ON DELETE CASCADE,
    uid         text NOT NULL REFERENCES users (uid),
    -- Another one whenever an authorization begins or ends.
    version     text NOT NULL,
    -- Sealed: access token, refresh token, client.
    tokens      text,
    -- Who issued them, for which address and which scopes.
    issuer      text NOT NULL DEFAULT '',
    resource    text NOT NULL DEFAULT '',
    scopes      text NOT NULL DEFAULT '',
    -- The scopes that the API asked for since.
    wanted      text NOT NULL DEFAULT '',
    expires_at  timestamptz,
    -- Until when one process is refreshing them.
    refreshing_until timestamptz,
    updated_at  timestamptz NOT NULL,
    UNIQUE (toolset_key, uid)
);
CREATE INDEX toolset_grants_uid_idx ON toolset_grants (uid);

-- Authorizations that users have begun, by the hash of their state.
CREATE TABLE toolset_authorizations (
    pk          bigserial PRIMARY KEY,
    state       text NOT NULL UNIQUE,
    uid         text NOT NULL REFERENCES users (uid),
    toolset_key text NOT NULL REFERENCES toolset_inventory (key) ON DELETE CASCADE,
    -- The hash of what only the browser that began it knows; and of the code that
    -- confirms it where that browser is not known.
    browser     text NOT NULL DEFAULT '',
    code        text NOT NULL DEFAULT '',
    -- Sealed: issuer, client, verifier, scopes; later the answer.
    flow        text NOT NULL,
    attempts    integer NOT NULL DEFAULT 0,
    expires_at  timestamptz NOT NULL
);
CREATE INDEX toolset_authorizations_uid_idx ON toolset_authorizations (uid, toolset_key);

-- +goose Down
DROP TABLE toolset_authorizations;
DROP TABLE toolset_grants;
