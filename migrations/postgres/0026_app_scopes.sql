-- +goose Up
-- What an app was allowed: mcp for everything that this server is as an MCP server,
-- mcp:read for what changes nothing.
ALTER TABLE app_grants ADD COLUMN scope text NOT NULL DEFAULT 'mcp';

-- +goose Down
ALTER TABLE app_grants DROP COLUMN scope;
