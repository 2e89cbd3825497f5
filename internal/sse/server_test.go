package sse_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/portico-run/portico/internal/sse"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// log is a source that any number of connections may read.
type log struct {
	mu     sync.Mutex
	events []sse.Event
	ended  bool
	change chan struct{} // closed at the next change
}

func newLog() *log { return &log{change: make(chan struct{})} }

func (l *log) add(data string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, sse.Event{ID: int64(len(l.events) + 1), Data: []byte(data)})
	close(l.change)
	l.change = make(chan struct{})
}

func (l *log) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	close(l.change)
	l.change = make(chan struct{})
}

type reader struct {
	log    *log
	read   int
	change chan struct{}
}

func (r *reader) Read(context.Context) ([]sse.Event, bool, error) {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	r.change = r.log.change
	events := r.log.events[r.read:]
	r.read = len(r.log.events)
	return events, r.log.ended, nil
}

func (r *reader) Wait(ctx context.Context) {
	select {
	case <-r.change:
	case <-ctx.Done():
	}
}

// serve starts a server whose handlers report how they ended.
func serve(t *testing.T, s sse.Server, source func() sse.Source) (address string, ends <-chan error) {
	t.Helper()
	results := make(chan error, 500)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := s.Serve(w, r, source())
		if err != nil && w.Header().Get("Content-Type") == "" {
			http.Error(w, err.Error(), http.StatusTeapot)
		}
		results <- err
	}))
	srv.Config.WriteTimeout = 300 * time.Millisecond // must not end a stream
	srv.Start()
	t.Cleanup(srv.Close)
	return srv.URL, results
}

func get(t *testing.T, address string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	require.NoError(t, err)
	transport := &http.Transport{}
	resp, err := transport.RoundTrip(r)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = resp.Body.Close()
		transport.CloseIdleConnections()
	})
	return resp
}

func TestWritesTheFramesOfTheWireContract(t *testing.T) {
	t.Parallel()
	l := newLog()
	l.add(`{"a":1}`)
	l.add(`: not a comment`)
	l.end()
	address, ends := serve(t, sse.Server{}, func() sse.Source { return &reader{log: l} })
	resp := get(t, address)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "id: 1\ndata: {\"a\":1}\n\nid: 2\ndata: : not a comment\n\n", string(body))
	require.Equal(t, 200, resp.StatusCode)
	for name, want := range map[string]string{
		"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "Connection": "keep-alive", "X-Accel-Buffering": "no",
	} {
		require.Equal(t, want, resp.Header.Get(name), name)
	}
	require.NoError(t, <-ends)
}

type broken struct{ err error }

func (b broken) Read(context.Context) ([]sse.Event, bool, error) { return nil, false, b.err }
func (b broken) Wait(context.Context)                            {}

func TestErrorBeforeTheFirstEventIsAnOrdinaryAnswer(t *testing.T) {
	t.Parallel()
	address, ends := serve(t, sse.Server{}, func() sse.Source { return broken{errors.New("no database")} })
	resp := get(t, address)
	require.Equal(t, http.StatusTeapot, resp.StatusCode)
	require.NotEqual(t, "text/event-stream", resp.Header.Get("Content-Type"))
	require.ErrorContains(t, <-ends, "no database")
}

func TestRefusesAConnectionWithoutDeadlines(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	require.ErrorIs(t, sse.Server{}.Serve(w, r, &reader{log: newLog()}), http.ErrNotSupported)
	require.Empty(t, w.Body.String())
}

func TestDataMustBeOneLine(t *testing.T) {
	t.Parallel()
	for _, data := range []string{"", "a\nid: 9", "a\rid: 9"} {
		l := newLog()
		l.add(data)
		l.end()
		address, ends := serve(t, sse.Server{}, func() sse.Source { return &reader{log: l} })
		body, err := io.ReadAll(get(t, address).Body)
		require.NoError(t, err)
		require.NotContains(t, string(body), "id:")
		require.ErrorContains(t, <-ends, "not one line")
	}
}

func TestHeartbeatsOnlyInSilenceAndPastTheServersWriteTimeout(t *testing.T) {
	t.Parallel()
	l := newLog()
	address, ends := serve(t, sse.Server{Heartbeat: 100 * time.Millisecond}, func() sse.Source { return &reader{log: l} })
	lines := bufio.NewScanner(get(t, address).Body)
	next := func() string {
		for lines.Scan() {
			if lines.Text() != "" {
				return lines.Text()
			}
		}
		return "end"
	}
	for range 6 { // twice the server's write timeout
		require.Equal(t, ": heartbeat", next())
	}
	l.add("x")
	line := next()
	for line == ": heartbeat" { // one may have been on its way
		line = next()
	}
	require.Equal(t, "id: 1", line)
	require.Equal(t, "data: x", next())
	l.end()
	line = next()
	for line == ": heartbeat" {
		line = next()
	}
	require.Equal(t, "end", line)
	require.NoError(t, <-ends)
}

func TestEndsWhenTheClientLeaves(t *testing.T) {
	t.Parallel()
	l := newLog()
	l.add("x")
	address, ends := serve(t, sse.Server{}, func() sse.Source { return &reader{log: l} })
	const clients = 50
	for range clients {
		resp := get(t, address)
		b := make([]byte, 5)
		_, err := io.ReadFull(resp.Body, b)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	for range clients {
		require.NoError(t, <-ends)
	}
}

func TestEndsWhenTheServerStops(t *testing.T) {
	t.Parallel()
	stop, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, done := context.WithCancel(r.Context())
		defer done()
		defer context.AfterFunc(stop, done)()
		ended <- sse.Server{}.Serve(w, r.WithContext(ctx), &reader{log: newLog()})
	}))
	t.Cleanup(srv.Close)
	resp := get(t, srv.URL)
	cancel()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Empty(t, body)
	require.NoError(t, <-ended)
}

// A client that stops reading costs its own connection, and only until the
// write deadline; all others get everything meanwhile.
func TestStalledClientHoldsUpNobody(t *testing.T) {
	t.Parallel()
	const clients, count = 20, 400
	l := newLog()
	filler := strings.Repeat("x", 16<<10) // together more than the socket buffers hold
	for i := range count {
		l.add(fmt.Sprintf("%d %s", i, filler))
	}
	address, ends := serve(t, sse.Server{WriteTimeout: time.Second}, func() sse.Source { return &reader{log: l} })

	_, err := io.WriteString(dial(t, address), "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	require.NoError(t, <-ends) // nobody else is connected: this is the stalled one

	l.end()
	_, err = io.WriteString(dial(t, address), "GET / HTTP/1.1\r\nHost: x\r\n\r\n") // another one stalls
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range clients {
		resp := get(t, address)
		wg.Go(func() {
			body, err := io.ReadAll(resp.Body)
			if err != nil || strings.Count(string(body), "\n\n") != count {
				t.Errorf("got %d events, %v", strings.Count(string(body), "\n\n"), err)
			}
		})
	}
	wg.Wait()
	for range clients + 1 {
		require.NoError(t, <-ends)
	}
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(address, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4<<10))
	return conn
}
