-- +goose Up
CREATE TABLE tool_billing (
    pk            bigserial PRIMARY KEY,
    inventory_key text        NOT NULL,
    method_name   text        NOT NULL,
    billing_rules text        NOT NULL,
    token_pricing text,
    enabled       boolean     NOT NULL DEFAULT true,
    created_at    timestamptz NOT NULL DEFAULT now(),
    updated_at    timestamptz NOT NULL DEFAULT now(),
    UNIQUE (inventory_key, method_name)
);

CREATE TABLE tool_provider_billing (
    pk                   bigserial PRIMARY KEY,
    provider_key         text           NOT NULL,
    plan                 text           NOT NULL,
    standard_rate_per_1k numeric(12, 6) NOT NULL,
    premium_rate_per_1k  numeric(12, 6) NOT NULL,
    margin               numeric(12, 6) NOT NULL DEFAULT 1,
    active               boolean        NOT NULL DEFAULT true,
    created_at           timestamptz    NOT NULL DEFAULT now(),
    updated_at           timestamptz    NOT NULL DEFAULT now(),
    UNIQUE (provider_key, plan)
);

CREATE TABLE credit_recharges (
    pk          bigserial PRIMARY KEY,
    recharge_id text           NOT NULL UNIQUE,
    uid         text           NOT NULL REFERENCES users (uid),
    amount      numeric(18, 6) NOT NULL CHECK (amount > 0),
    balance     numeric(18, 6) NOT NULL CHECK (balance >= 0 AND balance <= amount),
    enabled     boolean        NOT NULL DEFAULT true,
    source      text           NOT NULL DEFAULT 'purchase',
    description text,
    app_id      text,
    extra_data  text,
    expires_at  timestamptz    NOT NULL,
    created_at  timestamptz    NOT NULL DEFAULT now(),
    updated_at  timestamptz    NOT NULL DEFAULT now()
);
CREATE INDEX credit_recharges_uid_enabled_expires_at_idx ON credit_recharges (uid, enabled, expires_at);
CREATE INDEX credit_recharges_expires_at_enabled_idx ON credit_recharges (expires_at, enabled);
CREATE INDEX credit_recharges_uid_source_enabled_idx ON credit_recharges (uid, source, enabled);

CREATE TABLE credit_debts (
    pk          bigserial PRIMARY KEY,
    debt_id     text           NOT NULL UNIQUE,
    uid         text           NOT NULL REFERENCES users (uid),
    amount      numeric(18, 6) NOT NULL CHECK (amount > 0),
    balance     numeric(18, 6) NOT NULL CHECK (balance >= 0 AND balance <= amount),
    enabled     boolean        NOT NULL DEFAULT true,
    source      text           NOT NULL DEFAULT 'usage_overdraft',
    description text,
    created_at  timestamptz    NOT NULL DEFAULT now(),
    updated_at  timestamptz    NOT NULL DEFAULT now()
);
CREATE INDEX credit_debts_uid_enabled_created_at_idx ON credit_debts (uid, enabled, created_at);

CREATE TABLE credit_usages (
    pk                  bigserial PRIMARY KEY,
    usage_id            text           NOT NULL UNIQUE,
    uid                 text           NOT NULL REFERENCES users (uid),
    amount              numeric(18, 6) NOT NULL CHECK (amount >= 0),
    due_amount          numeric(18, 6) NOT NULL DEFAULT 0 CHECK (due_amount >= 0),
    provider_item_id    text,
    model_name          text,
    usage_type          text           NOT NULL DEFAULT 'model_call',
    action_result_id    text,
    version             integer,
    description         text,
    -- One row per billed call, whatever is retried.
    tool_call_id        text UNIQUE REFERENCES tool_call_results (call_id),
    tool_call_meta      text,
    app_id              text,
    extra_data          text,
    model_usage_details text,
    created_at          timestamptz    NOT NULL DEFAULT now()
);
CREATE INDEX credit_usages_uid_created_at_idx ON credit_usages (uid, created_at);
CREATE INDEX credit_usages_provider_item_id_created_at_idx ON credit_usages (provider_item_id, created_at);
CREATE INDEX credit_usages_action_result_id_idx ON credit_usages (action_result_id);

-- +goose Down
DROP TABLE credit_usages;
DROP TABLE credit_debts;
DROP TABLE credit_recharges;
DROP TABLE tool_provider_billing;
DROP TABLE tool_billing;
