package bound_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/run/bound"
	"github.com/portico-run/portico/modules/run/node/nodetest"
)

// clock is the time of a test, which passes when the test says so.
type clock struct{ passed atomic.Int64 }

func (c *clock) pass(d time.Duration) { c.passed.Add(int64(d)) }

// processes are limiters of processes that share a database.
type processes struct {
	t     *testing.T
	db    *database.DB
	clock clock
	start time.Time
	count atomic.Int64
	all   []*bound.Limiter
}

func (p *processes) now() time.Time { return p.start.Add(time.Duration(p.clock.passed.Load())) }

func several(t *testing.T, db *database.DB, n int) *processes {
	t.Helper()
	p := &processes{t: t, db: db, start: db.Now()}
	p.count.Store(int64(n))
	for i := range n {
		id := fmt.Sprint("proc-", i)
		nodetest.Live(t, db, id, db.Now().Add(time.Hour))
		l := bound.New(bound.Deps{
			DB: db, Self: id, Processes: func() int { return int(p.count.Load()) }, Now: p.now, Logger: slog.New(slog.DiscardHandler),
		})
		require.NoError(t, l.Start(t.Context()))
		t.Cleanup(func() { require.NoError(t, l.Stop(context.Background())) })
		p.all = append(p.all, l)
	}
	return p
}

func limit(b bound.Bound) []bound.Limit {
	return []bound.Limit{{UID: "u-anna", Name: "user", ID: "", Bound: b}}
}

// enter counts as many in as may.
func (p *processes) enter(l *bound.Limiter, tries int, b bound.Bound) (in []*bound.Visit) {
	p.t.Helper()
	for range tries {
		v, err := l.Enter(p.t.Context(), limit(b))
		if err == nil {
			in = append(in, v)
			continue
		}
		over := &bound.Over{}
		require.ErrorAs(p.t, err, &over)
		require.Positive(p.t, over.After+1)
	}
	return in
}

func leave(in []*bound.Visit) {
	for _, v := range in {
		v.Leave()
	}
}

// Three processes that are all asked for three times the bound let it through, and at
// most an eighth more; what was too much is let in where others have left.
func TestAllProcessesTogetherKeepABound(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := several(t, db, 3)
		const most = 96
		b := bound.Bound{AtOnce: most}
		var in [][]*bound.Visit
		var working sync.WaitGroup
		var mu sync.Mutex
		for _, l := range p.all {
			working.Go(func() {
				got := p.enter(l, most, b)
				mu.Lock()
				defer mu.Unlock()
				in = append(in, got)
			})
		}
		working.Wait()
		held := 0
		for _, visits := range in {
			held += len(visits)
		}
		require.LessOrEqual(t, held, most+most/8)
		require.GreaterOrEqual(t, held, most-most/8)
		for _, visits := range in {
			leave(visits)
		}
		for _, l := range p.all { // what is not used any more is given back
			require.Eventually(t, func() bool {
				p.clock.pass(time.Second)
				got := p.enter(l, most, b)
				leave(got)
				return len(got) == most
			}, 20*time.Second, 10*time.Millisecond)
		}
	})
}

// One process that is used alone gets all of a bound, and no more; who is below a
// sixteenth of it never asks the database.
func TestOneProcessGetsAllOfABound(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := several(t, db, 3)
		b := bound.Bound{AtOnce: 128, PerSecond: 500}
		count := func() (n int) {
			require.NoError(t, database.Unscoped(db.Read(t.Context())).Raw("SELECT count(*) FROM bounds").Scan(&n).Error)
			return n
		}
		leave(p.enter(p.all[0], 2, b))
		p.all[0].Round(t.Context())
		require.Zero(t, count(), "it uses little")
		in := p.enter(p.all[0], 200, b)
		require.Len(t, in, 128)
		require.Equal(t, 1, count())
		places, _ := p.all[0].Borrowed(limit(b)[0])
		require.LessOrEqual(t, places, 128)
		leave(in)
	})
}

