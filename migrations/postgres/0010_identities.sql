-- +goose Up
-- People for whom other servers sign tokens, and the users that they became.
CREATE TABLE external_identities (
    pk           bigserial PRIMARY KEY,
    issuer       text NOT NULL,
    tenant       text NOT NULL,
    subject      text NOT NULL,
    uid          text NOT NULL UNIQUE REFERENCES users (uid),
    -- The lookup key of the plan that the newest token asked for; empty for none.
    plan         text NOT NULL DEFAULT '',
    -- When that token was issued: an older one does not change the plan.
    plan_at      timestamptz NOT NULL,
    last_seen_at timestamptz NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    UNIQUE (issuer, tenant, subject)
);
-- A user who is disabled is refused, whatever the credential.
ALTER TABLE users ADD COLUMN disabled_at timestamptz;

-- +goose Down
ALTER TABLE users DROP COLUMN disabled_at;
DROP TABLE external_identities;
