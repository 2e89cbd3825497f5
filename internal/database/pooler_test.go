package database_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv/poolertest"
)

// Behind a pooler whose few connections change with every transaction, transactions,
// those that are sent as a whole, migrations and notifications work.
func TestBehindAPooler(t *testing.T) {
	t.Parallel()
	direct := databasetest.EmptyURL(t, database.Postgres)
	pooled := poolertest.Start(t, direct)
	open := func() *database.DB {
		db, err := database.Open(t.Context(), database.Config{URL: pooled, Direct: direct, MaxConnections: 20})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		return db
	}
	dbs := []*database.DB{open(), open()}
	applied, err := dbs[0].Migrate(t.Context())
	require.NoError(t, err)
	require.Positive(t, applied)
	steps, err := dbs[1].Steps(t.Context())
	require.NoError(t, err)
	require.Len(t, steps, applied)

	var all sync.WaitGroup
	failures := make(chan error, 1000)
	for i := range 20 {
		db := dbs[i%2]
		all.Go(func() {
			uid := fmt.Sprint("u-", i)
			insert := func(n int) func(tx database.Tx) error {
				return func(tx database.Tx) error {
					sql, args := "INSERT INTO users (uid, name, created_at) VALUES (?, ?, ?)", []any{fmt.Sprint(uid, "-", n), fmt.Sprint(uid, "-", n), time.Now()}
					return database.Unscoped(tx.Handle).Exec(sql, args...).Error
				}
			}
			for n := range 20 {
				failures <- db.InTx(t.Context(), insert(n))
				var found string
				failures <- database.Unscoped(db.Read(t.Context())).Raw("SELECT name FROM users WHERE uid = ?", fmt.Sprint(uid, "-", n)).Scan(&found).Error
			}
		})
	}
	all.Wait()
	close(failures)
	for err := range failures {
		require.NoError(t, err)
	}
	var n int
	require.NoError(t, database.Unscoped(dbs[0].Read(t.Context())).Raw("SELECT count(*) FROM users").Scan(&n).Error)
	require.Equal(t, 400, n)
}
