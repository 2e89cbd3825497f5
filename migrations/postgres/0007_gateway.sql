-- +goose Up
-- What a plan gives each month and each day. The plan 'free' applies to users
-- without a subscription.
CREATE TABLE subscription_plans (
    pk                      bigserial PRIMARY KEY,
    plan_type               text           NOT NULL,
    interval                text,
    lookup_key              text           NOT NULL UNIQUE,
    credit_quota            numeric(18, 6) NOT NULL DEFAULT 0 CHECK (credit_quota >= 0),
    daily_gift_credit_quota numeric(18, 6) NOT NULL DEFAULT 0 CHECK (daily_gift_credit_quota >= 0),
    created_at              timestamptz    NOT NULL DEFAULT now(),
    updated_at              timestamptz    NOT NULL DEFAULT now()
);

-- Limits of one user, which replace those of the server's settings.
CREATE TABLE credit_limits (
    pk         bigserial PRIMARY KEY,
    uid        text        NOT NULL UNIQUE REFERENCES users (uid),
    run_limit  numeric(18, 6) CHECK (run_limit >= 0),
    day_limit  numeric(18, 6) CHECK (day_limit >= 0),
    overdraft  numeric(18, 6) CHECK (overdraft >= 0),
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);

-- Credits held for calls that execute: the least that each will cost. A hold
-- counts as long as its call executes.
CREATE TABLE credit_holds (
    pk               bigserial PRIMARY KEY,
    call_id          text           NOT NULL UNIQUE REFERENCES tool_call_results (call_id),
    uid              text           NOT NULL REFERENCES users (uid),
    action_result_id text,
    version          integer,
    amount           numeric(18, 6) NOT NULL CHECK (amount >= 0),
    created_at       timestamptz    NOT NULL DEFAULT now()
);
CREATE INDEX credit_holds_uid_idx ON credit_holds (uid);

-- Who changed a credential, a key or a connection; never its value.
CREATE TABLE audit_events (
    pk         bigserial PRIMARY KEY,
    uid        text        NOT NULL,
    key_id     text        NOT NULL DEFAULT '',
    action     text        NOT NULL,
    subject    text        NOT NULL,
    detail     text        NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX audit_events_uid_pk_idx ON audit_events (uid, pk);

-- What a user may give to install a toolset: JSON, [{"type","credentialItems"}]
-- and [items], as in docs/wire/refly.md#installing-a-toolset.
ALTER TABLE toolset_inventory ADD COLUMN auth_patterns text NOT NULL DEFAULT '[]';
ALTER TABLE toolset_inventory ADD COLUMN config_items text NOT NULL DEFAULT '[]';

-- +goose Down
ALTER TABLE toolset_inventory DROP COLUMN config_items;
ALTER TABLE toolset_inventory DROP COLUMN auth_patterns;
DROP TABLE audit_events;
DROP TABLE credit_holds;
DROP TABLE credit_limits;
DROP TABLE subscription_plans;
