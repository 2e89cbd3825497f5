package toolset

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/billing"
	"github.com/portico-run/portico/modules/internal/database"
	"github.com/portico-run/portico/modules/internal/database/databasetest"
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

// CheckFile checks one file.
func CheckFile(content []byte) error {
	_, err := checkFiles([]File{{Name: "f", Content: content}}, nil, billing.NewPricer(120), nil)
	return err
}
