package sse_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/sse"
)

// written starts a server that writes one stream, and returns its address.
func written(t *testing.T, s sse.Server, ping string, write func(w *sse.Writer, r *http.Request, gone <-chan struct{})) string {
	t.Helper()
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out, ctx, err := s.Open(w, r, []byte(ping))
		if err != nil {
			http.Error(w, err.Error(), http.StatusTeapot)
			return
		}
		defer out.Close()
		write(out, r, ctx.Done())
	}))
	srv.Config.WriteTimeout = 300 * time.Millisecond // must not end a stream
	srv.Start()
	t.Cleanup(srv.Close)
	return srv.URL
}

func TestWriterWritesNamedEvents(t *testing.T) {
	t.Parallel()
	address := written(t, sse.Server{}, "", func(w *sse.Writer, _ *http.Request, _ <-chan struct{}) {
		for _, e := range [][2]string{{"ping", `{"type":"ping"}`}, {"", "[DONE]"}, {"", "a\r\nid: 9\rb"}} {
			if w.Event(e[0], []byte(e[1])) != nil {
				return
			}
		}
	})
	resp := get(t, address)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "event: ping\ndata: {\"type\":\"ping\"}\n\ndata: [DONE]\n\ndata: a\ndata: \ndata: id: 9\ndata: b\n\n", string(body))
	require.Equal(t, "text/event-stream; charset=utf-8", resp.Header.Get("Content-Type"))
}

func TestWriterBreaksSilencesPastTheServersWriteTimeout(t *testing.T) {
	t.Parallel()
	heard := make(chan struct{})
	address := written(t, sse.Server{Heartbeat: 100 * time.Millisecond}, "event: ping\ndata: {}\n\n", func(w *sse.Writer, _ *http.Request, gone <-chan struct{}) {
		select {
		case <-heard:
			_ = w.Event("", []byte("last"))
		case <-gone:
		}
	})
	body := get(t, address).Body
	got := make([]byte, len("event: ping\ndata: {}\n\n")*5)
	_, err := io.ReadFull(body, got)
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("event: ping\ndata: {}\n\n", 5), string(got))
	close(heard)
	rest, err := io.ReadAll(body)
	require.NoError(t, err)
	require.Contains(t, string(rest), "data: last\n\n")
}

func TestWriterEndsWithItsClient(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	address := written(t, sse.Server{WriteTimeout: 200 * time.Millisecond}, "", func(w *sse.Writer, _ *http.Request, gone <-chan struct{}) {
		long := []byte(strings.Repeat("x", 1<<20))
		for {
			if err := w.Event("", long); err != nil { // nobody reads
				<-gone
				ended <- err
				return
			}
		}
	})
	resp := get(t, address)
	require.ErrorContains(t, <-ended, "the client of the stream is gone")
	require.NoError(t, resp.Body.Close())
}

func TestWriterRefusesAConnectionWithoutDeadlines(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	_, _, err := sse.Server{}.Open(w, r, nil)
	require.ErrorIs(t, err, http.ErrNotSupported)
	require.Empty(t, w.Header())
}
