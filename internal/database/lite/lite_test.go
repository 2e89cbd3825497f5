package lite_test

import (
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/glebarez/sqlite" // the driver that the rest of the server uses
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database/lite"
)

func open(t *testing.T, uri string, setup ...string) *lite.Conn {
	t.Helper()
	c, err := lite.Open(uri, 20*time.Millisecond, setup...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func file(t *testing.T) string {
	t.Helper()
	return "file:" + filepath.Join(t.TempDir(), "a b.db")
}

func do(t *testing.T, c *lite.Conn, rows int64, text string, args ...any) {
	t.Helper()
	n, err := c.Do(text, args...)
	require.NoError(t, err, text)
	require.Equal(t, rows, n, text)
}

// What is written here is what the driver writes, byte for byte.
func TestArgumentsAreStoredAsTheDriverStoresThem(t *testing.T) {
	t.Parallel()
	uri := file(t)
	c := open(t, uri)
	do(t, c, 0, "CREATE TABLE t (n integer PRIMARY KEY, v)")
	db, err := sql.Open("sqlite", uri)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	long, none := strings.Repeat("é", 1<<16), (*string)(nil)
	at := time.Date(2026, 7, 22, 12, 0, 0, 120_000_000, time.UTC)
	values := []any{
		nil, none, &long, "", "a\x00b", 0, int64(-1 << 62), 1.5, true, false, at, &at, at.Truncate(time.Second), at.In(time.FixedZone("", 3600)),
	}
	for n, v := range values {
		const insert = "INSERT INTO t VALUES (?1, ?2)"
		do(t, c, 1, insert, 2*n, v)
		_, err := db.ExecContext(t.Context(), insert, 2*n+1, v)
		require.NoError(t, err)
	}
	var pairs int
	require.NoError(t, db.QueryRowContext(t.Context(), `SELECT count(*) FROM t a JOIN t b ON b.n = a.n + 1
		WHERE a.n % 2 = 0 AND a.v IS b.v AND typeof(a.v) = typeof(b.v) AND hex(a.v) = hex(b.v)`).Scan(&pairs))
	require.Equal(t, len(values), pairs)
	_, err = c.Do("INSERT INTO t VALUES (?1, ?2)", 100, []byte("x"))
	require.ErrorContains(t, err, "[]uint8")
}

func TestRowsAreThoseChangedOrFound(t *testing.T) {
	t.Parallel()
	c := open(t, file(t))
	do(t, c, 0, "CREATE TABLE t (v)")
	do(t, c, 3, "INSERT INTO t VALUES (1), (2), (2)")
	do(t, c, 2, "SELECT v FROM t WHERE v = ?1", 2)
	do(t, c, 1, "SELECT v FROM t WHERE v = ?1", 1)
	do(t, c, 0, "SELECT v FROM t WHERE v = ?1", 9)
	do(t, c, 0, "UPDATE t SET v = 0 WHERE v = ?1", 9)
	do(t, c, 2, "UPDATE t SET v = 0 WHERE v = ?1", 2)
	do(t, c, 2, "DELETE FROM t WHERE v = 0 RETURNING v")
}

// A statement stays prepared when others change the tables that it is about.
func TestStatementsOutliveAChangeOfTheSchema(t *testing.T) {
	t.Parallel()
	uri := file(t)
	c, other := open(t, uri), open(t, uri)
	do(t, c, 0, "CREATE TABLE t (v)")
	do(t, c, 1, "INSERT INTO t (v) VALUES (?1)", 1)
	do(t, other, 0, "CREATE UNIQUE INDEX t_v ON t (v)")
	do(t, other, 0, "ALTER TABLE t ADD COLUMN w DEFAULT 5")
	_, err := c.Do("INSERT INTO t (v) VALUES (?1)", 1)
	require.ErrorContains(t, err, "UNIQUE")
	do(t, c, 1, "INSERT INTO t (v) VALUES (?1)", 2)
	do(t, c, 2, "SELECT * FROM t WHERE w = 5")
}

// Only what is the statement's own fault is a refusal.
func TestRefusedAreStatementsAndNotFiles(t *testing.T) {
	t.Parallel()
	uri := file(t)
	c, other := open(t, uri, "PRAGMA foreign_keys = 1"), open(t, uri)
	do(t, c, 0, "CREATE TABLE t (v integer PRIMARY KEY, u REFERENCES t (v), w NOT NULL CHECK (w < 9))")
	for text, args := range map[string][]any{
		"INSERT INTO t VALUES (1, 5, 1)":  nil, // no such t
		"INSERT INTO t VALUES (1, 1, ?1)": {nil},
		"INSERT INTO t VALUES (2, 2, ?1)": {9},
		"SELECT 1 FROM nothing":           nil,
		"SELECT ?1":                       {1, 2},
		"SELECT ?1, ?2":                   {1},
		"":                                nil,
	} {
		_, err := c.Do(text, args...)
		var refusal *lite.Error
		require.True(t, errors.As(err, &refusal) && refusal.Refused(), "%s: %v", text, err)
	}
	do(t, other, 0, "BEGIN IMMEDIATE")
	_, err := c.Do("BEGIN IMMEDIATE")
	var busy *lite.Error
	require.True(t, errors.As(err, &busy) && !busy.Refused(), "%v", err)
	require.False(t, c.InTransaction())
	do(t, other, 0, "ROLLBACK")
	do(t, c, 0, "BEGIN IMMEDIATE")
	require.True(t, c.InTransaction())
}

func TestCloseTakesBackWhatIsNotCommitted(t *testing.T) {
	t.Parallel()
	uri := file(t)
	c, err := lite.Open(uri, time.Second)
	require.NoError(t, err)
	do(t, c, 0, "CREATE TABLE t (v)")
	do(t, c, 0, "BEGIN IMMEDIATE")
	do(t, c, 1, "INSERT INTO t VALUES (1)")
	c.Close()
	do(t, open(t, uri), 0, "SELECT * FROM t")
}

func TestWhatCannotBeOpenedIsAnError(t *testing.T) {
	t.Parallel()
	_, err := lite.Open("file:"+t.TempDir(), time.Second)
	require.ErrorContains(t, err, "unable to open")
	_, err = lite.Open(file(t), time.Second, "PRAGMA no pragma at all")
	require.ErrorContains(t, err, "syntax")
}
