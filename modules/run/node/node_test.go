package node_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/modules/run/node"
)

// lease is longer than any test: only what tests write into the table ends one.
const lease = time.Hour

// process is a node with what was asked of it.
type process struct {
	*node.Service

	lost, drained atomic.Int32
}

func start(t *testing.T, db *database.DB, id string) *process {
	t.Helper()
	p := &process{}
	p.Service = node.New(node.Deps{
		DB: db, Self: node.Node{ID: id, Address: id + ":5802", Version: "1", Role: "all"}, Lease: lease,
		Load:     func() node.Load { return node.Load{Capacity: 4, Running: 1, Queued: 2, MaxPaused: 5, Paused: 3} },
		Draining: func() bool { return p.drained.Load() > 0 },
		Lost:     func(context.Context) error { p.lost.Add(1); return nil },
		Drain:    func() { p.drained.Add(1) },
		Logger:   slog.New(slog.DiscardHandler),
	})
	require.NoError(t, p.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, p.Stop(context.WithoutCancel(t.Context()))) })
	return p
}

func exec(t *testing.T, db *database.DB, sql string, args ...any) {
	t.Helper()
	require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error { return database.Unscoped(tx.Handle).Exec(sql, args...).Error }))
}

func ids(t *testing.T, p *process) (ids []string) {
	t.Helper()
	nodes, err := p.Live(t.Context())
	require.NoError(t, err)
	for _, n := range nodes {
		ids = append(ids, n.ID)
	}
	return ids
}

func TestProcessesKnowEachOther(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		a, b := start(t, db, "proc-a"), start(t, db, "proc-b")
		require.Equal(t, "proc-a", a.ID())
		require.Equal(t, []string{"proc-a", "proc-b"}, ids(t, b))
		require.Equal(t, 2, b.Count())
		require.Equal(t, 1, a.Count(), "it hears of the other one when it looks, or with its next sign of life")
		a.Look()
		require.Eventually(t, func() bool { return a.Count() == 2 }, time.Minute, time.Millisecond)
		got, err := a.Get(t.Context(), "proc-b")
		require.NoError(t, err)
		require.WithinDuration(t, db.Now(), got.StartedAt, time.Minute)
		require.WithinDuration(t, db.Now().Add(lease), got.ExpiresAt, time.Minute)
		got.StartedAt, got.ExpiresAt = time.Time{}, time.Time{}
		require.Equal(t, node.Node{
			ID: "proc-b", Address: "proc-b:5802", Version: "1", Role: "all", Load: node.Load{Capacity: 4, Running: 1, Queued: 2, MaxPaused: 5, Paused: 3},
		}, got)
		_, err = a.Get(t.Context(), "proc-c")
		require.ErrorIs(t, err, node.ErrGone)

		require.NoError(t, b.Stop(t.Context()))
		require.NoError(t, b.Stop(t.Context()), "stopped twice")
		require.Equal(t, []string{"proc-a"}, ids(t, a), "who stops is gone at once")
	})
}

// One that gives no sign of life is gone when its lease is over, and forgotten later.
func TestASilentProcessIsGone(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		a := start(t, db, "proc-a")
		silent := func(since time.Duration) {
			exec(t, db, "DELETE FROM nodes WHERE node_id = 'silent'")
			exec(t, db, "INSERT INTO nodes (node_id, version, role, started_at, expires_at) VALUES ('silent', '1', 'all', ?, ?)", db.Now(), db.Now().Add(-since))
		}
		silent(-time.Minute)
		require.Contains(t, ids(t, a), "silent")
		silent(time.Second)
		_, err := a.Get(t.Context(), "silent")
		require.ErrorIs(t, err, node.ErrGone)
		require.Equal(t, []string{"proc-a"}, ids(t, a))
		require.ErrorIs(t, a.Ask(t.Context(), "silent"), node.ErrGone)

		count := func() (n int) {
			require.NoError(t, database.Unscoped(db.Read(t.Context())).Raw("SELECT count(*) FROM nodes WHERE node_id = 'silent'").Scan(&n).Error)
			return n
		}
		a.Beat(t.Context())
		require.Equal(t, 1, count(), "operators may look at it for a while")
		silent(2 * time.Hour)
		a.Beat(t.Context())
		require.Zero(t, count())
	})
}

