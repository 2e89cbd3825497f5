package execution_test

import (
	"testing"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/modules/codeapi/execution"
)

func TestRowsFitTheSchema(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		for _, row := range execution.Rows() {
			databasetest.CheckRow(t, db, row)
		}
	})
}
