package rows_test

import (
	"testing"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/modules/toolset/rows"
)

func TestRows(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		for _, row := range []any{rows.Toolset{}, rows.Inventory{}, rows.Method{}, rows.Server{}, rows.Formula{}, rows.Schema{}} {
			databasetest.CheckRow(t, db, row)
		}
	})
}
