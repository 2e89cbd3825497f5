-- +goose Up
-- A name belongs to one file. It is reserved before the content is stored.
CREATE UNIQUE INDEX drive_files_uid_canvas_id_name_key ON drive_files (uid, canvas_id, name) WHERE deleted_at IS NULL;

-- Who may call a method: "direct", "code" or both, separated by a comma. Empty:
-- the name of the method decides.
ALTER TABLE tool_methods ADD COLUMN allowed_callers text NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE tool_methods DROP COLUMN allowed_callers;
DROP INDEX drive_files_uid_canvas_id_name_key;
