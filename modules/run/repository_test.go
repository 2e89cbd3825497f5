package run

import (
	"testing"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
)

func TestRowsMatchTheSchema(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		databasetest.CheckRow(t, db, row{})
		databasetest.CheckRow(t, db, eventRow{})
		databasetest.CheckRow(t, db, messageRow{})
		databasetest.CheckRow(t, db, canvasRow{})
	})
}
