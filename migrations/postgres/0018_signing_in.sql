-- +goose Up
ALTER TABLE users ADD COLUMN role text NOT NULL DEFAULT 'user' CHECK (role IN ('user', 'admin'));
-- People type the case of an address as they like.
CREATE INDEX users_lower_email_idx ON users (lower(email));
-- The user that the first start made.
UPDATE users SET role = 'admin' WHERE name = 'admin' AND pk = (SELECT min(pk) FROM users);
-- What a user's own key may do, separated by commas; empty for everything.
ALTER TABLE user_api_keys ADD COLUMN scopes text NOT NULL DEFAULT '';

CREATE TABLE user_sessions (
    pk           bigserial PRIMARY KEY,
    session_id   text NOT NULL UNIQUE,
    uid          text NOT NULL REFERENCES users (uid),
    -- How the user signed in.
    method       text NOT NULL,
    -- The API key that it was begun with: it ends with the key. Empty for none.
    key_id       text NOT NULL DEFAULT '',
    user_agent   text NOT NULL DEFAULT '',
    ip           text NOT NULL DEFAULT '',
    created_at   timestamptz NOT NULL,
    last_seen_at timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    revoked_at   timestamptz
);
CREATE INDEX user_sessions_uid_revoked_at_idx ON user_sessions (uid, revoked_at);
CREATE INDEX user_sessions_expires_at_idx ON user_sessions (expires_at);

-- Codes that are good once: links to sign in, and invitations.
CREATE TABLE one_time_codes (
    pk         bigserial PRIMARY KEY,
    code_hash  text NOT NULL UNIQUE,
    kind       text NOT NULL CHECK (kind IN ('link', 'invite')),
    -- Whom a link signs in, and who made an invitation. NULL for an operator's.
    uid        text REFERENCES users (uid),
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    used_at    timestamptz
);
CREATE INDEX one_time_codes_expires_at_idx ON one_time_codes (expires_at);

-- +goose Down
DROP TABLE one_time_codes;
DROP TABLE user_sessions;
ALTER TABLE user_api_keys DROP COLUMN scopes;
DROP INDEX users_lower_email_idx;
ALTER TABLE users DROP COLUMN role;
