-- +goose Up
CREATE TABLE users (
    pk              bigserial PRIMARY KEY,
    uid             text        NOT NULL UNIQUE,
    name            text        NOT NULL UNIQUE,
    nickname        text,
    email           text UNIQUE,
    avatar          text,
    email_verified  timestamptz,
    password        text,
    ui_locale       text,
    output_locale   text,
    has_beta_access boolean     NOT NULL DEFAULT true,
    preferences     text,
    onboarding      text,
    customer_id     text,
    subscription_id text,
    created_at      timestamptz NOT NULL DEFAULT now(),
    updated_at      timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE user_api_keys (
    pk           bigserial PRIMARY KEY,
    key_id       text        NOT NULL UNIQUE,
    key_hash     text        NOT NULL,
    key_prefix   text        NOT NULL,
    uid          text        NOT NULL REFERENCES users (uid),
    name         text        NOT NULL,
    -- NULL: everything its user may do; otherwise the one thing the key is for.
    scope        text,
    last_used_at timestamptz,
    expires_at   timestamptz,
    created_at   timestamptz NOT NULL DEFAULT now(),
    revoked_at   timestamptz
);
CREATE UNIQUE INDEX user_api_keys_key_hash_key ON user_api_keys (key_hash);
CREATE INDEX user_api_keys_uid_revoked_at_idx ON user_api_keys (uid, revoked_at);

CREATE TABLE subscriptions (
    pk              bigserial PRIMARY KEY,
    subscription_id text        NOT NULL UNIQUE,
    lookup_key      text        NOT NULL,
    plan_type       text        NOT NULL,
    interval        text,
    uid             text        NOT NULL REFERENCES users (uid),
    status          text        NOT NULL,
    is_trial        boolean     NOT NULL DEFAULT false,
    override_plan   text,
    cancel_at       timestamptz,
    created_at      timestamptz NOT NULL DEFAULT now(),
    updated_at      timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX subscriptions_uid_idx ON subscriptions (uid);
CREATE INDEX subscriptions_status_cancel_at_idx ON subscriptions (status, cancel_at);

CREATE TABLE canvases (
    pk                   bigserial PRIMARY KEY,
    canvas_id            text        NOT NULL UNIQUE,
    uid                  text        NOT NULL REFERENCES users (uid),
    title                text        NOT NULL DEFAULT 'Untitled',
    storage_size         bigint      NOT NULL DEFAULT 0,
    version              text        NOT NULL DEFAULT '',
    state_storage_key    text,
    minimap_storage_key  text,
    used_toolsets        text,
    read_only            boolean     NOT NULL DEFAULT false,
    is_public            boolean     NOT NULL DEFAULT false,
    status               text        NOT NULL DEFAULT 'ready',
    visibility           boolean     NOT NULL DEFAULT true,
    workflow             text,
    created_at           timestamptz NOT NULL DEFAULT now(),
    updated_at           timestamptz NOT NULL DEFAULT now(),
    deleted_at           timestamptz
);
CREATE INDEX canvases_uid_updated_at_idx ON canvases (uid, updated_at);
CREATE INDEX canvases_uid_visibility_updated_at_idx ON canvases (uid, visibility, updated_at);

CREATE TABLE drive_files (
    pk             bigserial PRIMARY KEY,
    file_id        text        NOT NULL UNIQUE,
    uid            text        NOT NULL REFERENCES users (uid),
    canvas_id      text        NOT NULL,
    name           text        NOT NULL,
    type           text        NOT NULL,
    category       text        NOT NULL,
    size           bigint      NOT NULL DEFAULT 0,
    source         text        NOT NULL DEFAULT 'manual',
    scope          text        NOT NULL DEFAULT 'present',
    storage_key    text,
    summary        text,
    variable_id    text,
    result_id      text,
    result_version integer,
    created_at     timestamptz NOT NULL DEFAULT now(),
    updated_at     timestamptz NOT NULL DEFAULT now(),
    deleted_at     timestamptz
);
CREATE INDEX drive_files_canvas_id_deleted_at_updated_at_idx ON drive_files (canvas_id, deleted_at, updated_at);

-- +goose Down
DROP TABLE drive_files;
DROP TABLE canvases;
DROP TABLE subscriptions;
DROP TABLE user_api_keys;
DROP TABLE users;
