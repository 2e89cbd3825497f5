// Package databasetest gives tests real databases: an empty migrated SQLite
// file and a clone of a migrated PostgreSQL template.
package databasetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/migrations"
)

// EnvPostgres names the variable with the address of the PostgreSQL server
// that tests may fill with databases. The test script starts one. Without it,
// what needs PostgreSQL is skipped, and fails where CI is set.
const EnvPostgres = "PORTICO_TEST_POSTGRES_URL"

// EnvOne names the variable that has each test run on one of the databases: "first"
// for one half of the tests on each, "second" for the other half. `make race` sets
// the first and `make test` the second, so that both together run each test on both.
const EnvOne = "PORTICO_TEST_ONE_DATABASE"

const connections = 8

// Both are all databases, for tests that only one of `make test` and `make race` has.
func Both() []database.Dialect { return []database.Dialect{database.SQLite, database.Postgres} }

// Of are the databases that a test runs on.
func Of(t *testing.T) []database.Dialect {
	t.Helper()
	name := fnv.New32a()
	_, _ = name.Write([]byte(t.Name())) // never fails
	n := name.Sum32() % 2
	switch half := os.Getenv(EnvOne); half {
	case "":
		return Both()
	case "first":
		return Both()[n : n+1]
	case "second":
		return Both()[1-n : 2-n]
	default:
		t.Fatalf("%s is %q; it may be first, second or nothing", EnvOne, half)
		return nil
	}
}

// Each runs a test once per database, side by side.
func Each(t *testing.T, test func(t *testing.T, db *database.DB)) {
	t.Helper()
	for _, d := range Of(t) {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			test(t, Open(t, d, nil))
		})
	}
}

// Open returns an empty, migrated database that goes away with the test.
// Notify may be nil.
func Open(t *testing.T, d database.Dialect, notify func(topic string)) *database.DB {
	t.Helper()
	return OpenURL(t, URL(t, d), notify)
}

// OpenURL opens a database of URL once more, as a second process would.
func OpenURL(t *testing.T, address string, notify func(topic string)) *database.DB {
	t.Helper()
	db, err := database.Open(t.Context(), database.Config{
		URL: address, MaxConnections: connections, Notify: notify,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// URL returns the address of an empty, migrated database that goes away with
// the test.
func URL(t *testing.T, d database.Dialect) string {
	t.Helper()
	if d == database.Postgres {
		return lend(t)
	}
	address := EmptyURL(t, d)
	migrated, err := sqliteTemplate()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(strings.TrimPrefix(address, "sqlite:"), migrated, 0o600); err != nil {
		t.Fatal(err)
	}
	return address
}

// EmptyURL returns the address of a database without any table.
func EmptyURL(t *testing.T, d database.Dialect) string {
	t.Helper()
	if d == database.SQLite {
		return "sqlite:" + filepath.Join(t.TempDir(), "portico.db")
	}
	name := "test_" + strings.ReplaceAll(ids.New("e"), "-", "_")
	admin(t, "CREATE DATABASE "+name)
	dropAfter(t, name)
	return withDatabase(t, name)
}

// sqliteTemplate is the file of an empty, migrated SQLite database, made once for
// the tests of a process.
var sqliteTemplate = sync.OnceValues(func() ([]byte, error) {
	folder, err := os.MkdirTemp("", "portico-template-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	file := filepath.Join(folder, "portico.db")
	if err := migrate(context.Background(), "sqlite:"+file); err != nil {
		return nil, err
	}
	return os.ReadFile(file)
})

func migrate(ctx context.Context, address string) error {
	db, err := database.Open(ctx, database.Config{URL: address})
	if err != nil {
		return err
	}
	_, err = db.Migrate(ctx)
	return errors.Join(err, db.Close())
}

func migrationsHash(t *testing.T) string {
	t.Helper()
	files, err := migrations.Postgres()
	if err != nil {
		t.Fatal(err)
	}
	h := sha256.New()
	err = fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(files, path)
		_, _ = fmt.Fprintf(h, "%s %d\n%s", path, len(b), b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

func server(t *testing.T) string {
	t.Helper()
	return testenv.Need(t, EnvPostgres, "tools/postgres.sh start prints it")
}

func withDatabase(t *testing.T, name string) string {
	t.Helper()
	u, err := url.Parse(server(t))
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

func dropAfter(t *testing.T, name string) {
	t.Helper()
	t.Cleanup(func() {
		if err := drop(server(t), name); err != nil {
			t.Error(err)
		}
	})
}

// drop needs a context of its own: that of a test has ended when its databases go.
func drop(server, name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
	return err
}

func admin(t *testing.T, statement string) {
	t.Helper()
	conn := connect(t, server(t))
	defer closeConn(t, conn)
	exec(t, conn, statement)
}

func connect(t *testing.T, address string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func closeConn(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	if err := conn.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func exec(t *testing.T, conn *pgx.Conn, statement string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}