// What begins in a second is bounded over all processes as well: by what may begin at
// once, and by what comes with time.
func TestAllProcessesTogetherKeepARate(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := several(t, db, 3)
		const rate = 48
		b := bound.Bound{PerSecond: rate}
		begun := 0
		for second := range 5 {
			for i := range 3 * 3 * rate {
				in := p.enter(p.all[i%3], 1, b)
				begun += len(in)
				leave(in)
				if i == 0 && second > 0 {
					require.Len(t, in, 1, "there is more every second")
				}
			}
			p.clock.pass(time.Second)
		}
		const fair = 2*rate + 4*rate // what one process would have let through
		require.LessOrEqual(t, begun, fair+fair/8+3)
		require.GreaterOrEqual(t, begun, fair-rate/2)

		// One alone: its whole rate.
		p.clock.pass(time.Minute)
		require.GreaterOrEqual(t, len(p.enter(p.all[2], 4*rate, b)), 2*rate-rate/2)
	})
}

// A process that is alone asks nobody, and says exactly when there is more.
func TestOneProcessAloneCountsByItself(t *testing.T) {
	t.Parallel()
	var c clock
	start := time.Now()
	l := bound.New(bound.Deps{Now: func() time.Time { return start.Add(time.Duration(c.passed.Load())) }})
	b := bound.Bound{AtOnce: 3, PerSecond: 2}
	enter := func() (*bound.Visit, error) { return l.Enter(t.Context(), limit(b)) }
	for range 3 {
		_, err := enter()
		require.NoError(t, err)
	}
	_, err := enter()
	over, is := errors.AsType[*bound.Over](err)
	require.True(t, is, "%v", err)
	require.False(t, over.Rate)
	b.AtOnce = 0
	_, err = enter()
	require.NoError(t, err)
	_, err = enter()
	over, is = errors.AsType[*bound.Over](err)
	require.True(t, is, "%v", err)
	require.True(t, over.Rate)
	require.InDelta(t, 0.5, over.After.Seconds(), 0.01)
}

// What a process had that is gone, others get.
func TestPlacesOfAProcessThatIsGone(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := several(t, db, 2)
		b := bound.Bound{AtOnce: 32}
		require.Len(t, p.enter(p.all[0], 50, b), 32)
		require.LessOrEqual(t, len(p.enter(p.all[1], 50, b)), 32/8)
		nodetest.Live(t, db, "proc-0", db.Now().Add(-time.Hour))
		require.Eventually(t, func() bool {
			p.clock.pass(time.Second)
			p.enter(p.all[1], 50, b)
			return p.all[1].Active(limit(b)[0]) == 32
		}, 20*time.Second, 10*time.Millisecond)
	})
}

// Who needs more than a process has for itself is refused, loudly, where it cannot be
// counted; who does not is not.
func TestWithoutItsTableNothingMoreIsLetIn(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.SQLite, nil)
	p := several(t, db, 2)
	require.NoError(t, db.InTx(t.Context(), func(tx database.Tx) error {
		return database.Unscoped(tx.Handle).Exec("ALTER TABLE bounds RENAME TO away").Error
	}))
	b := bound.Bound{AtOnce: 64}
	for range 4 {
		_, err := p.all[0].Enter(t.Context(), limit(b))
		require.NoError(t, err)
	}
	_, err := p.all[0].Enter(t.Context(), limit(b))
	require.Equal(t, errs.Unavailable, errs.CodeOf(err))
	ctx, leave := context.WithCancel(t.Context())
	leave()
	_, err = p.all[0].Enter(ctx, limit(b))
	require.Error(t, err)
}

// A process that reckons with a moment that has passed does not let time count twice.
func TestNoTimeCountsTwice(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := several(t, db, 2)
		var late atomic.Int64
		behind := bound.New(bound.Deps{
			DB: db, Self: "proc-9", Processes: func() int { return 2 }, Now: func() time.Time { return p.now().Add(-time.Duration(late.Load())) }, Logger: slog.New(slog.DiscardHandler),
		})
		require.NoError(t, behind.Start(t.Context()))
		t.Cleanup(func() { require.NoError(t, behind.Stop(context.Background())) })
		b := bound.Bound{PerSecond: 32}
		p.enter(p.all[0], 200, b)
		late.Store(int64(time.Hour))
		begun := len(p.enter(behind, 8, b)) // its own part, and nothing more
		p.clock.pass(100 * time.Millisecond)
		begun += len(p.enter(p.all[0], 200, b))
		require.LessOrEqual(t, begun, 12)
	})
}
