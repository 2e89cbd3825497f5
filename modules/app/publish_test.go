package app_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv/redistest"
)

// published are the events that a stream of Redis has, each as an event stream
// shows it.
func published(t *testing.T, r *redistest.Server, key string) []string {
	t.Helper()
	entries, err := r.Client.XRange(t.Context(), key, "-", "+").Result()
	require.NoError(t, err)
	events := make([]string, len(entries))
	for i, e := range entries {
		events[i] = fmt.Sprintf("id: %s\ndata: %s", e.Values["seq"], e.Values["data"])
	}
	return events
}

// streamed are the events that the run's own stream shows.
func (s *instance) streamed(resultID string) []string {
	s.t.Helper()
	a := s.send(s.key, "GET", "/v1/action/"+resultID+"/events", nil)
	require.Equal(s.t, 200, a.status)
	var events []string
	for part := range strings.SplitSeq(a.raw, "\n\n") {
		if strings.HasPrefix(part, "id:") {
			events = append(events, part)
		}
	}
	require.NotEmpty(s.t, events)
	return events
}

// arrives waits until Redis has the same events of a run as its stream.
func (s *instance) arrives(r *redistest.Server, resultID string) {
	s.t.Helper()
	want := s.streamed(resultID)
	require.Eventually(s.t, func() bool {
		n, err := r.Client.XLen(s.t.Context(), "portico:run:"+resultID).Result()
		return err == nil && n >= int64(len(want))
	}, time.Minute, 10*time.Millisecond)
	require.Equal(s.t, want, published(s.t.(*testing.T), r, "portico:run:"+resultID))
}

const weather = "from refly_tools.demo import Demo\nprint(Demo.get_weather(city='Rome', file_name_title='x')['status'])"

// What a run's stream shows is in Redis, byte for byte: in the run's stream and
// channel, and in the user's.
func TestEventsArePublished(t *testing.T) {
	t.Parallel()
	for _, d := range databasetest.Of(t) {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			r := redistest.Start(t, "")
			s := serve(t, databasetest.URL(t, d), "REDIS_URL="+r.URL(), "REDIS_STREAM_LIFE=2h")
			heard := r.Client.PSubscribe(t.Context(), "portico:*")
			defer heard.Close()
			_, err := heard.Receive(t.Context())
			require.NoError(t, err)
			o := s.run(map[string]any{"code": weather})
			require.Equal(t, "success\n", o.Stdout, o.Stderr)
			s.arrives(r, o.ResultID)
			events := s.streamed(o.ResultID)
			require.Contains(t, strings.Join(events, "\n"), `"event":"tool_call_end"`)

			run := "portico:run:" + o.ResultID
			var user string
			for range 2 * len(events) {
				m, err := heard.ReceiveMessage(t.Context())
				require.NoError(t, err)
				if strings.HasPrefix(m.Channel, "portico:user:") {
					user = m.Channel
					continue
				}
				var got struct {
					Seq  int64
					Data json.RawMessage
				}
				require.NoError(t, json.Unmarshal([]byte(m.Payload), &got))
				require.Equal(t, run, m.Channel)
				require.Equal(t, events[0], fmt.Sprintf("id: %d\ndata: %s", got.Seq, got.Data))
				events = events[1:]
			}
			require.Empty(t, events)
			require.Equal(t, s.streamed(o.ResultID), published(t, r, user))
			for _, key := range []string{run, run + ":seen", user} {
				life, err := r.Client.TTL(t.Context(), key).Result()
				require.NoError(t, err)
				require.Greater(t, life, time.Hour, key)
				require.LessOrEqual(t, life, 2*time.Hour, key)
			}
			require.Contains(t, s.send("", "GET", "/readyz?verbose", nil).raw, `"redis":{"status":"ok","waiting":0,"lagSeconds":0,"published":`)
			require.NotContains(t, s.send("", "GET", "/metrics", nil).raw, "portico_redis_published_total 0\n")
		})
	}
}

// A Redis that is away costs no call anything; when it comes back, with nothing
// in it, it gets everything.
func TestRedisMayBeAway(t *testing.T) {
	t.Parallel()
	for _, d := range databasetest.Of(t) {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			r := redistest.Start(t, "")
			s := serve(t, databasetest.URL(t, d), "REDIS_URL="+r.URL())
			first := s.run(map[string]any{"code": weather + "\nprint('before')"})
			s.arrives(r, first.ResultID)
			r.Kill()
			second := s.run(map[string]any{"code": weather})
			require.Equal(t, "success\n", second.Stdout)
			require.Eventually(t, func() bool {
				a := s.send("", "GET", "/readyz?verbose", nil)
				return a.status == 200 && strings.Contains(a.raw, `"redis":{"status":"away","waiting":1`)
			}, time.Minute, 10*time.Millisecond)
			r.Restart()
			s.arrives(r, second.ResultID)
			require.Eventually(t, func() bool { return strings.Contains(s.log.String(), "events are published again") }, time.Minute, 10*time.Millisecond)
		})
	}
}

