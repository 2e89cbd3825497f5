package peer

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
)

// path is where operations are.
const path = "/peer/v1/"

// maxBody is the largest request of another process, in bytes: that of a client, and
// what goes with it. The operations have limits of their own.
const maxBody = 128 << 20

// headerTime is how long the head of a request may take.
const headerTime = 10 * time.Second

// Handler answers what another process asks, for one of its callers. ctx ends when
// that caller leaves.
type Handler func(ctx context.Context, who actor.Actor, body io.Reader) (any, error)

// Handle answers an operation. It is called before Start.
func (s *Service) Handle(op string, h Handler) { s.handlers[op] = h }

// Requests answers requests that other processes forward. It is called before Start.
func (s *Service) Requests(h http.Handler) { s.requests = h }

// listener is where the others come to.
type listener struct {
	http   *http.Server
	served chan struct{}
	work   sync.WaitGroup
	works  context.Context //nolint:containedctx // ends when forwarded requests are to end
	end    context.CancelFunc
}

// Start listens for the other processes.
func (s *Service) Start(ctx context.Context) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", s.deps.Listen)
	if err != nil {
		return fmt.Errorf("%w; set PORTICO_PEER_LISTEN to a free address", err)
	}
	x := &s.listener
	x.served = make(chan struct{})
	x.works, x.end = context.WithCancel(context.WithoutCancel(ctx))
	x.http = &http.Server{
		Handler: s, ReadHeaderTimeout: headerTime, IdleTimeout: serverIdle, TLSConfig: s.deps.TLS.Clone(),
		ErrorLog: slog.NewLogLogger(s.deps.Logger.Handler(), slog.LevelDebug),
	}
	server := x.http
	go func() {
		defer close(x.served)
		var err error
		if s.deps.TLS != nil {
			err = server.ServeTLS(l, "", "")
		} else {
			err = server.Serve(l)
		}
		if !errors.Is(err, http.ErrServerClosed) {
			s.deps.Logger.Error("the listener for other processes ended", "error", err)
		}
	}()
	return nil
}

// Stop lets what others have asked finish for a while, and returns when nothing of it
// is left.
func (s *Service) Stop(ctx context.Context) error {
	x := &s.listener
	if x.http == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.deps.Times.Grace)
	defer cancel()
	err := x.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = x.http.Close()
	}
	x.end()
	<-x.served
	x.work.Wait()
	x.http = nil
	s.client.CloseIdleConnections()
	return err
}

// ServeHTTP answers another process.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.listener.work.Add(1)
	defer s.listener.work.Done()
	op, known := strings.CutPrefix(r.URL.Path, path)
	who, err := s.check(r.Header.Get(headerToken), op)
	h := s.handlers[op]
	switch {
	case errors.Is(err, errOtherNode):
		refuse(w, otherNode, http.StatusMisdirectedRequest)
		return
	case err != nil:
		s.deps.Logger.WarnContext(r.Context(), "a peer is refused", "error", err, "remote", r.RemoteAddr)
		refuse(w, refused, http.StatusUnauthorized)
		return
	case !known || r.Method != http.MethodPost || h == nil && (op != opRequest || s.requests == nil):
		refuse(w, refused, http.StatusNotFound)
		return
	}
	// The first byte is asked for before anything is done: who asks knows then that
	// the request was taken.
	body := bufio.NewReader(http.MaxBytesReader(w, r.Body, maxBody))
	if _, err := body.Peek(1); err != nil && !errors.Is(err, io.EOF) {
		return // whoever asked is gone
	}
	w.Header().Set(headerProblem, none)
	if h == nil {
		s.serveRequest(w, r, who, body)
		return
	}
	out, err := h(r.Context(), who, body)
	if err != nil {
		if errs.CodeOf(err) == errs.Internal && r.Context().Err() == nil {
			s.deps.Logger.ErrorContext(r.Context(), "a peer's request failed", "op", op, "error", err)
		}
		writeProblem(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out) // a peer that is gone
}

func refuse(w http.ResponseWriter, kind string, status int) {
	w.Header().Set(headerProblem, kind)
	w.WriteHeader(status)
}

// serveRequest answers a request that came to another process as if it had come to
// this one.
func (s *Service) serveRequest(w http.ResponseWriter, r *http.Request, who actor.Actor, body io.Reader) {
	target, err := url.ParseRequestURI(r.Header.Get(headerTarget))
	if err != nil {
		refuse(w, refused, http.StatusBadRequest)
		return
	}
	ctx, done := s.follow(r.Context(), who.UID, r.Header.Get(headerRequest))
	defer done()
	inner := r.Clone(context.WithValue(ctx, forwardedKey{}, true))
	inner.Method, inner.URL, inner.Host, inner.RequestURI = r.Header.Get(headerMethod), target, r.Header.Get(headerHost), r.Header.Get(headerTarget)
	inner.RemoteAddr, inner.TLS = r.Header.Get(headerClient), nil // both are of its connection, not of this one
	inner.Body, inner.ContentLength, inner.TransferEncoding = io.NopCloser(body), -1, nil
	clean(inner.Header)
	s.requests.ServeHTTP(w, inner)
}
