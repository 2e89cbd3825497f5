package guest

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"golang.org/x/net/netutil"
)

const (
	// maxConnections keeps one program from using up the server's descriptors.
	maxConnections = 64
	// headerTimeout frees a connection whose client sends nothing.
	headerTimeout = 10 * time.Second
	// settleTimeout bounds the wait for gateway calls that do not end when
	// their context does.
	settleTimeout = 5 * time.Second
)

// road brings a program's requests to its gateway: those over the descriptor
// it inherited, and those over the tool socket.
type road struct {
	handler http.Handler
	server  *http.Server
	ctx     context.Context //nolint:containedctx // that of the requests
	control net.Conn
	readers sync.WaitGroup
	cancel  context.CancelFunc
	served  chan struct{}

	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
}

// openRoad listens on path. Requests get ctx's values, not its end: they end
// with the road.
func openRoad(ctx context.Context, path string, h http.Handler) (*road, error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	// The folder around it decides who may connect.
	if err := os.Chmod(path, 0o666); err != nil {
		listener.Close()
		return nil, err
	}
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &road{handler: h, ctx: base, cancel: cancel, served: make(chan struct{})}
	r.server = &http.Server{
		Handler:           r,
		ReadHeaderTimeout: headerTimeout,
		BaseContext:       func(net.Listener) context.Context { return base },
		// Its lines are about what the program sent; nobody else wants them.
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	go func() {
		defer close(r.served)
		_ = r.server.Serve(netutil.LimitListener(listener, maxConnections))
	}()
	return r, nil
}

// serve answers what comes over the descriptor, until close.
func (r *road) serve(control net.Conn) {
	r.control = control
	c := &channel{ctx: r.ctx, conn: control, handler: r, turns: make(chan struct{}, maxConnections)}
	r.readers.Go(c.read)
}

// ServeHTTP counts the calls that run, so that close can wait for them.
func (r *road) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		panic(http.ErrAbortHandler)
	}
	r.running.Add(1)
	r.mu.Unlock()
	defer r.running.Done()
	r.handler.ServeHTTP(w, req)
}

// close ends every call and returns when they have, or after settleTimeout.
func (r *road) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel()
	_ = r.server.Close()
	if r.control != nil {
		_ = r.control.SetDeadline(time.Unix(1, 0)) // closed already, or about to be
	}
	<-r.served

	settled := make(chan struct{})
	go func() {
		r.running.Wait()
		r.readers.Wait()
		close(settled)
	}()
	timer := time.NewTimer(settleTimeout)
	defer timer.Stop()
	select {
	case <-settled:
	case <-timer.C:
	}
}
