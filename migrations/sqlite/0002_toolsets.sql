-- +goose Up
CREATE TABLE toolset_inventory (
    pk               integer PRIMARY KEY AUTOINCREMENT,
    key              text        NOT NULL UNIQUE,
    name             text        NOT NULL,
    domain           text,
    label_dict       text        NOT NULL DEFAULT '{}',
    description_dict text        NOT NULL DEFAULT '{}',
    -- The upstream credential of the toolset, sealed; never plain text.
    api_key          text,
    type             text        NOT NULL DEFAULT 'regular',
    adapter_type     text        NOT NULL DEFAULT 'http',
    enabled          boolean     NOT NULL DEFAULT 1,
    credit_billing   text,
    -- JSON: addresses outside the public internet its methods may reach.
    egress           text,
    created_at       datetime NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '+00:00'),
    updated_at       datetime NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '+00:00'),
    deleted_at       datetime
);

CREATE TABLE tool_methods (
    pk              integer PRIMARY KEY AUTOINCREMENT,
    inventory_key   text        NOT NULL REFERENCES toolset_inventory (key) ON DELETE CASCADE,
    version_id      integer     NOT NULL DEFAULT 1,
    name            text        NOT NULL,
    description     text        NOT NULL,
    endpoint        text        NOT NULL,
    http_method     text        NOT NULL DEFAULT 'POST',
    request_schema  text        NOT NULL,
    response_schema text        NOT NULL,
    adapter_type    text        NOT NULL DEFAULT 'http',
    adapter_config  text,
    enabled         boolean     NOT NULL DEFAULT 1,
    created_at      datetime NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '+00:00'),
    updated_at      datetime NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '+00:00'),
    deleted_at      datetime,
    UNIQUE (inventory_key, name, version_id)
);

CREATE TABLE toolsets (
    pk             integer PRIMARY KEY AUTOINCREMENT,
    toolset_id     text        NOT NULL UNIQUE,
    is_global      boolean     NOT NULL DEFAULT 0,
    uid            text REFERENCES users (uid),
    name           text        NOT NULL,
    key            text        NOT NULL,
    auth_type      text        DEFAULT 'config_based',
    auth_data      text,
    config         text,
    enabled        boolean     NOT NULL DEFAULT 1,
    uninstalled    boolean     NOT NULL DEFAULT 0,
    credit_billing text,
    created_at     datetime NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '+00:00'),
    updated_at     datetime NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '+00:00'),
    deleted_at     datetime,
    -- A row is global or belongs to one user, never both and never neither.
    CHECK (is_global = (uid IS NULL))
);
CREATE INDEX toolsets_uid_is_global_deleted_at_idx ON toolsets (uid, is_global, deleted_at);
CREATE INDEX toolsets_key_enabled_idx ON toolsets (key, enabled);
CREATE UNIQUE INDEX toolsets_global_key_key ON toolsets (key) WHERE is_global AND deleted_at IS NULL;
CREATE UNIQUE INDEX toolsets_uid_key_key ON toolsets (uid, key) WHERE NOT is_global AND deleted_at IS NULL;

CREATE TABLE composio_connections (
    pk                   integer PRIMARY KEY AUTOINCREMENT,
    uid                  text        NOT NULL,
    integration_id       text        NOT NULL,
    connected_account_id text        NOT NULL,
    status               text        NOT NULL DEFAULT 'active',
    metadata             text,
    expires_at           datetime,
    created_at           datetime NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '+00:00'),
    updated_at           datetime NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '+00:00'),
    deleted_at           datetime,
    UNIQUE (uid, integration_id)
);
CREATE INDEX composio_connections_status_idx ON composio_connections (status);

CREATE TABLE mcp_servers (
    pk         integer PRIMARY KEY AUTOINCREMENT,
    name       text        NOT NULL,
    type       text        NOT NULL,
    is_global  boolean     NOT NULL DEFAULT 0,
    uid        text,
    url        text,
    command    text,
    args       text,
    env        text,
    headers    text,
    reconnect  text,
    config     text,
    enabled    boolean     NOT NULL DEFAULT 1,
    created_at datetime NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '+00:00'),
    updated_at datetime NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '+00:00'),
    deleted_at datetime,
    UNIQUE (uid, name)
);
CREATE INDEX mcp_servers_uid_deleted_at_idx ON mcp_servers (uid, deleted_at);
CREATE INDEX mcp_servers_is_global_idx ON mcp_servers (is_global);

-- +goose Down
DROP TABLE mcp_servers;
DROP TABLE composio_connections;
DROP TABLE toolsets;
DROP TABLE tool_methods;
DROP TABLE toolset_inventory;
