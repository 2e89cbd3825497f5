-- +goose Up
-- MCP servers. command, args, env, headers and config hold text; env and headers
-- are sealed, as are all columns below that say so.
ALTER TABLE mcp_servers ADD COLUMN version text NOT NULL DEFAULT '';
-- The OAuth client that the operator registered, sealed.
ALTER TABLE mcp_servers ADD COLUMN client text;
-- What calls cost, and the hashes that tools must have: JSON.
ALTER TABLE mcp_servers ADD COLUMN prices text;
ALTER TABLE mcp_servers ADD COLUMN pins text;
-- The file that describes the server; empty for none.
ALTER TABLE mcp_servers ADD COLUMN source text NOT NULL DEFAULT '';
CREATE UNIQUE INDEX mcp_servers_shared_idx ON mcp_servers (name) WHERE uid IS NULL AND deleted_at IS NULL;

-- What a server offered when it was asked last: to one user, or, with the empty
-- uid, to all.
CREATE TABLE mcp_lists (
    pk        integer PRIMARY KEY AUTOINCREMENT,
    server_pk integer NOT NULL REFERENCES mcp_servers (pk) ON DELETE CASCADE,
    uid       text NOT NULL,
    version   text NOT NULL,
    list      text NOT NULL,
    listed_at datetime NOT NULL,
    UNIQUE (server_pk, uid)
);
CREATE INDEX mcp_lists_uid_idx ON mcp_lists (uid);

-- What one user has at a server: the values of placeholders, and the tokens of
-- an authorization.
CREATE TABLE mcp_credentials (
    pk         integer PRIMARY KEY AUTOINCREMENT,
    server_pk  integer NOT NULL REFERENCES mcp_servers (pk) ON DELETE CASCADE,
    uid        text NOT NULL REFERENCES users (uid),
    version    text NOT NULL,
    -- Sealed: an object of texts.
    placeholders text,
    -- Sealed: access token, refresh token, client.
    tokens     text,
    -- Who issued them, for which resource and which scopes.
    issuer     text NOT NULL DEFAULT '',
    resource   text NOT NULL DEFAULT '',
    scopes     text NOT NULL DEFAULT '',
    -- The scopes that the server asked for since.
    wanted     text NOT NULL DEFAULT '',
    expires_at datetime,
    -- Until when one process is refreshing them.
    refreshing_until datetime,
    updated_at datetime NOT NULL,
    UNIQUE (server_pk, uid)
);
CREATE INDEX mcp_credentials_uid_idx ON mcp_credentials (uid);

-- Clients that this server registered at authorization servers, sealed.
CREATE TABLE mcp_clients (
    pk           integer PRIMARY KEY AUTOINCREMENT,
    issuer       text NOT NULL,
    redirect_uri text NOT NULL,
    client       text NOT NULL,
    expires_at   datetime,
    created_at   datetime NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '+00:00'),
    UNIQUE (issuer, redirect_uri)
);

-- Authorizations that users have begun, by the hash of their state.
CREATE TABLE mcp_authorizations (
    pk         integer PRIMARY KEY AUTOINCREMENT,
    state      text NOT NULL UNIQUE,
    uid        text NOT NULL REFERENCES users (uid),
    server_pk  integer NOT NULL REFERENCES mcp_servers (pk) ON DELETE CASCADE,
    -- The hash of what only the browser that began it knows; and of the code that
    -- confirms it where that browser is not known.
    browser    text NOT NULL DEFAULT '',
    code       text NOT NULL DEFAULT '',
    -- Sealed: issuer, client, verifier, scopes; later the answer.
    flow       text NOT NULL,
    attempts   integer NOT NULL DEFAULT 0,
    expires_at datetime NOT NULL
);
CREATE INDEX mcp_authorizations_uid_idx ON mcp_authorizations (uid, server_pk);

-- +goose Down
DROP TABLE mcp_authorizations;
DROP TABLE mcp_clients;
DROP TABLE mcp_credentials;
DROP TABLE mcp_lists;
DROP INDEX mcp_servers_shared_idx;
ALTER TABLE mcp_servers DROP COLUMN source;
ALTER TABLE mcp_servers DROP COLUMN pins;
ALTER TABLE mcp_servers DROP COLUMN prices;
ALTER TABLE mcp_servers DROP COLUMN client;
ALTER TABLE mcp_servers DROP COLUMN version;
