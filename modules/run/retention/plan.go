package retention

import "time"

// Settings say how long what has ended is kept; zero is for ever.
type Settings struct {
	Runs      time.Duration
	RunEvents time.Duration
	Calls     time.Duration
	Audit     time.Duration
}

// Word says how long the rows of a table are kept. One of the last four is set.
type Word struct {
	Table string
	// Setting names the setting that says it.
	Setting string
	// With is the table whose rows take these along.
	With string
	// Ends is when they go by themselves.
	Ends string
	// Kept is why they stay.
	Kept string
}

// Names of the settings.
const (
	ofRuns      = "RETENTION_RUNS"
	ofRunEvents = "RETENTION_RUN_EVENTS"
	ofCalls     = "RETENTION_CALLS"
	ofAudit     = "RETENTION_AUDIT"
)

// Reasons to stay, and ends, that several tables have.
const (
	configured = "somebody set it up, and takes it away"
	money      = "what was given, charged and owed adds up for ever"
	until      = "until its user, or an operator, deletes it"
	begun      = "its own end, when the next one begins"
)

// Words are all tables of the database. A test compares them with the schema.
func Words() []Word {
	return []Word{
		{Table: "action_results", Setting: ofRuns},
		{Table: "action_messages", With: "action_results"},
		{Table: "run_events", Setting: ofRunEvents}, // and with its run
		{Table: "agent_turns", Ends: "the end of the turn"},
		// Of calls in runs: with action_results.
		{Table: "tool_call_results", Setting: ofCalls},
		{Table: "executing_calls", Ends: "the end of the call"},
		{Table: "credit_holds", Ends: "the end of the call"},
		{Table: "bounds", Ends: "ten minutes without a use of what is bounded"},
		{Table: "bound_places", Ends: "the end of the process that has them"},
		{Table: "approvals", With: "tool_call_results"},
		{Table: "approval_permissions", With: "action_results"}, // those for all runs are set up
		{Table: "audit_events", Setting: ofAudit},

		{Table: "credit_usages", Kept: money},
		{Table: "credit_recharges", Kept: money},
		{Table: "credit_debts", Kept: money},
		{Table: "subscriptions", Kept: money},

		{Table: "users", Kept: until},
		{Table: "external_identities", With: "users"},
		{Table: "user_api_keys", Kept: "the audit log names keys; those of sandboxes go a week after their end"},
		{Table: "user_sessions", Ends: "a week after the end of the session"},
		{Table: "one_time_codes", Ends: "a week after the end of the code"},
		{Table: "app_grants", Ends: begun},

		{Table: "canvases", Kept: until},
		{Table: "drive_files", Kept: until},
		{Table: "knowledge_collections", Kept: until},
		{Table: "knowledge_documents", With: "knowledge_collections"},
		{Table: "knowledge_passages", With: "knowledge_documents"},
		{Table: "knowledge_words", With: "knowledge_passages"}, // of SQLite

		{Table: "code_sessions", Ends: "CODEAPI_SESSION_LIFE after its last use"},
		{Table: "code_files", With: "code_sessions"},
		{Table: "code_inputs", With: "code_sessions"},
		{Table: "code_executions", Ends: "a day after its last change"},
		{Table: "stored_responses", Ends: "OPENAI_STORED_LIFE"},
		{Table: "interpreters", Ends: "a while after AGENT_INTERPRETER_IDLE"},
		{Table: "object_deletions", Ends: "when the object is gone"},
		{Table: "nodes", Ends: "a while after the end of the process"},

		{Table: "toolset_inventory", Kept: configured},
		{Table: "tool_methods", With: "toolset_inventory"},
		{Table: "tool_schemas", With: "toolset_inventory"},
		{Table: "tool_marks", Kept: configured},
		{Table: "tool_billing", Kept: configured},
		{Table: "tool_provider_billing", Kept: configured},
		{Table: "toolsets", Kept: configured},
		{Table: "toolset_grants", Kept: configured},
		{Table: "toolset_authorizations", Ends: begun},
		{Table: "composio_connections", Kept: configured},
		{Table: "mcp_servers", Kept: configured},
		{Table: "mcp_lists", With: "mcp_servers"},
		{Table: "mcp_credentials", Kept: configured},
		{Table: "mcp_clients", Kept: configured},
		{Table: "mcp_authorizations", Ends: begun},
		{Table: "subscription_plans", Kept: configured},
		{Table: "credit_limits", Kept: configured},
		{Table: "approval_rules", Kept: configured},
		{Table: "goose_db_version", Kept: "which migrations were applied"},
	}
}