// A Redis that does not answer keeps no call waiting.
func TestRedisMayBeSlow(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t, "")
	s := serve(t, databasetest.URL(t, database.SQLite), "REDIS_URL="+r.URL())
	warm := s.run(map[string]any{"code": weather})
	s.arrives(r, warm.ResultID)
	require.NoError(t, r.Client.Do(t.Context(), "CLIENT", "PAUSE", 60_000, "WRITE").Err())
	var ids []string
	for range 3 {
		o := s.run(map[string]any{"code": weather})
		require.Equal(t, "success\n", o.Stdout)
		ids = append(ids, o.ResultID)
	}
	// The pause is not over: nothing of them is there.
	for _, id := range ids {
		n, err := r.Client.XLen(t.Context(), "portico:run:"+id).Result()
		require.NoError(t, err)
		require.Zero(t, n)
	}
	require.NoError(t, r.Client.Do(t.Context(), "CLIENT", "UNPAUSE").Err())
	for _, id := range ids {
		s.arrives(r, id)
	}
}

// Several processes publish what they write, each event once and in order.
func TestSeveralProcessesPublish(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t, "")
	url := databasetest.URL(t, database.Postgres)
	one, two := serve(t, url, "REDIS_URL="+r.URL()), serve(t, url, "REDIS_URL="+r.URL())
	two.key = one.key
	made := make(chan string)
	for _, s := range []*instance{one, two} {
		go func() {
			for range 3 {
				made <- s.run(map[string]any{"code": weather}).ResultID
			}
		}()
	}
	for range 6 {
		one.arrives(r, <-made)
	}
	keys, err := r.Client.Keys(t.Context(), "portico:user:*").Result()
	require.NoError(t, err)
	require.Len(t, keys, 1)
	seen := map[string]bool{}
	for _, e := range published(t, r, keys[0]) {
		var data struct{ ResultID string }
		_, text, _ := strings.Cut(e, "data: ")
		require.NoError(t, json.Unmarshal([]byte(text), &data))
		id := data.ResultID + strings.Split(e, "\n")[0]
		require.False(t, seen[id], id)
		seen[id] = true
	}

	// What a process could not publish, the next one does.
	r.Kill()
	left := one.run(map[string]any{"code": weather}).ResultID
	one.stop()
	two.stop()
	r.Restart()
	three := serve(t, url, "REDIS_URL="+r.URL())
	three.key = one.key
	three.arrives(r, left)
}

// The password of Redis is in no log and no answer.
func TestPasswordOfRedisIsNotTold(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t, "right-password-1")
	url := databasetest.URL(t, database.SQLite)
	s := serve(t, url, "REDIS_URL=redis://:wrong-password-2@"+r.Address+"/0")
	o := s.run(map[string]any{"code": weather})
	require.Equal(t, "success\n", o.Stdout)
	require.Eventually(t, func() bool { return strings.Contains(s.log.String(), "events are published late") }, time.Minute, 10*time.Millisecond)
	require.NotContains(t, s.log.String(), "wrong-password-2")
	require.NotContains(t, s.send("", "GET", "/readyz?verbose", nil).raw, "wrong-password-2")
	s.stop()
	right := serve(t, url, "REDIS_URL=redis://:right-password-1@"+r.Address+"/0")
	right.key = s.key
	right.arrives(r, o.ResultID)
}

// The consumer of docs/dashboards.md prints every event of a user once.
func TestTheConsumerOfTheDocumentWorks(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t, "")
	s := serve(t, databasetest.URL(t, database.SQLite), "REDIS_URL="+r.URL())
	first := s.run(map[string]any{"code": weather})
	s.arrives(r, first.ResultID)
	users, err := r.Client.Keys(t.Context(), "portico:user:*").Result()
	require.NoError(t, err)
	require.Len(t, users, 1)

	document, err := os.ReadFile("../../docs/dashboards.md")
	require.NoError(t, err)
	_, program, _ := strings.Cut(string(document), "```python consumer.py\n")
	program, _, _ = strings.Cut(program, "```")
	python := filepath.Join(filepath.Dir(os.Getenv("PORTICO_REDIS_SERVER")), "python/bin/python")
	consumer := exec.CommandContext(t.Context(), python, "-c", program, strings.TrimPrefix(users[0], "portico:user:"))
	consumer.Env = append(os.Environ(), "REDIS_URL="+r.URL())
	var out, errs buffer
	consumer.Stdout, consumer.Stderr = &out, &errs
	require.NoError(t, consumer.Start())
	defer func() {
		_ = consumer.Process.Kill()
		_ = consumer.Wait()
	}()
	second := s.run(map[string]any{"code": weather})
	var want strings.Builder
	for _, id := range []string{first.ResultID, second.ResultID} {
		for i, e := range s.streamed(id) {
			_, data, _ := strings.Cut(e, "data: ")
			var event struct{ Event string }
			require.NoError(t, json.Unmarshal([]byte(data), &event))
			fmt.Fprintln(&want, id, i+1, event.Event)
		}
	}
	require.Eventually(t, func() bool { return out.String() == want.String() }, time.Minute, 10*time.Millisecond, "%s%s", &out, &errs)
}
