-- +goose Up
-- The model that agents asked with the key have where none is named; empty for the first.
ALTER TABLE user_api_keys ADD COLUMN model text NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE user_api_keys DROP COLUMN model;
