package login_test

import (
	"testing"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/modules/account/login"
)

func TestRowsAreAsTheSchemaHasThem(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		for _, row := range login.Rows() {
			databasetest.CheckRow(t, db, row)
		}
	})
}
