// Package sealed knows what is sealed at rest with the server's encryption key, and
// seals it again with another key.
package sealed

// Column is a column of sealed texts.
type Column struct {
	Table, Name string
	// clear columns may also hold JSON that another program wrote as it is.
	clear bool
	// claimed columns are of rows whose column refreshing_until says until when one
	// process works with what it has read: it finds its row by the sealed text again.
	claimed bool
}

// Columns lists every one. What is sealed and given to clients is in no column: it
// counts for as long as its old key is configured.
func Columns() []Column {
	return []Column{
		{Table: "toolset_inventory", Name: "api_key"},
		{Table: "toolsets", Name: "auth_data"},
		{Table: "toolset_grants", Name: "tokens", claimed: true},
		{Table: "toolset_authorizations", Name: "flow"},
		{Table: "mcp_servers", Name: "env", clear: true},
		{Table: "mcp_servers", Name: "headers", clear: true},
		{Table: "mcp_servers", Name: "client", clear: true},
		{Table: "mcp_credentials", Name: "placeholders", clear: true},
		{Table: "mcp_credentials", Name: "tokens", claimed: true},
		{Table: "mcp_authorizations", Name: "flow"},
		{Table: "mcp_clients", Name: "client"},
	}
}
