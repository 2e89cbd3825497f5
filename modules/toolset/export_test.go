package toolset

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
)

// Exec runs SQL for a test.
func Exec(t *testing.T, db *database.DB, sql string, args ...any) {
	t.Helper()
	require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error {
		return database.Unscoped(tx.Handle).Exec(sql, args...).Error
	}))
}

// StoredKey is the sealed credential of a toolset.
func StoredKey(t *testing.T, db *database.DB, key string) string {
	t.Helper()
	row, err := repository{}.inventory(db.Read(t.Context()), key)
	require.NoError(t, err)
	return deref(row.APIKey)
}

// CheckRows compares the row structs with the schema.
func CheckRows(t *testing.T, db *database.DB) {
	t.Helper()
	for _, row := range []any{toolsetRow{}, inventoryRow{}, methodRow{}, connectionRow{}, serverRow{}, formulaRow{}} {
		databasetest.CheckRow(t, db, row)
	}
}

// Rows are the rows of a toolset that readers use, with the credential opened
// and the toolset's key, ids and times left out.
func Rows(t *testing.T, s *Service, key string) map[string][]map[string]any {
	t.Helper()
	out := map[string][]map[string]any{}
	for table, where := range map[string]string{
		"toolset_inventory": "key = ?",
		"toolsets":          "key = ? AND is_global AND deleted_at IS NULL",
		"tool_methods":      "inventory_key = ? AND enabled AND deleted_at IS NULL",
		"tool_billing":      "inventory_key = ? AND enabled",
	} {
		var rows []map[string]any
		require.NoError(t, database.Unscoped(s.DB.Read(t.Context())).Table(table).Where(where, key).Find(&rows).Error)
		for _, row := range rows {
			if sealed, ok := row["api_key"].(string); ok {
				opened, err := s.Box.Open(sealed)
				require.NoError(t, err)
				row["api_key"] = string(opened)
			}
			for _, column := range []string{"pk", "key", "inventory_key", "toolset_id", "created_at", "updated_at"} {
				delete(row, column)
			}
		}
		slices.SortFunc(rows, func(a, b map[string]any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		out[table] = rows
	}
	return out
}
