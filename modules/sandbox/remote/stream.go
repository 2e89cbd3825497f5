package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/portico-run/portico/modules/sandbox/remote/wire"
)

// refusal is why a node did not take a job.
type refusal struct{ why string }

// Error implements error.
func (r refusal) Error() string {
	switch r.why {
	case wire.Untrusted:
		return "the sandbox node does not trust this process: SANDBOX_NODE_TRUST there must name what portico node key prints here, and the clocks must agree"
	case wire.OtherNode:
		return "another sandbox node answers at this address"
	case wire.OtherUser:
		return "the sandbox node serves another user"
	case wire.Full:
		return "the sandbox node is full"
	case wire.Draining:
		return "the sandbox node is about to end"
	}
	return "the sandbox node refuses the program: " + r.why
}

// open opens the stream of a job to a node. An error says that the node was given
// nothing.
func (c *Client) open(ctx context.Context, n Node, owner string) (*wire.Conn, error) {
	c.mu.Lock()
	now := c.config.Now().Add(c.ahead[n.Nonce])
	c.mu.Unlock()
	token, err := wire.Sign(c.config.Keys, n.Nonce, OwnerHash(owner), now)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	from, to := io.Pipe()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url(n.Address, wire.PathJobs), from)
	if err != nil {
		cancel()
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	late := time.AfterFunc(c.config.Times.Accept, cancel)
	answer, err := c.http.Do(r) //nolint:bodyclose // the end of the connection closes it
	if err == nil && !late.Stop() {
		err = errors.Join(errors.New("the sandbox node answers too late"), answer.Body.Close())
	} else if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.Join(refusal{answer.Header.Get(wire.HeaderRefusal)}, answer.Body.Close())
	}
	if err != nil {
		late.Stop()
		cancel()
		to.CloseWithError(err)
		return nil, fmt.Errorf("%s: %w", n.Address, err)
	}
	return &wire.Conn{Reader: answer.Body, Writer: to, End: func() {
		cancel()
		_ = to.CloseWithError(io.ErrClosedPipe)
		_ = answer.Body.Close()
	}}, nil
}

// listener gives out one connection, and then waits until it is closed.
type listener struct {
	conn  chan net.Conn
	close func()
	done  <-chan struct{}
}

func listen(c net.Conn) *listener {
	ctx, cancel := context.WithCancel(context.Background())
	l := &listener{conn: make(chan net.Conn, 1), close: cancel, done: ctx.Done()}
	l.conn <- c
	return l
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.close()
	return nil
}

// Addr implements net.Listener.
func (*listener) Addr() net.Addr { return (&wire.Conn{}).LocalAddr() }
