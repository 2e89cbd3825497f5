package databasetest

import (
	"fmt"
	"os"
	"sync"
	"testing"
)

// reused are the databases that tests of this process are done with.
var reused pool

// pool keeps emptied databases for the next tests. Its zero value keeps none.
type pool struct {
	mu    sync.Mutex
	keeps bool
	names []string
}

// Reuse is a TestMain that gives tests the emptied PostgreSQL databases of tests
// before them: making and dropping a database takes longer than most tests. It is
// for packages whose tests change rows alone, not tables. The database of a test
// that failed is not used again.
func Reuse(m *testing.M) {
	reused.keeps = true
	code := m.Run()
	for _, name := range reused.names {
		if err := drop(os.Getenv(EnvPostgres), name); err != nil {
			fmt.Fprintln(os.Stderr, "a database of these tests is not dropped:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

func (p *pool) take() (name string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.names) == 0 {
		return "", false
	}
	last := len(p.names) - 1
	name, p.names = p.names[last], p.names[:last]
	return name, true
}

func (p *pool) put(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.names = append(p.names, name)
}

// empty deletes all rows but those that say which migrations were made. Without
// triggers there is no order to keep, and nothing is left half done.
const empty = `
SET lock_timeout = '10s';
SET session_replication_role = replica;
DO $$
DECLARE name text;
BEGIN
	FOR name IN SELECT oid::regclass FROM pg_class
		WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND relname <> 'goose_db_version'
	LOOP
		EXECUTE 'DELETE FROM ' || name;
	END LOOP;
	PERFORM setval(seqrelid, seqstart, false) FROM pg_sequence WHERE seqrelid::regclass::text NOT LIKE 'goose%';
END $$`

// giveBack keeps a database for the next test, or drops it, when the test ends.
// One that cannot be emptied is dropped: not every role may go without triggers.
func giveBack(t *testing.T, name string) {
	t.Helper()
	t.Cleanup(func() {
		t.Helper()
		if reused.keeps && !t.Failed() {
			err := run(withDatabase(t, name), empty)
			if err == nil {
				reused.put(name)
				return
			}
			t.Logf("database %s is not used again: %v", name, err)
		}
		if err := drop(server(t), name); err != nil {
			t.Error(err)
		}
	})
}
