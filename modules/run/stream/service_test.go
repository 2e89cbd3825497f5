package stream_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	r3 "github.com/r3labs/sse/v2"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/sse"
	"github.com/portico-run/portico/internal/wake"
)

// never is a poll interval that only a wake-up can beat.
const never = time.Hour

func TestShowsARunAsItHappens(t *testing.T) {
	t.Parallel()
	for _, d := range databasetest.Of(t) {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			p := newPod(t, d, never, sse.Server{})
			if d == database.Postgres {
				listen(t, p)
			}
			r := p.create(t)
			resp := p.watch(t, anna, r.ResultID, "", "")
			require.Equal(t, 200, resp.StatusCode)
			require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
			f := framesOf(resp.Body)
			for i, act := range []func() error{
				func() error { return nil },
				func() error { return p.call(t.Context(), r, 1) },
				func() error { return p.log(t.Context(), r, "hello") },
				func() error { return p.finish(t.Context(), r) },
			} {
				require.NoError(t, act())
				e, err := f.next()
				require.NoError(t, err)
				require.Equal(t, int64(i+1), e.id)
				require.Equal(t, []string{"start", "tool_call_end", "log", "end"}[i], e.data["event"])
				if i == 1 {
					require.Equal(t, true, e.data["ptc"])
					require.InDelta(t, 1, e.data["toolCallResult"].(map[string]any)["output"], 0)
				}
			}
			_, err := f.next()
			require.ErrorIs(t, err, io.EOF)
		})
	}
}

func listen(t *testing.T, p *pod) {
	t.Helper()
	l := wake.NewListener(p.db.URL(), database.Channel, p.hub, slog.New(slog.DiscardHandler))
	require.NoError(t, l.Start(t.Context()))
	t.Cleanup(func() { _ = l.Stop(context.WithoutCancel(t.Context())) })
}

// The tools run in one process and the stream is served by another one, which
// hears of them through PostgreSQL alone.
func TestAnotherProcessServesTheStream(t *testing.T) {
	t.Parallel()
	writer := newPod(t, database.Postgres, never, sse.Server{})
	server := openPod(t, writer.db.URL(), never, sse.Server{})
	listen(t, server)
	r := writer.create(t)
	f := framesOf(server.watch(t, anna, r.ResultID, "", "").Body)
	_, err := f.next()
	require.NoError(t, err)
	const count = 100
	delays := make([]time.Duration, count)
	for i := range count {
		require.NoError(t, writer.call(t.Context(), r, i))
		committed := time.Now()
		e, err := f.next()
		require.NoError(t, err)
		require.Equal(t, int64(i+2), e.id)
		delays[i] = time.Since(committed)
	}
	slices.Sort(delays)
	t.Logf("commit to bytes at the client: p50 %v, p99 %v", delays[count/2], delays[count*99/100])
	require.NoError(t, writer.finish(t.Context(), r))
	_, names := f.all(t)
	require.Equal(t, []string{"end"}, names)
}

func TestPollingFindsWhatNoWakeUpToldOf(t *testing.T) {
	t.Parallel()
	writer := newPod(t, database.Postgres, never, sse.Server{})
	server := openPod(t, writer.db.URL(), 20*time.Millisecond, sse.Server{}) // listens to nobody
	r := writer.create(t)
	f := framesOf(server.watch(t, anna, r.ResultID, "", "").Body)
	_, err := f.next()
	require.NoError(t, err)
	require.NoError(t, writer.finish(t.Context(), r))
	_, names := f.all(t)
	require.Equal(t, []string{"end"}, names)
}

