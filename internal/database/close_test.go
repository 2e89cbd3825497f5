package database_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
)

// A statement is prepared in the context of whoever needed it first, and that leads to
// all of a server. A database that is closed holds none.
func TestAClosedDatabaseHoldsNoContext(t *testing.T) {
	t.Parallel()
	for _, d := range databasetest.Both() {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			db := databasetest.OpenURL(t, databasetest.URL(t, d), nil)
			var gone atomic.Bool
			func() {
				type key struct{}
				server := &[1 << 10]byte{}
				runtime.AddCleanup(server, func(gone *atomic.Bool) { gone.Store(true) }, &gone)
				ctx := context.WithValue(t.Context(), key{}, server)
				require.NoError(t, db.InTx(ctx, func(tx database.Tx) error {
					var n int
					return database.Unscoped(tx.Handle).Raw("SELECT count(*) FROM users").Scan(&n).Error
				}))
			}()
			require.NoError(t, db.Close())
			require.Eventually(t, func() bool {
				runtime.GC()
				return gone.Load()
			}, time.Minute, 10*time.Millisecond)
		})
	}
}