// Who was too late ends its own work once, before it is among the others again.
func TestWhoIsTooLateEndsItsWork(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		a, b := start(t, db, "proc-a"), start(t, db, "proc-b")
		a.Beat(t.Context())
		require.Zero(t, a.lost.Load())
		exec(t, db, "UPDATE nodes SET expires_at = ? WHERE node_id = 'proc-a'", db.Now().Add(-time.Second))
		require.Equal(t, []string{"proc-b"}, ids(t, b))
		a.Beat(t.Context())
		require.EqualValues(t, 1, a.lost.Load())
		require.ElementsMatch(t, []string{"proc-a", "proc-b"}, ids(t, b))
		a.Beat(t.Context())
		require.EqualValues(t, 1, a.lost.Load())
		require.Zero(t, b.lost.Load())
	})
}

// A process that cannot reach its database ends its work when its lease is over by its
// own clock, whatever the database would say.
func TestWhoCannotRenewEndsItsWork(t *testing.T) {
	t.Parallel()
	for _, d := range databasetest.Of(t) {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			var passed atomic.Int64
			address := databasetest.URL(t, d)
			db, err := database.Open(t.Context(), database.Config{
				URL: address, MaxConnections: 2, Wall: func() time.Time { return time.Now().Add(time.Duration(passed.Load())) },
			})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, db.Close()) })
			a := start(t, db, "proc-a")
			exec(t, db, "ALTER TABLE nodes RENAME TO away")
			t.Cleanup(func() {
				_ = db.InTx(context.Background(), func(tx database.Tx) error {
					return database.Unscoped(tx.Handle).Exec("ALTER TABLE away RENAME TO nodes").Error
				})
			})
			a.Beat(t.Context())
			require.Zero(t, a.lost.Load(), "there is time left")
			passed.Add(int64(lease))
			a.Beat(t.Context())
			a.Beat(t.Context())
			require.EqualValues(t, 1, a.lost.Load(), "once")
			exec(t, db, "ALTER TABLE away RENAME TO nodes")
			a.Beat(t.Context())
			require.Equal(t, []string{"proc-a"}, ids(t, a), "and begins anew when it can")
			require.EqualValues(t, 1, a.lost.Load())
		})
	}
}

func TestOneIsAskedToEnd(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		a, b := start(t, db, "proc-a"), start(t, db, "proc-b")
		require.NoError(t, b.Ask(t.Context(), "proc-a"))
		for range 2 {
			a.Beat(t.Context())
			require.EqualValues(t, 1, a.drained.Load(), "it hears of it once")
		}
		b.Beat(t.Context())
		require.Zero(t, b.drained.Load())
		got, err := b.Get(t.Context(), "proc-a")
		require.NoError(t, err)
		require.True(t, got.Asked)
		require.True(t, got.Draining)
	})
}

// The lease of a process is renewed in the background until it is stopped.
func TestALeaseIsRenewed(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		var lost atomic.Int32
		s := node.New(node.Deps{
			DB: db, Self: node.Node{ID: "proc-a", Version: "1", Role: "all"}, Lease: 3 * time.Second, // a beat a second
			Lost: func(context.Context) error { lost.Add(1); return nil }, Logger: slog.New(slog.DiscardHandler),
		})
		require.NoError(t, s.Stop(t.Context()), "stopped before it started")
		starting, started := context.WithCancel(t.Context())
		require.NoError(t, s.Start(starting))
		started()
		first, err := s.Get(t.Context(), "proc-a")
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			now, err := s.Get(t.Context(), "proc-a")
			return err == nil && now.ExpiresAt.After(first.ExpiresAt)
		}, time.Minute, 20*time.Millisecond)
		require.NoError(t, s.Stop(t.Context()))
		_, err = s.Get(t.Context(), "proc-a")
		require.ErrorIs(t, err, node.ErrGone)
	})
}
