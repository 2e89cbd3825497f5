package databasetest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
)

func TestMain(m *testing.M) { databasetest.Reuse(m) }

// A database that is used again is as a new one: migrated, and without a row. Those
// of tests at the same time are two.
func TestDatabasesAreEmptiedForTheNextTest(t *testing.T) { //nolint:paralleltest // another test must not take its database
	const state = `SELECT current_database() AS name, (SELECT count(*) FROM users) AS users, (SELECT count(*) FROM action_results) AS runs,
		nextval('action_results_pk_seq') AS next,
		(SELECT max(version_id) FROM goose_db_version) AS version`
	type row struct {
		Name        string
		Users, Runs int
		Next        int64
		Version     int64
	}
	var seen []row
	for range 2 { //nolint:paralleltest // the second has the databases of the first
		t.Run("use", func(t *testing.T) {
			db := databasetest.Open(t, database.Postgres, nil)
			other := databasetest.Open(t, database.Postgres, nil)
			var is, beside row
			require.NoError(t, database.Unscoped(db.Read(t.Context())).Raw(state).Scan(&is).Error)
			require.NoError(t, database.Unscoped(other.Read(t.Context())).Raw(state).Scan(&beside).Error)
			require.NotEqual(t, is.Name, beside.Name)
			require.Equal(t, row{Name: is.Name, Next: 1, Version: is.Version}, is, "no row, and no number is used")
			require.Positive(t, is.Version)
			seen = append(seen, is, beside)
			for _, statement := range []string{
				`INSERT INTO users (uid, name) VALUES ('u-anna', 'Anna')`,
				`INSERT INTO action_results (result_id, version, uid, title, status) VALUES ('r', 0, 'u-anna', 'Test', 'running')`,
			} {
				require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error { return database.Unscoped(tx.Handle).Exec(statement).Error }))
			}
		})
	}
	require.ElementsMatch(t, seen[:2], seen[2:])
}
