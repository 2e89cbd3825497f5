package publish_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/portico-run/portico/internal/sse"
	"github.com/portico-run/portico/internal/testenv/redistest"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/publish"
)

// runs are runs of one user, each with a number of events.
type runs struct {
	mu     sync.Mutex
	seq    map[string]int64
	broken string // the run whose events cannot be read
}

func (r *runs) write(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seq[id]++
}

func (r *runs) Versions(_ context.Context, ids []string) ([]run.Run, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []run.Run
	for _, id := range ids {
		if r.seq[id] > 0 {
			out = append(out, run.Run{UID: "u-1", ResultID: id, Seq: r.seq[id], Status: run.Running})
		}
	}
	return out, nil
}

func (r *runs) Changed(_ context.Context, _ time.Time, limit int) ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ids []string
	for id := range r.seq {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids[:min(limit, len(ids))], nil
}

func (r *runs) Rendered(_ context.Context, of run.Run, after int64) ([]sse.Event, error) {
	if of.ResultID == r.broken {
		return nil, fmt.Errorf("the payload of %s is not JSON", of.ResultID)
	}
	var out []sse.Event
	for n := after + 1; n <= min(of.Seq, after+16); n++ {
		out = append(out, sse.Event{ID: n, Data: fmt.Appendf(nil, `{"n":%d}`, n)})
	}
	return out, nil
}

func start(t *testing.T, of *runs, s publish.Settings) *publish.Publisher {
	t.Helper()
	s.Length, s.Life = 1000, time.Hour
	p, err := publish.New(publish.Deps{Runs: of, Events: of, Settings: s, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, p.Stop(context.WithoutCancel(t.Context()))) })
	return p
}

// whole waits until a run's stream has so many events, and sees that each is
// there once and in order.
func whole(t *testing.T, r *redistest.Server, id string, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return r.Client.XLen(t.Context(), "portico:run:"+id).Val() >= int64(n) }, time.Minute, 5*time.Millisecond, id)
	entries := r.Client.XRange(t.Context(), "portico:run:"+id, "-", "+").Val()
	require.Len(t, entries, n)
	for i, e := range entries {
		require.Equal(t, fmt.Sprint(i+1), e.Values["seq"])
		require.Equal(t, id, e.Values["resultId"])
		require.Equal(t, "u-1", e.Values["uid"])
		require.Equal(t, fmt.Sprintf(`{"n":%d}`, i+1), e.Values["data"])
	}
}

func TestLongRunsArePublishedInPieces(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t, "")
	of := &runs{seq: map[string]int64{"ar-1": 100}}
	p := start(t, of, publish.Settings{URL: r.URL()})
	p.Wrote("ar-1")
	whole(t, r, "ar-1", 100)
	of.write("ar-1")
	p.Wrote("ar-1")
	whole(t, r, "ar-1", 101)
	require.Eventually(t, func() bool { return p.Stats().Published == 101 }, time.Minute, time.Millisecond)
}

// A Redis that starts anew with nothing in it gets a run that goes on from its
// first event.
func TestWhatRedisLostIsPublishedAgain(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t, "")
	of := &runs{seq: map[string]int64{"ar-1": 40}}
	p := start(t, of, publish.Settings{URL: r.URL()})
	p.Wrote("ar-1")
	whole(t, r, "ar-1", 40)
	r.Restart()
	of.write("ar-1")
	p.Wrote("ar-1")
	whole(t, r, "ar-1", 41)
}

// More runs than are kept in mind are found in the database when there is room
// again; what is too old by then is counted.
func TestMoreRunsThanAreKeptInMind(t *testing.T) {
	t.Parallel()
	for name, passes := range map[string]time.Duration{"in time": 0, "too late": 2 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := redistest.Start(t, "")
			of := &runs{seq: map[string]int64{}}
			var later atomic.Int64
			s := publish.Settings{URL: r.URL(), MaxWaiting: 4, CatchUp: time.Hour, Length: 1000, Life: time.Hour}
			p, err := publish.New(publish.Deps{
				Runs: of, Events: of, Settings: s, Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return time.Now().Add(time.Duration(later.Load())) },
			})
			require.NoError(t, err)
			require.NoError(t, p.Start(t.Context()))
			defer func() { require.NoError(t, p.Stop(t.Context())) }()
			of.write("ar-first")
			p.Wrote("ar-first")
			whole(t, r, "ar-first", 1)
			r.Kill()
			for i := range 6 {
				of.write(fmt.Sprintf("ar-%d", i))
			}
			// Runs are taken out for a moment while they are tried.
			require.Eventually(t, func() bool {
				for i := range 5 {
					p.Wrote(fmt.Sprintf("ar-%d", i))
				}
				return p.Stats().Away && p.Stats().Waiting == 4
			}, time.Minute, time.Millisecond)
			p.Wrote("ar-5")
			later.Store(int64(passes))
			r.Restart()
			if passes == 0 {
				for i := range 6 {
					whole(t, r, fmt.Sprintf("ar-%d", i), 1)
				}
				require.Zero(t, p.Stats().Dropped)
				return
			}
			require.Eventually(t, func() bool { return p.Stats().Dropped > 0 && p.Stats().Waiting == 0 }, time.Minute, time.Millisecond)
		})
	}
}

// A run whose events cannot be read keeps no other one waiting, and is given up.
func TestARunThatCannotBeReadIsGivenUp(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t, "")
	of := &runs{seq: map[string]int64{"ar-1": 1, "ar-2": 1}, broken: "ar-1"}
	p := start(t, of, publish.Settings{URL: r.URL()})
	p.Wrote("ar-1")
	p.Wrote("ar-2")
	whole(t, r, "ar-2", 1)
	require.Eventually(t, func() bool { return p.Stats().Dropped == 1 && p.Stats().Waiting == 0 }, time.Minute, time.Millisecond)
}

// Telling it of a write waits for nothing, whatever Redis does.
func TestTellingWaitsForNothing(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t, "")
	of := &runs{seq: map[string]int64{"ar-1": 1}}
	p := start(t, of, publish.Settings{URL: r.URL()})
	require.NoError(t, r.Client.Do(t.Context(), "CLIENT", "PAUSE", 60_000, "WRITE").Err())
	begin := time.Now()
	for range 100_000 {
		p.Wrote("ar-1")
	}
	require.Less(t, time.Since(begin), 30*time.Second, "Redis pauses for a minute")
	require.NoError(t, r.Client.Do(t.Context(), "CLIENT", "UNPAUSE").Err())
	whole(t, r, "ar-1", 1)
}

func TestStopLeavesNothingBehind(t *testing.T) { //nolint:paralleltest // it counts goroutines
	r := redistest.Start(t, "")
	of := &runs{seq: map[string]int64{"ar-1": 1}}
	require.NoError(t, r.Client.Close())
	ignore := goleak.IgnoreCurrent()
	p, err := publish.New(publish.Deps{Runs: of, Events: of, Settings: publish.Settings{URL: r.URL(), Length: 1, Life: time.Hour}, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	p.Wrote("ar-1")
	require.NoError(t, p.Stop(t.Context()))
	require.EqualValues(t, 1, p.Stats().Published, "what waits is published at the end")
	goleak.VerifyNone(t, ignore)
}
