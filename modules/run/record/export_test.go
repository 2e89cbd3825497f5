package record

import (
	"testing"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
)

// CheckRows compares the row struct with the schema.
func CheckRows(t *testing.T, db *database.DB) {
	t.Helper()
	databasetest.CheckRow(t, db, callRow{})
}
