-- +goose Up
-- Every call writes to each index of its table. What no query uses goes.
DROP INDEX tool_call_results_toolset_id_deleted_at_idx;
DROP INDEX tool_call_results_tool_name_deleted_at_idx;
DROP INDEX tool_call_results_result_id_version_type_idx;
CREATE INDEX tool_call_results_result_id_version_idx ON tool_call_results (result_id, version);
-- Most calls have none.
DROP INDEX tool_call_results_ptc_call_id_type_deleted_at_idx;
CREATE INDEX tool_call_results_ptc_call_id_idx ON tool_call_results (ptc_call_id) WHERE ptc_call_id IS NOT NULL;

DROP INDEX credit_usages_provider_item_id_created_at_idx;

-- +goose Down
CREATE INDEX credit_usages_provider_item_id_created_at_idx ON credit_usages (provider_item_id, created_at);

DROP INDEX tool_call_results_ptc_call_id_idx;
CREATE INDEX tool_call_results_ptc_call_id_type_deleted_at_idx ON tool_call_results (ptc_call_id, type, deleted_at);
DROP INDEX tool_call_results_result_id_version_idx;
CREATE INDEX tool_call_results_result_id_version_type_idx ON tool_call_results (result_id, version, type);
CREATE INDEX tool_call_results_tool_name_deleted_at_idx ON tool_call_results (tool_name, deleted_at);
CREATE INDEX tool_call_results_toolset_id_deleted_at_idx ON tool_call_results (toolset_id, deleted_at);
