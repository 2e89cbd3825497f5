package databasetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// The tests of all processes share the databases of a PostgreSQL server: making
// and dropping one takes as long as twenty tests. Each has the content of the
// migrations in its name, and belongs to whoever holds the advisory lock on that
// name. The server lets go of the lock when its holder's connection ends, so a
// crash leaves nothing to clean up.

// lend returns the address of an empty, migrated database that is the test's
// until it ends.
func lend(t *testing.T) string {
	t.Helper()
	conn := connect(t, server(t))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := conn.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	hash := migrationsHash(t)
	for n := 0; ; n++ {
		name := fmt.Sprintf("test_%s_%d", hash, n)
		var free bool
		if err := conn.QueryRow(t.Context(), "SELECT pg_try_advisory_lock(hashtextextended($1, 0))", name).Scan(&free); err != nil {
			t.Fatal(err)
		}
		if !free {
			continue
		}
		if !asNew(t, conn, name) {
			exec(t, conn, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
			exec(t, conn, fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s STRATEGY = FILE_COPY", name, template(t, conn, hash)))
			inside := connect(t, withDatabase(t, name))
			exec(t, inside, fmt.Sprintf("COMMENT ON DATABASE %s IS '%s'", name, schemaOf(t, inside)))
			closeConn(t, inside)
		}
		return withDatabase(t, name)
	}
}

// template returns the name of a migrated database, which is made once under a
// temporary name and renamed: a crash leaves no half-made template.
func template(t *testing.T, conn *pgx.Conn, hash string) string {
	t.Helper()
	const lockID = 7_012_022
	exec(t, conn, fmt.Sprintf("SELECT pg_advisory_lock(%d)", lockID))
	name := "template_" + hash
	if !exists(t, conn, name) {
		building := name + "_building"
		exec(t, conn, "DROP DATABASE IF EXISTS "+building)
		exec(t, conn, "CREATE DATABASE "+building)
		if err := migrate(t.Context(), withDatabase(t, building)); err != nil {
			t.Fatal(err)
		}
		exec(t, conn, fmt.Sprintf("ALTER DATABASE %s RENAME TO %s", building, name))
	}
	exec(t, conn, fmt.Sprintf("SELECT pg_advisory_unlock(%d)", lockID))
	return name
}

func exists(t *testing.T, conn *pgx.Conn, name string) (is bool) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&is); err != nil {
		t.Fatal(err)
	}
	return is
}

// asNew empties a database of tests before, and says whether it is as a new one.
func asNew(t *testing.T, conn *pgx.Conn, name string) bool {
	t.Helper()
	var schema *string
	err := conn.QueryRow(t.Context(), "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = $1", name).Scan(&schema)
	if errors.Is(err, pgx.ErrNoRows) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	exec(t, conn, "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '"+name+"'")
	inside := connect(t, withDatabase(t, name))
	defer closeConn(t, inside)
	if schema == nil || *schema != schemaOf(t, inside) {
		return false
	}
	// Not every role may go without triggers.
	if _, err := inside.Exec(t.Context(), empty); err != nil {
		t.Logf("database %s is made anew: %v", name, err)
		return false
	}
	return true
}

// schemaOf sums up what a database has besides rows: a test may change a table.
func schemaOf(t *testing.T, conn *pgx.Conn) (sum string) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), schemaSum).Scan(&sum); err != nil {
		t.Fatal(err)
	}
	return sum
}

const schemaSum = `
SELECT md5(string_agg(part, E'\n' ORDER BY part)) FROM (
	SELECT concat_ws(' ', relkind, relname, attname, atttypid::regtype, attnotnull, attisdropped) AS part
		FROM pg_class c LEFT JOIN pg_attribute a ON attrelid = c.oid AND attnum > 0
		WHERE relnamespace = 'public'::regnamespace
	UNION ALL SELECT pg_get_indexdef(indexrelid) FROM pg_index JOIN pg_class c ON c.oid = indrelid WHERE relnamespace = 'public'::regnamespace
	UNION ALL SELECT concat_ws(' ', conrelid::regclass, conname, pg_get_constraintdef(oid)) FROM pg_constraint WHERE connamespace = 'public'::regnamespace
	UNION ALL SELECT concat_ws(' ', tgenabled, pg_get_triggerdef(oid)) FROM pg_trigger WHERE NOT tgisinternal
	UNION ALL SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND prokind = 'f'
	UNION ALL SELECT 'setting ' || array_to_string(setconfig, ' ') FROM pg_db_role_setting JOIN pg_database d ON d.oid = setdatabase WHERE datname = current_database()
	UNION ALL SELECT 'version ' || max(version_id) FROM goose_db_version
) parts`

// empty deletes all rows but those that say which migrations were made. Without
// triggers there is no order to keep, and nothing is left half done. TRUNCATE makes
// new files for every table and index, so it is for tables that have grown.
const empty = `
SET lock_timeout = '10s';
SET session_replication_role = replica;
DO $$
DECLARE
	name text;
	names text;
	grown bool;
BEGIN
	SELECT string_agg(oid::regclass::text, ', '), bool_or(pg_relation_size(oid) > 262144) INTO names, grown FROM pg_class
		WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND relname <> 'goose_db_version';
	IF grown THEN
		EXECUTE 'TRUNCATE ' || names;
	ELSE
		FOREACH name IN ARRAY string_to_array(names, ', ') LOOP
			EXECUTE 'DELETE FROM ' || name;
		END LOOP;
	END IF;
	PERFORM setval(seqrelid, seqstart, false) FROM pg_sequence WHERE seqrelid::regclass::text NOT LIKE 'goose%';
END $$`
