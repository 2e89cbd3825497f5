-- +goose Up
-- Schemas that several tools of a toolset refer to, each once. Schemas of
-- toolsets without any stand whole in tool_methods.
CREATE TABLE tool_schemas (
    pk            integer PRIMARY KEY AUTOINCREMENT,
    inventory_key text NOT NULL REFERENCES toolset_inventory (key) ON DELETE CASCADE,
    name          text NOT NULL,
    definition    text NOT NULL,
    UNIQUE (inventory_key, name)
);

-- +goose Down
DROP TABLE tool_schemas;
