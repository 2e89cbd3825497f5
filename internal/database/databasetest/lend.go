package databasetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// The tests of all processes share the databases of a PostgreSQL server: making
// and dropping one takes as long as twenty tests. Each has the content of the
// migrations in its name, and belongs to the process that holds the advisory lock on
// that name. The server lets go of the lock when its holder's connection ends, so an
// end or a crash leaves nothing to clean up.

// lent is a database that this process holds.
type lent struct {
	name   string
	holder *pgx.Conn // has the lock
	inside *pgx.Conn // empties it: a new connection needs ten times as long
}

// shelf has the databases that this process holds and no test has.
type shelf struct {
	mu   sync.Mutex
	free []*lent
}

var unused shelf

func (s *shelf) take() *lent {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.free) == 0 {
		return nil
	}
	l := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	return l
}

func (s *shelf) put(l *lent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = append(s.free, l)
}

// lend returns the address of an empty, migrated database that is the test's
// until it ends.
func lend(t *testing.T) string {
	t.Helper()
	l := unused.take()
	for l != nil && !l.asNew(t) {
		l.close()
		l = unused.take()
	}
	if l == nil {
		l = hold(t)
	}
	t.Cleanup(func() { unused.put(l) })
	return withDatabase(t, l.name)
}

// hold takes a database that no process holds, and makes it if need be.
func hold(t *testing.T) *lent {
	t.Helper()
	hash := migrationsHash(t)
	holder := connect(t, server(t))
	for n := 0; ; n++ {
		name := fmt.Sprintf("test_%s_%d", hash, n)
		var free bool
		if err := holder.QueryRow(t.Context(), "SELECT pg_try_advisory_lock(hashtextextended($1, 0))", name).Scan(&free); err != nil {
			t.Fatal(err)
		}
		if !free {
			continue
		}
		if exists(t, holder, name) {
			l := &lent{name: name, holder: holder, inside: connect(t, withDatabase(t, name))}
			if l.asNew(t) {
				return l
			}
			closeConn(t, l.inside)
		}
		exec(t, holder, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
		exec(t, holder, fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s STRATEGY = FILE_COPY", name, template(t, holder, hash)))
		l := &lent{name: name, holder: holder, inside: connect(t, withDatabase(t, name))}
		sum, err := l.schema(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		exec(t, l.inside, fmt.Sprintf("COMMENT ON DATABASE %s IS '%s'", name, sum))
		return l
	}
}

// close ends both connections, of which the server may have ended one before.
func (l *lent) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_ = l.inside.Close(ctx)
	_ = l.holder.Close(ctx)
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
func (l *lent) asNew(t *testing.T) bool {
	t.Helper()
	same, err := l.empty(t.Context())
	if err != nil { // not every role may go without triggers, and a test may have ended the connection
		t.Logf("database %s is made anew: %v", l.name, err)
	}
	return err == nil && same
}

// empty deletes what tests have written, unless they have changed a table.
func (l *lent) empty(ctx context.Context) (same bool, err error) {
	var sum *string
	_, err = l.inside.Exec(ctx, "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
	if err == nil {
		err = l.inside.QueryRow(ctx, "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = current_database()").Scan(&sum)
	}
	if err != nil || sum == nil {
		return false, err
	}
	if is, err := l.schema(ctx); err != nil || is != *sum {
		return false, err
	}
	if _, err := l.inside.Exec(ctx, empty); err != nil {
		return false, err
	}
	rows, err := l.inside.Query(ctx, grown)
	if err != nil {
		return false, err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	for _, name := range names {
		_, failed := l.inside.Exec(ctx, "VACUUM "+name)
		err = errors.Join(err, failed)
	}
	return true, err
}

// schema sums up what a database has besides rows: a test may change a table.
func (l *lent) schema(ctx context.Context) (sum string, err error) {
	err = l.inside.QueryRow(ctx, schemaSum).Scan(&sum)
	return sum, err
}

// schemaSum is of which transaction each part is: a change writes the part anew.
const schemaSum = `
WITH tables AS MATERIALIZED (SELECT oid, xmin FROM pg_class WHERE relnamespace = 'public'::regnamespace)
SELECT md5(string_agg(part, ' ' ORDER BY part)) FROM (
	SELECT concat_ws('.', 'table', oid, xmin) AS part FROM tables
	UNION ALL SELECT concat_ws('.', 'column', attrelid, attnum, a.xmin) FROM pg_attribute a JOIN tables ON tables.oid = attrelid
	UNION ALL SELECT concat_ws('.', 'default', d.oid, d.xmin) FROM pg_attrdef d
	UNION ALL SELECT concat_ws('.', 'index', indexrelid, i.xmin) FROM pg_index i JOIN tables ON tables.oid = indexrelid
	UNION ALL SELECT concat_ws('.', 'constraint', oid, xmin) FROM pg_constraint WHERE connamespace = 'public'::regnamespace
	UNION ALL SELECT concat_ws('.', 'trigger', oid, xmin) FROM pg_trigger
	UNION ALL SELECT concat_ws('.', 'function', oid, xmin) FROM pg_proc WHERE pronamespace = 'public'::regnamespace
	UNION ALL SELECT 'setting ' || array_to_string(setconfig, ' ') FROM pg_db_role_setting JOIN pg_database d ON d.oid = setdatabase WHERE datname = current_database()
	UNION ALL SELECT 'version ' || max(version_id) FROM goose_db_version
) parts`

// empty deletes all rows but those that say which migrations were made. Without
// triggers there is no order to keep, and nothing is left half done.
const empty = `
SET lock_timeout = '10s';
SET session_replication_role = replica;
DO $$
DECLARE
	name regclass;
BEGIN
	FOR name IN SELECT oid FROM pg_class
		WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND relname <> 'goose_db_version' AND pg_relation_size(oid) > 0
	LOOP
		EXECUTE 'DELETE FROM ' || name;
	END LOOP;
	PERFORM setval(seqrelid, seqstart, false) FROM pg_sequence WHERE seqrelid::regclass::text NOT LIKE 'goose%';
END $$`

// grown are the tables whose deleted rows would slow down the tests that follow.
const grown = `
SELECT oid::regclass::text FROM pg_class
	WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND pg_total_relation_size(oid) > 1000000`
