package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/portico-run/portico/dev/demo"
	"github.com/portico-run/portico/dev/instance"
	"github.com/portico-run/portico/internal/testenv"
)

// books are what a store holds after calls.
type books struct{ calls, completed, usages, events, last, charged int }

func read(t *testing.T, db *sql.DB) (b books) {
	t.Helper()
	err := db.QueryRowContext(t.Context(), `SELECT (SELECT count(*) FROM calls WHERE tool_name = 'list_cities'),
		(SELECT count(*) FROM calls WHERE status = 'completed' AND output LIKE '%cities%'), (SELECT count(*) FROM usages), (SELECT count(*) FROM events),
		(SELECT CAST(sum(event_seq) AS integer) FROM runs), (SELECT CAST(sum(1000000 - balance) AS integer) FROM users)`).
		Scan(&b.calls, &b.completed, &b.usages, &b.events, &b.last, &b.charged)
	require.NoError(t, err)
	return b
}

// Without the same books a floor would be no measure.
func TestFloorLeavesRecordEventsUsageAndBalance(t *testing.T) {
	t.Parallel()
	const runs, each = 3, 20
	upstream := httptest.NewServer(demo.Handler())
	t.Cleanup(upstream.Close)
	check := func(t *testing.T, s store, db func() *sql.DB) {
		f := newFloor(s, upstream.URL)
		var callers []instance.Caller
		for n := range runs {
			callers = append(callers, instance.Caller{Key: fmt.Sprintf("k%d", n), Run: fmt.Sprintf("r%d", n), Program: fmt.Sprintf("p%d", n)})
		}
		url, end, err := f.serve(t.Context(), callers)
		require.NoError(t, err)
		var all sync.WaitGroup
		c := client()
		for n := range runs * each {
			all.Go(func() {
				if err := call(context.WithoutCancel(t.Context()), c, url, callers[n%runs]); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		const n = runs * each
		require.Equal(t, books{calls: n, completed: n, usages: n, events: 2 * n, last: 2 * n, charged: n}, read(t, db()))
		foreign := instance.Caller{Key: "k0", Run: "r1", Program: "p1"}
		require.Error(t, call(t.Context(), c, url, foreign), "a program of another user's")
		require.NoError(t, end())
	}
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		s, err := openSQLiteStore(t.Context(), filepath.Join(t.TempDir(), "floor.db"))
		require.NoError(t, err)
		check(t, s, func() *sql.DB { return s.db })
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		testenv.Need(t, "PORTICO_TEST_POSTGRES_URL", "tools/postgres.sh start")
		s, err := openPostgresStore(t.Context(), 8)
		require.NoError(t, err)
		check(t, s, func() *sql.DB {
			db, err := sql.Open("pgx", s.pool.Config().ConnString())
			require.NoError(t, err)
			t.Cleanup(func() { _ = db.Close() })
			return db
		})
	})
}

func TestRatiosAreThoseOfTheSameRound(t *testing.T) {
	t.Parallel()
	ours, theirs := series{100, 50, 80}, series{200, 100, 100}
	row := compared("x", ours, theirs, 0.6)
	require.Equal(t, "0.50 (0.50–0.80)", row.ratio)
	require.False(t, row.holds)
	require.Equal(t, "80/s ±31 %", row.measured)
	require.InDelta(t, 0.5, row.noise, 0.001)
}
