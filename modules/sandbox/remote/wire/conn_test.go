package wire_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/portico-run/portico/modules/sandbox/remote/wire"
)

// leaving writes to an answer at once, until it is closed.
type leaving struct {
	to http.ResponseWriter

	mu     sync.Mutex
	closed bool
}

// Write implements io.Writer.
func (l *leaving) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return 0, io.ErrClosedPipe
	}
	n, err := l.to.Write(p)
	_ = http.NewResponseController(l.to).Flush() // the next one fails
	return n, err
}

func (l *leaving) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

// Whoever resets the stream of a connection ends the requests on it, and nobody reads on.
func TestAConnectionEndsWhenItsStreamIsReset(t *testing.T) {
	t.Parallel()
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	ended := make(chan error, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leaves := &leaving{to: w}
		defer leaves.close()
		conn := &wire.Conn{Reader: r.Body, Writer: leaves, End: func() { _ = r.Body.Close() }}
		transport := &http.Transport{Protocols: &protocols, DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }}
		asks, err := transport.NewClientConn(r.Context(), "http", "job:80")
		if err != nil {
			ended <- err
			return
		}
		defer asks.Close()
		// Only the end of the connection ends these.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), 10*time.Second)
		defer cancel()
		var all errgroup.Group
		for range 2 {
			all.Go(func() error {
				ask, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://job/", nil)
				if err != nil {
					return err
				}
				if answer, err := asks.RoundTrip(ask); err == nil {
					return errors.Join(errors.New("it was answered"), answer.Body.Close())
				}
				return ctx.Err()
			})
		}
		ended <- all.Wait()
	}))
	server.Config.Protocols = &protocols
	server.Start()
	t.Cleanup(server.Close)
	transport := &http.Transport{Protocols: &protocols}
	t.Cleanup(transport.CloseIdleConnections)
	ctx, reset := context.WithCancel(t.Context())
	defer reset()
	body, open := io.Pipe()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, body)
	require.NoError(t, err)
	answer, err := transport.RoundTrip(r)
	require.NoError(t, err)
	t.Cleanup(func() { _ = answer.Body.Close() })
	_, err = io.ReadFull(answer.Body, make([]byte, 24)) // the first words of HTTP/2
	require.NoError(t, err)
	reset()
	require.NoError(t, open.CloseWithError(io.ErrClosedPipe))
	require.NoError(t, <-ended)
}
