-- +goose Up
CREATE TABLE action_results (
    pk                         integer PRIMARY KEY AUTOINCREMENT,
    result_id                  text        NOT NULL,
    version                    integer     NOT NULL DEFAULT 0,
    type                       text        NOT NULL DEFAULT 'skill',
    uid                        text        NOT NULL REFERENCES users (uid),
    title                      text        NOT NULL DEFAULT '',
    tier                       text                 DEFAULT '',
    model_name                 text,
    target_type                text,
    target_id                  text,
    action_meta                text,
    input                      text,
    context                    text,
    tpl_config                 text,
    runtime_config             text,
    history                    text,
    errors                     text,
    error_type                 text,
    toolsets                   text,
    locale                     text                 DEFAULT '',
    project_id                 text,
    status                     text        NOT NULL DEFAULT 'waiting'
        CHECK (status IN ('waiting', 'running', 'finish', 'error', 'aborted')),
    duplicate_from             text,
    provider_item_id           text,
    actual_provider_item_id    text,
    is_auto_model_routed       boolean     NOT NULL DEFAULT 0,
    ptc_enabled                boolean     NOT NULL DEFAULT 0,
    copilot_session_id         text,
    workflow_execution_id      text,
    workflow_node_execution_id text,
    output_url                 text,
    storage_key                text,
    parent_result_id           text,
    -- The seq of the run's newest event; raised under the row's lock, so that
    -- the order of run_events is the order of commits.
    event_seq                  bigint      NOT NULL DEFAULT 0,
    -- The process that keeps a running run alive, and until when it said so.
    lease_owner                text,
    lease_expires_at           datetime,
    created_at                 datetime NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '+00:00'),
    updated_at                 datetime NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '+00:00'),
    UNIQUE (result_id, version)
);
CREATE INDEX action_results_uid_created_at_idx ON action_results (uid, created_at);
CREATE INDEX action_results_target_type_target_id_idx ON action_results (target_type, target_id);
CREATE INDEX action_results_status_updated_at_idx ON action_results (status, updated_at);
CREATE INDEX action_results_copilot_session_id_idx ON action_results (copilot_session_id);
CREATE INDEX action_results_lease_idx ON action_results (lease_expires_at) WHERE status = 'running';

CREATE TABLE action_messages (
    pk                integer PRIMARY KEY AUTOINCREMENT,
    message_id        text        NOT NULL UNIQUE,
    result_id         text        NOT NULL,
    version           integer     NOT NULL DEFAULT 0,
    seq               bigint      NOT NULL,
    type              text        NOT NULL CHECK (type IN ('human', 'ai', 'tool')),
    content           text        NOT NULL,
    reasoning_content text,
    usage_meta        text,
    tool_call_meta    text,
    tool_call_id      text,
    created_at        datetime NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '+00:00'),
    updated_at        datetime NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '+00:00'),
    UNIQUE (result_id, version, seq),
    FOREIGN KEY (result_id, version) REFERENCES action_results (result_id, version)
);

CREATE TABLE tool_call_results (
    pk               integer PRIMARY KEY AUTOINCREMENT,
    result_id        text        NOT NULL,
    version          integer     NOT NULL DEFAULT 0,
    call_id          text        NOT NULL UNIQUE,
    uid              text        NOT NULL REFERENCES users (uid),
    toolset_id       text        NOT NULL,
    tool_name        text        NOT NULL,
    step_name        text,
    input            text        NOT NULL,
    output           text        NOT NULL,
    status           text        NOT NULL DEFAULT 'executing'
        CHECK (status IN ('executing', 'completed', 'failed')),
    error            text,
    type             text        NOT NULL DEFAULT 'agent'
        CHECK (type IN ('agent', 'ptc', 'standalone')),
    ptc_call_id      text REFERENCES tool_call_results (call_id),
    canvas_id        text,
    -- Unique per user: a repeated request finds the first one here.
    idempotency_key  text,
    request_hash     text,
    lease_owner      text,
    lease_expires_at datetime,
    created_at       datetime NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '+00:00'),
    updated_at       datetime NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '+00:00'),
    deleted_at       datetime,
    UNIQUE (uid, idempotency_key)
);
CREATE INDEX tool_call_results_uid_pk_idx ON tool_call_results (uid, pk);
CREATE INDEX tool_call_results_result_id_version_type_idx ON tool_call_results (result_id, version, type);
CREATE INDEX tool_call_results_toolset_id_deleted_at_idx ON tool_call_results (toolset_id, deleted_at);
CREATE INDEX tool_call_results_tool_name_deleted_at_idx ON tool_call_results (tool_name, deleted_at);
CREATE INDEX tool_call_results_ptc_call_id_type_deleted_at_idx ON tool_call_results (ptc_call_id, type, deleted_at);
CREATE INDEX tool_call_results_lease_idx ON tool_call_results (lease_expires_at) WHERE status = 'executing';

CREATE TABLE run_events (
    pk         integer PRIMARY KEY AUTOINCREMENT,
    result_id  text        NOT NULL,
    version    integer     NOT NULL DEFAULT 0,
    seq        bigint      NOT NULL,
    type       text        NOT NULL,
    call_id    text,
    payload    text        NOT NULL DEFAULT '{}',
    created_at datetime NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '+00:00'),
    UNIQUE (result_id, version, seq),
    FOREIGN KEY (result_id, version) REFERENCES action_results (result_id, version)
);

-- +goose Down
DROP TABLE run_events;
DROP TABLE tool_call_results;
DROP TABLE action_messages;
DROP TABLE action_results;
