package databasetest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
)

// A database that other tests had is as a new one: migrated, without a row, its
// tables as they were. Those of tests at the same time are two.
func TestDatabasesAreAsNew(t *testing.T) { //nolint:paralleltest // another test must not take its database
	const state = `SELECT current_database() AS name, (SELECT count(*) FROM users) AS users, (SELECT count(*) FROM action_results) AS runs,
		nextval('action_results_pk_seq') AS next,
		(SELECT count(*) FROM information_schema.columns WHERE table_name = 'users' AND column_name = 'extra') AS extra,
		(SELECT max(version_id) FROM goose_db_version) AS version`
	type row struct {
		Name               string
		Users, Runs, Extra int
		Next               int64
		Version            int64
	}
	const size = 300_000             // more than what is emptied row by row
	for _, change := range []string{ //nolint:paralleltest // the next has the databases of the one before
		`INSERT INTO users (uid, name) VALUES ('u-anna', 'Anna');
		INSERT INTO action_results (result_id, version, uid, title, status) VALUES ('r', 0, 'u-anna', 'Test', 'running')`,
		`INSERT INTO users (uid, name) SELECT 'u-' || n, repeat(md5(n::text), 30) FROM generate_series(1, ` + fmt.Sprint(size/1000) + `) n`,
		`ALTER TABLE users ADD COLUMN extra text`,
		`SELECT 1`,
	} {
		t.Run("use", func(t *testing.T) {
			db := databasetest.Open(t, database.Postgres, nil)
			other := databasetest.Open(t, database.Postgres, nil)
			var is, beside row
			require.NoError(t, database.Unscoped(db.Read(t.Context())).Raw(state).Scan(&is).Error)
			require.NoError(t, database.Unscoped(other.Read(t.Context())).Raw(state).Scan(&beside).Error)
			require.NotEqual(t, is.Name, beside.Name)
			require.Equal(t, row{Name: is.Name, Next: 1, Version: is.Version}, is)
			require.Positive(t, is.Version)
			for statement := range strings.SplitSeq(change, ";") {
				require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error { return database.Unscoped(tx.Handle).Exec(statement).Error }))
			}
		})
	}
}

func TestSQLiteDatabasesAreMigrated(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.SQLite, nil)
	made, err := db.Migrate(t.Context())
	require.NoError(t, err)
	require.Zero(t, made)
}
