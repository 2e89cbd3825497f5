package database_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
)

// process is another process on the same database, which hears what a database
// handle tells.
type process struct{ conn *pgx.Conn }

func listen(t *testing.T, address string) process {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(context.WithoutCancel(t.Context()))) })
	_, err = conn.Exec(t.Context(), "LISTEN "+database.Channel)
	require.NoError(t, err)
	return process{conn}
}

// hears waits for the next n topics.
func (p process) hears(t *testing.T, n int) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var topics []string
	for range n {
		heard, err := p.conn.WaitForNotification(ctx)
		require.NoError(t, err, "after %d topics", len(topics))
		topics = append(topics, heard.Payload)
	}
	return topics
}

// exec runs a statement as another client of the server.
func (p process) exec(t *testing.T, sql string) int64 {
	t.Helper()
	tag, err := p.conn.Exec(t.Context(), sql)
	require.NoError(t, err)
	return tag.RowsAffected()
}

func notify(ctx context.Context, db *database.DB, topics ...string) error {
	return db.InTx(ctx, func(tx database.Tx) error {
		for _, topic := range topics {
			if err := tx.Notify(topic); err != nil {
				return err
			}
		}
		return nil
	})
}

func openTold(t *testing.T) (*database.DB, process) {
	t.Helper()
	address := databasetest.URL(t, database.Postgres)
	return databasetest.OpenURL(t, address, nil), listen(t, address)
}

func TestAnotherProcessHearsOfCommitsOnly(t *testing.T) {
	t.Parallel()
	db, other := openTold(t)
	boom := errors.New("boom")
	require.ErrorIs(t, db.InTx(t.Context(), func(tx database.Tx) error {
		require.NoError(t, tx.Notify("lost"))
		return boom
	}), boom)
	require.NoError(t, notify(t.Context(), db, "first", "first"))
	require.Equal(t, []string{"first"}, other.hears(t, 1))
	require.NoError(t, notify(t.Context(), db, "second"))
	require.Equal(t, []string{"second"}, other.hears(t, 1))
}

// A commit that notifies makes every other commit of the server wait.
func TestTransactionsDoNotNotifyThemselves(t *testing.T) {
	t.Parallel()
	db, other := openTold(t)
	var own uint32
	require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error {
		if err := tx.Notify("a"); err != nil {
			return err
		}
		return database.Unscoped(tx.Handle).Raw("SELECT pg_backend_pid()").Scan(&own).Error
	}))
	heard, err := other.conn.WaitForNotification(t.Context())
	require.NoError(t, err)
	require.NotEqual(t, own, heard.PID)
}

const killNotifier = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
	WHERE query LIKE '%pg_notify($1%' AND pid <> pg_backend_pid() AND datname = current_database()`

func TestNotifyOutlivesItsConnection(t *testing.T) {
	t.Parallel()
	db, other := openTold(t)
	for n := range 3 {
		topic := fmt.Sprintf("run:%d", n)
		require.NoError(t, notify(t.Context(), db, topic))
		require.Equal(t, []string{topic}, other.hears(t, 1))
		require.EqualValues(t, 1, other.exec(t, killNotifier), "connections that notify")
	}
}

func TestNotifyWaitsForTheDatabase(t *testing.T) {
	t.Parallel()
	address := databasetest.URL(t, database.Postgres)
	logged, log := logLines()
	db, err := database.Open(t.Context(), database.Config{URL: address, MaxConnections: 1, Logger: log})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	other := listen(t, address)
	name := other.conn.Config().Database
	admin := listen(t, strings.Replace(address, "/"+name, "/postgres", 1)) // nobody forbids connections to the own database

	admin.exec(t, "ALTER DATABASE "+name+" ALLOW_CONNECTIONS false")
	require.NoError(t, notify(t.Context(), db, "late"))
	require.Contains(t, <-logged, "until the database answers")
	require.NoError(t, notify(t.Context(), db, "later"))
	admin.exec(t, "ALTER DATABASE "+name+" ALLOW_CONNECTIONS true")
	require.ElementsMatch(t, []string{"late", "later"}, other.hears(t, 2))
}

func TestCloseTellsWhatWaits(t *testing.T) {
	t.Parallel()
	address := databasetest.URL(t, database.Postgres)
	other := listen(t, address)
	var want, heard []string
	for n := range 5 {
		db := databasetest.OpenURL(t, address, nil)
		for m := range 5 {
			topic := fmt.Sprintf("run:%d-%d", n, m)
			want = append(want, topic)
			require.NoError(t, notify(t.Context(), db, topic))
		}
		require.NoError(t, db.Close())
		heard = append(heard, other.hears(t, 5)...)
	}
	require.ElementsMatch(t, want, heard)
}

func TestTenThousandTopicsAtOnce(t *testing.T) {
	t.Parallel()
	db, other := openTold(t)
	const commits, each = 100, 100
	var want []string
	var all sync.WaitGroup
	for n := range commits {
		var topics []string
		for m := range each {
			topics = append(topics, fmt.Sprintf("run:ar-%d-%d", n, m))
		}
		want = append(want, topics...)
		all.Go(func() {
			if err := notify(t.Context(), db, topics...); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.ElementsMatch(t, want, other.hears(t, commits*each))
}

func TestTopicsThatWaitAreBounded(t *testing.T) {
	t.Parallel()
	address := databasetest.URL(t, database.Postgres)
	logged, log := logLines()
	db, err := database.Open(t.Context(), database.Config{URL: address, Logger: log})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	other := listen(t, address)

	var topics []string
	for n := range 200 {
		topics = append(topics, fmt.Sprintf("%07000d", n))
	}
	require.NoError(t, notify(t.Context(), db, topics...))
	require.Contains(t, <-logged, "too many wake-ups")
	require.ElementsMatch(t, topics[:149], other.hears(t, 149), "what fits into a mebibyte")
	require.NoError(t, notify(t.Context(), db, "after"))
	require.Equal(t, []string{"after"}, other.hears(t, 1))
	require.Empty(t, logged, "it is said once")
}

func TestTopicsThatCannotBeSentAreRefused(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		require.NoError(t, notify(t.Context(), db, strings.Repeat("x", 7999)))
		for _, topic := range []string{strings.Repeat("x", 8000), "a\x00b", "a\xffb"} {
			require.ErrorContains(t, notify(t.Context(), db, topic), "too long or not text")
		}
	})
}

// logLines is a log and the lines that are written to it.
func logLines() (<-chan string, *slog.Logger) {
	lines := make(chan string, 100)
	return lines, slog.New(slog.NewTextHandler(lineWriter(lines), nil))
}

type lineWriter chan<- string

func (w lineWriter) Write(line []byte) (int, error) {
	select {
	case w <- string(line):
		return len(line), nil
	default:
		return 0, io.ErrShortWrite
	}
}
