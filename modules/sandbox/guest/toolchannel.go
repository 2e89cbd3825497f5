package guest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/sys/unix"
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

// toolChannel is a program's only network: it serves the requests that the program
// sends over the descriptor it inherited, the tool socket or the sandbox's own
// loopback, and hands them to the program's gateway.
type toolChannel struct {
	handler http.Handler
	server  *http.Server
	ctx     context.Context //nolint:containedctx // that of the requests
	control net.Conn
	readers sync.WaitGroup
	cancel  context.CancelFunc
	served  sync.WaitGroup
	poller  *Poller
	// listeners are closed by their server, too, where one was started; unwatch ends
	// the wait for those whom nobody connected to.
	listeners []net.Listener
	unwatch   []func()

	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
}

// openToolChannel listens on path. Requests get ctx's values, not its end: they end
// with the channel.
func openToolChannel(ctx context.Context, p *Poller, path string, h http.Handler) (*toolChannel, error) {
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
	r := &toolChannel{handler: h, ctx: base, cancel: cancel, poller: p}
	r.server = &http.Server{
		Handler:           r,
		ReadHeaderTimeout: headerTimeout,
		BaseContext:       func(net.Listener) context.Context { return base },
		// Its lines are about what the program sent; nobody else wants them.
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	if err := r.accept(listener); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// accept answers who connects, until close. A server runs from the first
// connection on: most programs make none.
func (r *toolChannel) accept(listener net.Listener) error {
	conn, ok := listener.(syscall.Conn)
	if !ok {
		return errors.Join(errors.New("the listener is no socket"), listener.Close())
	}
	r.listeners = append(r.listeners, listener)
	unwatch, err := r.poller.Watch(conn, func() (again bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.closed {
			r.served.Go(func() { _ = r.server.Serve(netutil.LimitListener(listener, maxConnections)) })
		}
		return false
	})
	if err != nil {
		return err
	}
	r.unwatch = append(r.unwatch, unwatch)
	return nil
}

// listen answers who connects to a listening socket of the sandbox's own
// network, until close. It closes the descriptor.
func (r *toolChannel) listen(socket *os.File) error {
	defer socket.Close()
	listener, err := net.FileListener(socket)
	if err != nil {
		return fmt.Errorf("loopback of the sandbox: %w", err)
	}
	return r.accept(listener)
}

// started waits until the runtime says that it took the job, and takes the
// socket that it may send with it.
func started(control net.Conn) (listening *os.File, err error) {
	conn, ok := control.(*net.UnixConn)
	if !ok {
		return nil, errors.New("the control socket is none")
	}
	data, oob := make([]byte, 1), make([]byte, unix.CmsgSpace(unix.SizeofUcred)+unix.CmsgSpace(4))
	n, oobn, _, _, err := conn.ReadMsgUnix(data, oob)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		if fds, err := unix.ParseUnixRights(&m); err == nil && len(fds) == 1 {
			listening = os.NewFile(uintptr(fds[0]), "loopback")
		}
	}
	if n != 1 || data[0] != 'S' {
		if listening != nil {
			listening.Close()
		}
		return nil, fmt.Errorf("the interpreter said %q, not that it took the job", data[:n])
	}
	return listening, nil
}

// serve answers what comes over the descriptor, until close.
func (r *toolChannel) serve(control net.Conn) {
	r.control = control
	c := &frameConn{ctx: r.ctx, conn: control, handler: r, turns: make(chan struct{}, maxConnections)}
	r.readers.Go(c.read)
}

// ServeHTTP counts the calls that run, so that close can wait for them.
func (r *toolChannel) ServeHTTP(w http.ResponseWriter, req *http.Request) {
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
func (r *toolChannel) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel()
	for _, unwatch := range r.unwatch {
		unwatch()
	}
	_ = r.server.Close()
	for _, l := range r.listeners {
		_ = l.Close() // twice is no harm
	}
	if r.control != nil {
		_ = r.control.SetDeadline(time.Unix(1, 0)) // closed already, or about to be
	}
	r.served.Wait()

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
