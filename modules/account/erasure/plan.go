package erasure

// part is what happens to the rows of a table that are about a user.
type part struct {
	table string
	key   string // a column that names a row; pk where it is empty
	// where finds the rows by the user's id; those with the uid where it is empty.
	where string
	// clear are the values that columns get, by name, where the rows stay. Without
	// any, the rows are deleted.
	clear map[string]any
	// kept is why the rows stay.
	kept string
}

// ofRuns finds what belongs to the runs of a user and has no uid of its own.
const ofRuns = "(result_id, version) IN (SELECT result_id, version FROM action_results WHERE uid = ?)"

const ofCollections = "collection_pk IN (SELECT pk FROM knowledge_collections WHERE uid = ?)"

const ledger = "what was charged is what was taken and owed: amounts and dates stay, texts and ids of calls go"

// parts are all tables about users, in an order in which no row is left that another
// one needs. A test compares them with the schema.
func parts() []part {
	return []part{
		{table: "user_sessions"},
		{table: "user_api_keys"},
		{table: "app_grants"},
		{table: "one_time_codes"},
		{table: "credit_holds"},
		{table: "executing_calls", key: "call_pk"},
		{table: "approvals"},
		{table: "approval_rules"},
		{table: "approval_permissions"},
		{table: "stored_responses"},
		{table: "interpreters", key: "uid"},
		{table: "bounds", key: "scope"},
		{table: "bound_places", key: "scope"},
		{table: "agent_turns"},
		{table: "credit_usages", kept: ledger, clear: map[string]any{
			"tool_call_id": nil, "action_result_id": nil, "version": nil, "description": nil, "tool_call_meta": nil, "app_id": nil, "extra_data": nil,
			"model_usage_details": nil, "provider_item_id": nil,
		}},
		{table: "credit_recharges", kept: ledger, clear: map[string]any{"description": nil, "app_id": nil, "extra_data": nil}},
		{table: "credit_debts", kept: ledger, clear: map[string]any{"description": nil}},
		{table: "tool_call_results", where: "uid = ? AND ptc_call_id IS NOT NULL"},
		{table: "tool_call_results"},
		{table: "run_events", where: ofRuns},
		{table: "action_messages", where: ofRuns},
		{table: "action_results"},
		{table: "drive_files"},
		{table: "canvases"},
		{table: "code_inputs", key: "session_id"},
		{table: "code_files", key: "file_id"},
		{table: "code_executions", key: "execution_id"},
		{table: "code_sessions", key: "session_id"},
		{table: "toolset_authorizations"},
		{table: "toolset_grants"},
		{table: "toolsets"},
		{table: "composio_connections"},
		{table: "mcp_authorizations"},
		{table: "mcp_credentials"},
		{table: "mcp_lists"},
		{table: "mcp_servers"},
		{table: "knowledge_passages", where: ofCollections},
		{table: "knowledge_documents", where: ofCollections},
		{table: "knowledge_collections"},
		{table: "object_deletions"},
		{table: "credit_limits"},
		{table: "subscriptions"},
		{table: "external_identities"},
		// The last: until then the user is found by name and address.
		{table: "users", kept: "the rows of the ledger refer to it: the id stays, everything else goes", clear: map[string]any{
			"nickname": nil, "email": nil, "avatar": nil, "email_verified": nil, "password": nil, "ui_locale": nil, "output_locale": nil, "preferences": nil,
			"onboarding": nil, "customer_id": nil, "subscription_id": nil, "role": "user", "name": byUID,
		}},
	}
}

// byUID stands for the user's id among the values of a part.
const byUID = "\x00uid"

// prefixes are where the objects of a user are. Temporary files are sorted by their end
// first.
func prefixes(uid string) []string {
	return []string{"drive/" + uid + "/", "code/" + uid + "/", "tool-output/" + uid + "/"}
}

const temporary = "temporary/"
