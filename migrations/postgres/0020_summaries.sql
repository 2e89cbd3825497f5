-- +goose Up
-- The line of its program that made a call, as the program says it.
ALTER TABLE tool_call_results ADD COLUMN line integer;
-- How large the whole result is, in bytes; unknown for calls before this column.
ALTER TABLE tool_call_results ADD COLUMN result_bytes bigint;

-- +goose Down
ALTER TABLE tool_call_results DROP COLUMN result_bytes;
ALTER TABLE tool_call_results DROP COLUMN line;
