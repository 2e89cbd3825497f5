package remote_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/sandbox/remote/wire"
)

// one gives out one connection, and waits until ctx ends.
type one struct {
	net.Conn

	ctx   context.Context //nolint:containedctx // that of the listener
	given bool
}

// Accept implements net.Listener.
func (o *one) Accept() (net.Conn, error) {
	if !o.given {
		o.given = true
		return o.Conn, nil
	}
	<-o.ctx.Done()
	return nil, net.ErrClosed
}

// Addr implements net.Listener.
func (o *one) Addr() net.Addr { return o.LocalAddr() }

// A node asks for the job that it took without waiting for anything else: each answer
// that it waits for is a way there and back.
func TestANodeAsksForItsJobAtOnce(t *testing.T) {
	t.Parallel()
	m := settle(t, says("x"), nil)
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &protocols}
	t.Cleanup(transport.CloseIdleConnections)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	from, to := io.Pipe()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+m.Addr().String()+wire.PathJobs, from)
	require.NoError(t, err)
	answer, err := transport.RoundTrip(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, http.StatusOK, answer.StatusCode)
	conn := &wire.Conn{Reader: answer.Body, Writer: to, End: func() {
		cancel()
		_ = to.CloseWithError(io.ErrClosedPipe)
		_ = answer.Body.Close()
	}}
	asked := make(chan struct{}, 1)
	process := &http.Server{Protocols: &protocols, ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == wire.PathJob {
			asked <- struct{}{}
		}
		<-r.Context().Done() // nothing is answered
	})}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = process.Serve(&one{Conn: conn, ctx: ctx}) // until it is closed
	}()
	select {
	case <-asked:
	case <-time.After(10 * time.Second):
		t.Error("the node does not ask for its job")
	}
	require.NoError(t, conn.Close())
	_ = process.Close() // its connection is closed already
	<-served
}
