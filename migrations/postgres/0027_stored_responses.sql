-- +goose Up
-- Answers that clients of OpenAI's Responses API let the server keep, each with what
-- was new in its request.
CREATE TABLE stored_responses (
    pk            bigserial PRIMARY KEY,
    response_id   text NOT NULL UNIQUE,
    uid           text NOT NULL REFERENCES users (uid),
    -- The answer that the request went on from; empty for none.
    previous_id   text NOT NULL,
    -- The items of the request, a list, and the whole answer. Both are JSON as it was
    -- written.
    input         text NOT NULL,
    answer        text NOT NULL,
    -- How many bytes both take.
    size          bigint NOT NULL,
    created_at    timestamptz NOT NULL,
    expires_at    timestamptz NOT NULL
);
CREATE INDEX stored_responses_uid_idx ON stored_responses (uid, pk);
CREATE INDEX stored_responses_expires_idx ON stored_responses (expires_at);

-- +goose Down
DROP TABLE stored_responses;
