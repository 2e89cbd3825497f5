package account

import (
	"cmp"
	"errors"

	"gorm.io/gorm/clause"

	"github.com/portico-run/portico/internal/database"
)

// belonging is a table with rows of a user.
type belonging struct {
	table string
	what  string // for an operator
	// stays keeps the user: the rows are records that others rely on, or have
	// files behind them.
	stays bool
	// live says which rows stay; the others go. Empty is all of them.
	live string
}

// belongings are the tables with a column uid, in an order in which they can be
// deleted. A test compares them with the schema.
func belongings() []belonging {
	return []belonging{
		{table: "credit_holds", what: "held credits", stays: true},
		{table: "credit_usages", what: "charges", stays: true},
		{table: "credit_debts", what: "debts", stays: true},
		{table: "credit_recharges", what: "grants of credits", stays: true},
		{table: "executing_calls", what: "calls that execute", stays: true},
		{table: "tool_call_results", what: "records of calls", stays: true},
		{table: "approvals", what: "decisions about calls", stays: true},
		{table: "action_results", what: "runs", stays: true},
		{table: "drive_files", what: "files", stays: true, live: "deleted_at IS NULL"},
		{table: "code_inputs", what: "files given to code interpreter sessions", stays: true},
		{table: "code_files", what: "files of code interpreter sessions", stays: true},
		{table: "code_executions", what: "executions of the code interpreter", stays: true},
		{table: "code_sessions", what: "code interpreter sessions", stays: true},
		{table: "object_deletions", what: "stored objects that are being taken away", stays: true},
		{table: "agent_turns", what: "kept steps of turns of agents"},
		{table: "credit_limits", what: "spending limits"},
		{table: "approval_rules", what: "rules for approvals"},
		{table: "approval_permissions", what: "permissions for calls"},
		{table: "subscriptions", what: "subscriptions"},
		{table: "composio_connections", what: "connected accounts (they stay at the provider)"},
		{table: "toolsets", what: "installed toolsets"},
		{table: "toolset_authorizations", what: "authorizations of toolsets that were begun"},
		{table: "toolset_grants", what: "tokens for toolsets"},
		{table: "mcp_authorizations", what: "authorizations of MCP servers that were begun"},
		{table: "mcp_credentials", what: "credentials for MCP servers"},
		{table: "mcp_lists", what: "lists of tools of MCP servers"},
		{table: "mcp_servers", what: "MCP servers"},
		{table: "canvases", what: "canvases"},
		{table: "knowledge_collections", what: "collections of documents"},
		{table: "external_identities", what: "identities at other servers"},
		{table: "one_time_codes", what: "links to sign in and invitations"},
		{table: "app_grants", what: "apps that were let in"},
		{table: "interpreters", what: "places of interpreters"},
		{table: "bounds", what: "counts of what may begin"},
		{table: "bound_places", what: "counts of what is under way"},
		{table: "stored_responses", what: "stored responses"},
		{table: "user_sessions", what: "sessions"},
		{table: "user_api_keys", what: "keys"},
	}
}

// anyRow is a row of any table with users.
type anyRow struct{ UID string }

func (repository) countOf(h database.Handle, uid string, b belonging) (stays, goes int64, err error) {
	if err := database.Scoped(h, uid).Table(b.table).Count(&goes).Error; err != nil || !b.stays {
		return 0, goes, err
	}
	stays = goes
	if b.live != "" {
		err = database.Scoped(h, uid).Table(b.table).Where(b.live).Count(&stays).Error
	}
	return stays, goes - stays, err
}

func (repository) deleteOf(tx database.Tx, uid string, b belonging) error {
	return database.Scoped(tx.Handle, uid).Table(b.table).Delete(&anyRow{}).Error
}

// lock holds the user's row, which every row of the user's refers to, until the
// transaction ends.
func (repository) lock(tx database.Tx, uid string) error {
	whole := clause.Locking{Strength: clause.LockingStrengthUpdate} // database.Lock lets new rows refer to it
	err := database.Scoped(tx.Handle, uid).Clauses(whole).Take(&userRow{}).Error
	if errors.Is(err, database.ErrNotFound) {
		return ErrUserMissing
	}
	return err
}

func (repository) deleteUser(tx database.Tx, uid string) error {
	return cmp.Or(database.MustAffect(database.Scoped(tx.Handle, uid).Delete(&userRow{}), ErrUserMissing), changed(tx, uid))
}

// keys lists the keys of all users, or of one, the newest first; those of
// sandboxes are nobody's business.
func (repository) keys(h database.Handle, uid string) ([]Key, error) {
	var rows []keyRow
	q := database.Unscoped(h) // for operators: the keys of all tenants
	if uid != "" {
		q = database.Scoped(h, uid)
	}
	err := q.Where("revoked_at IS NULL AND scope IS NULL").Order("pk DESC").Find(&rows).Error
	if err != nil {
		return nil, err
	}
	return keysOf(rows)
}
