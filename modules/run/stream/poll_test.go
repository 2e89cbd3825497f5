package stream_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/sse"
	"github.com/portico-run/portico/internal/wake"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/run/stream"
)

// asked counts what a process asks of its runs.
type asked struct {
	stream.Runs

	events, progress atomic.Int64
	runs             atomic.Int64 // in the newest question
}

func (a *asked) Events(ctx context.Context, by actor.Actor, f run.EventFilter) ([]run.Event, error) {
	a.events.Add(1)
	return a.Runs.Events(ctx, by, f)
}

func (a *asked) Progress(ctx context.Context, runs []run.Ref) (map[run.Ref]int64, error) {
	a.runs.Store(int64(len(runs)))
	a.progress.Add(1)
	return a.Runs.Progress(ctx, runs)
}

// Streams on which nothing happens cost one question a poll, however many they
// are, and none once they are gone.
func TestIdleStreamsAreAskedForTogether(t *testing.T) {
	t.Parallel()
	const streams, polls = 20, 5
	each(t, func(t *testing.T, d database.Dialect) {
		p := newPod(t, d, never, sse.Server{})
		count := &asked{Runs: p.runs}
		m := stream.New(stream.Deps{Runs: count, Calls: record.New(record.Deps{DB: p.db, Runs: p.runs}).Service, Hub: &wake.Hub{}, Poll: 20 * time.Millisecond, SSE: sse.Server{Heartbeat: never}})
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = m.Service.Watch(w, r, anna, stream.From{ResultID: r.URL.Path[1:]}) // it ends when the client leaves
		}))
		defer s.Close()
		var open []*http.Response
		var one run.Run
		for range streams {
			one = p.create(t)
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/"+one.ResultID, nil)
			require.NoError(t, err)
			answer, err := s.Client().Do(r)
			require.NoError(t, err)
			defer answer.Body.Close()
			open = append(open, answer)
		}
		eventually(t, func() bool { return count.runs.Load() == streams && count.events.Load() == streams })
		before := count.progress.Load()
		eventually(t, func() bool { return count.progress.Load() >= before+polls })
		require.EqualValues(t, streams, count.events.Load(), "a stream asked for events while nothing happened")
		// Its wake-up goes to another hub.
		require.NoError(t, p.log(t.Context(), one, "news"))
		eventually(t, func() bool { return count.events.Load() == streams+1 })

		for _, answer := range open {
			require.NoError(t, answer.Body.Close())
		}
		require.NoError(t, m.Stop(t.Context()))
		after := count.progress.Load()
		require.Never(t, func() bool { return count.progress.Load() > after }, 100*time.Millisecond, 10*time.Millisecond)
	})
}

// Operators see how late events reach streams, and that wake-ups are lost. What a
// stream begins with says nothing of either.
func TestLostWakeUpsAreCounted(t *testing.T) {
	t.Parallel()
	type news struct {
		written time.Time
		found   bool
	}
	each(t, func(t *testing.T, d database.Dialect) {
		p := newPod(t, d, never, sse.Server{})
		if d == database.Postgres {
			listen(t, p)
		}
		watch := func(hub *wake.Hub, poll time.Duration) (run.Run, chan news) {
			told := make(chan news, 100)
			m := stream.New(stream.Deps{
				Runs: p.runs, Calls: record.New(record.Deps{DB: p.db, Runs: p.runs}).Service, Hub: hub, Poll: poll,
				Woken: func(written time.Time, found bool) { told <- news{written, found} },
			})
			r := p.create(t)
			require.NoError(t, p.log(t.Context(), r, "old"))
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				_ = m.Service.Watch(w, req, anna, stream.From{ResultID: r.ResultID}) // it ends when the client leaves
			}))
			t.Cleanup(s.Close)
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
			require.NoError(t, err)
			answer, err := s.Client().Do(request)
			require.NoError(t, err)
			t.Cleanup(func() { _ = answer.Body.Close() })
			f := framesOf(answer.Body)
			for range 2 { // its beginning and the old one
				_, err = f.next()
				require.NoError(t, err)
			}
			require.Empty(t, told)
			return r, told
		}
		write := func(r run.Run, told chan news) news {
			require.NoError(t, p.log(t.Context(), r, "news"))
			select {
			case n := <-told:
				require.WithinDuration(t, time.Now(), n.written, time.Minute)
				return n
			case <-time.After(time.Minute):
				t.Fatal("nobody is told")
				return news{}
			}
		}
		r, told := watch(p.hub, never)
		require.False(t, write(r, told).found)
		r, told = watch(&wake.Hub{}, 20*time.Millisecond) // wake-ups go to another hub
		require.True(t, write(r, told).found)
		require.True(t, write(r, told).found)
	})
}

// A user's runs are not found with another's name.
func TestProgressIsOfTheUserWhoIsNamed(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d database.Dialect) {
		p := newPod(t, d, never, sse.Server{})
		r := p.create(t)
		foreign := r.Ref()
		foreign.UID = ben.UID
		got, err := p.runs.Progress(t.Context(), []run.Ref{foreign, r.Ref()})
		require.NoError(t, err)
		require.Equal(t, map[run.Ref]int64{r.Ref(): r.Seq}, got)
	})
}

func eventually(t *testing.T, done func() bool) {
	t.Helper()
	require.Eventually(t, done, time.Minute, time.Millisecond)
}

func each(t *testing.T, test func(t *testing.T, d database.Dialect)) {
	t.Helper()
	for _, d := range databasetest.Of(t) {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			test(t, d)
		})
	}
}