// The library's client loses its connection five times while a program makes
// its calls, and comes back each time with the last number it has seen.
func TestResumesWithoutLossOrDuplicate(t *testing.T) {
	t.Parallel()
	for _, d := range databasetest.Of(t) {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			const count, cuts = 1000, 5
			p := newPod(t, d, 50*time.Millisecond, sse.Server{})
			r := p.create(t)
			var wg sync.WaitGroup
			wg.Go(func() {
				for i := range count {
					if err := p.call(t.Context(), r, i); err != nil {
						t.Error(err)
						return
					}
				}
				if err := p.finish(t.Context(), r); err != nil {
					t.Error(err)
				}
			})
			t.Cleanup(wg.Wait)
			var got []int64
			var last frame
			for connections := 0; last.data["event"] != "end"; connections++ {
				ctx, cut := context.WithCancel(t.Context())
				seen := 0
				client := r3.NewClient(p.url + "/v1/action/" + r.ResultID + "/events")
				client.Headers["X-Api-Key"] = anna.UID
				transport := &http.Transport{}
				client.Connection.Transport = transport
				if last.id > 0 {
					client.Headers["Last-Event-ID"] = strconv.FormatInt(last.id, 10)
				}
				err := client.SubscribeRawWithContext(ctx, func(e *r3.Event) {
					if ctx.Err() != nil || len(e.Data) == 0 { // cut already, or a heartbeat
						return
					}
					id, err := strconv.ParseInt(string(e.ID), 10, 64)
					require.NoError(t, err)
					last = frame{id: id}
					require.NoError(t, json.Unmarshal(e.Data, &last.data))
					got = append(got, last.id)
					if seen++; connections < cuts && seen == 1+count/(cuts+2) {
						cut()
					}
				})
				cut()
				transport.CloseIdleConnections()
				if err != nil && ctx.Err() == nil {
					t.Fatal(err)
				}
				require.Less(t, connections, cuts+5)
			}
			want := make([]int64, count+2)
			for i := range want {
				want[i] = int64(i + 1)
			}
			require.Empty(t, cmp.Diff(want, got))
		})
	}
}

func TestWhereAStreamBegins(t *testing.T) {
	t.Parallel()
	p := newPod(t, database.SQLite, never, sse.Server{})
	over, live := p.create(t), p.create(t)
	require.NoError(t, p.log(t.Context(), over, "x"))
	require.NoError(t, p.finish(t.Context(), over))
	for name, c := range map[string]struct {
		query, header string
		status        int
		ids           []int64
	}{
		"from the start":          {"", "", 200, []int64{1, 2, 3}},
		"zero":                    {"", "0", 200, []int64{1, 2, 3}},
		"header":                  {"", "1", 200, []int64{2, 3}},
		"query":                   {"?lastEventId=2", "", 200, []int64{3}},
		"header before query":     {"?lastEventId=2", "1", 200, []int64{2, 3}},
		"version":                 {"?version=0", "2", 200, []int64{3}},
		"everything seen":         {"", "3", 204, nil},
		"beyond the end":          {"", "99", 204, nil},
		"not a number":            {"", "x", 400, nil},
		"negative":                {"", "-1", 400, nil},
		"with a sign":             {"?lastEventId=%2B1", "", 400, nil},
		"a fraction":              {"?lastEventId=1.5", "", 400, nil},
		"too large for a number":  {"", "99999999999999999999", 400, nil},
		"version is not a number": {"?version=new", "", 400, nil},
		"negative version":        {"?version=-1", "", 400, nil},
		"no such version":         {"?version=1", "", 404, nil},
	} {
		resp := p.watch(t, anna, over.ResultID, c.query, c.header)
		require.Equal(t, c.status, resp.StatusCode, name)
		if c.status == 200 {
			got, _ := framesOf(resp.Body).all(t)
			require.Equal(t, c.ids, got, name)
		}
	}

	// Beyond the newest event of a live run, the stream begins with the next.
	f := framesOf(p.watch(t, anna, live.ResultID, "", "99").Body)
	require.NoError(t, p.finish(t.Context(), live))
	got, _ := f.all(t)
	require.Equal(t, []int64{2}, got)
}

