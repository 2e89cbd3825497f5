package database_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
)

// behind holds the row of a user, so that the first transaction of a group does not
// end; the others are added while it waits. free lets it go.
type behind struct {
	db   *database.DB
	all  sync.WaitGroup
	mu   sync.Mutex
	errs map[string]error
	ways map[string][]bool
	free func()
}

func hold(t *testing.T, db *database.DB) *behind {
	t.Helper()
	b := &behind{db: db, errs: map[string]error{}, ways: map[string][]bool{}}
	require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error { return addUser(tx, "u-0", database.Now()) }))
	held, release := make(chan struct{}), make(chan struct{})
	b.free = sync.OnceFunc(func() { close(release) })
	t.Cleanup(b.free)
	b.all.Go(func() {
		err := db.InTx(context.WithoutCancel(t.Context()), func(tx database.Tx) error {
			err := database.Scoped(tx.Handle, "u-0").Table("users").Update("nickname", "held").Error
			close(held)
			<-release
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-held
	b.add(t.Context(), "u-first", "u-0")
	require.Eventually(t, func() bool {
		return database.Committing(db, "all") && (db.Dialect() == database.SQLite || waiting(t, db) == 1)
	}, time.Minute, 5*time.Millisecond)
	return b
}

// waiting counts the transactions that wait for a row.
func waiting(t *testing.T, db *database.DB) (n int) {
	t.Helper()
	require.NoError(t, database.Unscoped(db.Read(t.Context())).
		Raw("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").Scan(&n).Error)
	return n
}

func (b *behind) add(ctx context.Context, uid, other string) {
	b.all.Go(func() {
		ways, err := userAtOnce(ctx, b.db, "all", uid, other)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.errs[uid], b.ways[uid] = err, ways
	})
}

func (b *behind) gathered(t *testing.T, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return database.Waiting(b.db, "all") == n }, time.Minute, time.Millisecond)
}

// transactionsOf says how many transactions wrote the users.
func transactionsOf(t *testing.T, db *database.DB, like string) (n int) {
	t.Helper()
	require.NoError(t, database.Unscoped(db.Read(t.Context())).Raw("SELECT count(DISTINCT xmin::text) FROM users WHERE uid LIKE ?", like).Scan(&n).Error)
	return n
}

// sent notes how many statements were sent in each transaction.
type sent struct {
	slog.Handler
	mu         sync.Mutex
	statements []int64
}

func (s *sent) Enabled(context.Context, slog.Level) bool { return true }

func (s *sent) Handle(_ context.Context, r slog.Record) error {
	if r.Message != "statements" {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "count" {
			s.statements = append(s.statements, a.Value.Int64())
		}
		return true
	})
	return nil
}

func TestWhatIsReadyTogetherIsCommittedTogether(t *testing.T) {
	t.Parallel()
	eachDialect(t, func(t *testing.T, d database.Dialect) {
		var mu sync.Mutex
		heard := map[string]int{}
		log := &sent{Handler: slog.DiscardHandler}
		db, err := database.Open(t.Context(), database.Config{
			URL: databasetest.URL(t, d), MaxConnections: 4, Logger: slog.New(log),
			Notify: func(topic string) { mu.Lock(); defer mu.Unlock(); heard[topic]++ },
		})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		b := hold(t, db)
		for i := range 20 {
			b.add(t.Context(), fmt.Sprint("u-with-", i), "u-0")
		}
		b.gathered(t, 20)
		require.Len(t, b.errs, 0, "nobody is told before the commit")
		require.Empty(t, heard)
		b.free()
		b.all.Wait()
		for uid, err := range b.errs {
			require.NoError(t, err, uid)
			require.Equal(t, []bool{true}, b.ways[uid], uid)
			require.Equal(t, 1, heard[uid], uid)
		}
		require.Len(t, b.errs, 21)
		require.EqualValues(t, 22, countUsers(t, db))
		require.Equal(t, []int64{2, 40}, log.statements, "statements of each transaction")
		if d == database.Postgres {
			require.Equal(t, 1, transactionsOf(t, db, "u-with-%"))
		}
		require.Zero(t, database.Waiting(db, "all"))
	})
}

// What fails takes nothing else with it, and leaves nothing behind.
func TestOneThatFailsDoesNotFailThoseItGoesWith(t *testing.T) {
	t.Parallel()
	eachDialect(t, func(t *testing.T, d database.Dialect) {
		db := databasetest.Open(t, d, nil)
		b := hold(t, db)
		b.add(t.Context(), "u-with-1", "u-0")
		b.add(t.Context(), "u-with-odd", "u-nobody") // goes one by one in the end
		b.add(t.Context(), "u-0", "u-0")             // there is one
		b.add(t.Context(), "u-with-2", "u-0")
		b.gathered(t, 4)
		b.free()
		b.all.Wait()
		require.True(t, database.IsDuplicate(b.errs["u-0"]), "%v", b.errs["u-0"])
		require.Equal(t, []bool{true, false}, b.ways["u-with-odd"])
		for _, uid := range []string{"u-first", "u-with-1", "u-with-2", "u-with-odd"} {
			require.NoError(t, b.errs[uid], uid)
		}
		require.Equal(t, []bool{true}, b.ways["u-with-2"])
		require.EqualValues(t, 5, countUsers(t, db))
	})
}

// Whoever leaves takes nobody along, be it before its transaction is sent or while
// it waits in the database, be it the one that sends or another one.
func TestOneThatLeavesDoesNotFailTheOthers(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres, nil)
	b := hold(t, db)
	early, leave := context.WithCancel(t.Context())
	b.add(early, "u-with-early", "u-0")
	b.gathered(t, 1)
	leave()
	b.gathered(t, 0)
	var leaves []func()
	for i := range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		leaves = append(leaves, cancel)
		b.add(ctx, fmt.Sprint("u-with-", i), "u-0")
		b.gathered(t, i+1)
	}
	again, release := make(chan struct{}), make(chan struct{})
	b.all.Go(func() { // takes the row after the first one
		err := db.InTx(context.WithoutCancel(t.Context()), func(tx database.Tx) error {
			err := database.Unscoped(tx.Handle).Exec("LOCK TABLE users IN SHARE ROW EXCLUSIVE MODE").Error
			close(again)
			<-release
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
	require.Eventually(t, func() bool { return waiting(t, db) == 2 }, time.Minute, 5*time.Millisecond)
	b.free()
	<-again
	require.Eventually(t, func() bool { return database.Waiting(db, "all") == 0 && waiting(t, db) == 1 }, time.Minute, 5*time.Millisecond)
	leaves[0]() // it sends
	leaves[1]() // it is told
	close(release)
	b.all.Wait()
	require.ErrorIs(t, b.errs["u-with-early"], context.Canceled)
	require.NoError(t, b.errs["u-with-2"])
	require.EqualValues(t, 5, countUsers(t, db), "u-0, the first and three of the group")
}
