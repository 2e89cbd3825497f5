-- +goose Up
-- People for whom other servers sign tokens, and the users that they became.
CREATE TABLE external_identities (
    pk           integer PRIMARY KEY AUTOINCREMENT,
    issuer       text NOT NULL,
    tenant       text NOT NULL,
    subject      text NOT NULL,
    uid          text NOT NULL UNIQUE REFERENCES users (uid),
    -- The lookup key of the plan that the newest token asked for; empty for none.
    plan         text NOT NULL DEFAULT '',
    -- When that token was issued: an older one does not change the plan.
    plan_at      datetime NOT NULL,
    last_seen_at datetime NOT NULL,
    created_at   datetime NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now') || '+00:00'),
    UNIQUE (issuer, tenant, subject)
);
-- A user who is disabled is refused, whatever the credential.
ALTER TABLE users ADD COLUMN disabled_at datetime;

-- +goose Down
ALTER TABLE users DROP COLUMN disabled_at;
DROP TABLE external_identities;