func TestAnotherUsersRunIsAbsent(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPod(t, db.Dialect(), never, sse.Server{})
		r := p.create(t)
		body := func(who actor.Actor, id string) string {
			resp := p.watch(t, who, id, "", "")
			require.Equal(t, 404, resp.StatusCode)
			require.True(t, strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json"))
			b, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			var m map[string]any
			require.NoError(t, json.Unmarshal(b, &m))
			require.Equal(t, "E1011", m["errCode"])
			delete(m, "traceId")
			b, err = json.Marshal(m)
			require.NoError(t, err)
			return string(b)
		}
		require.Equal(t, body(ben, "ar-none"), body(ben, r.ResultID))
	})
}

func TestStoppingEndsTheStreams(t *testing.T) {
	t.Parallel()
	p := newPod(t, database.SQLite, never, sse.Server{})
	r := p.create(t)
	f := framesOf(p.watch(t, anna, r.ResultID, "", "").Body)
	_, err := f.next()
	require.NoError(t, err)
	require.NoError(t, p.module.Stop(t.Context()))
	_, err = f.next()
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, 503, p.watch(t, anna, r.ResultID, "", "").StatusCode)
	require.NoError(t, p.module.Stop(t.Context()))
}

// A client that leaves in the middle of a frame and one that never reads cost
// nobody else anything.
func TestManyClientsAndTwoBadOnes(t *testing.T) {
	t.Parallel()
	const clients, count = 200, 20
	p := newPod(t, database.SQLite, 500*time.Millisecond, sse.Server{WriteTimeout: 10 * time.Second})
	r := p.create(t)
	require.NoError(t, p.log(t.Context(), r, strings.Repeat("x", 64<<10)))

	bad := func() net.Conn {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(p.url, "http://"))
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4<<10))
		_, err = io.WriteString(conn, "GET /v1/action/"+r.ResultID+"/events HTTP/1.1\r\nHost: x\r\nX-Api-Key: "+anna.UID+"\r\n\r\n")
		require.NoError(t, err)
		return conn
	}
	bad() // never reads
	cut := bad()
	_, err := io.ReadFull(cut, make([]byte, 2<<10))
	require.NoError(t, err)
	require.NoError(t, cut.Close())

	var wg sync.WaitGroup
	for range clients {
		f := framesOf(p.watch(t, anna, r.ResultID, "", "2").Body)
		wg.Go(func() {
			for want := int64(3); ; want++ {
				e, err := f.next()
				if errors.Is(err, io.EOF) && want == count+4 {
					return
				}
				if err != nil || e.id != want {
					t.Errorf("event %d, want %d: %v", e.id, want, err)
					return
				}
			}
		})
	}
	for range count {
		require.NoError(t, p.log(t.Context(), r, strings.Repeat("y", 1<<10)))
	}
	require.NoError(t, p.finish(t.Context(), r))
	wg.Wait()
	// Stop returns when the stream of the client that never reads is gone,
	// too.
	require.NoError(t, p.module.Stop(t.Context()))
}

func TestHeartbeats(t *testing.T) {
	t.Parallel()
	p := newPod(t, database.SQLite, never, sse.Server{Heartbeat: 20 * time.Millisecond})
	r := p.create(t)
	resp := p.watch(t, anna, r.ResultID, "", "1")
	b := make([]byte, len(": heartbeat\n\n")*3)
	_, err := io.ReadFull(resp.Body, b)
	require.NoError(t, err)
	require.Equal(t, strings.Repeat(": heartbeat\n\n", 3), string(b))
}

func TestAReadThatFailsIsAnOrdinaryAnswer(t *testing.T) {
	t.Parallel()
	p := newPod(t, database.SQLite, never, sse.Server{})
	r := p.create(t)
	require.NoError(t, p.db.InTx(t.Context(), func(tx database.Tx) error {
		return database.Unscoped(tx.Handle).Exec("UPDATE run_events SET payload = 'broken' WHERE result_id = ?", r.ResultID).Error
	}))
	resp := p.watch(t, anna, r.ResultID, "", "")
	require.Equal(t, 500, resp.StatusCode)
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Contains(t, string(b), `"errCode":"E0000"`)
}
