package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// server serves the API over HTTP.
type server struct {
	handler http.Handler
	listen  string
	grace   time.Duration // for requests and programs in flight when it stops
	drain   func(ctx context.Context)
	enter   func(ctx context.Context) context.Context // for each request
	logger  *slog.Logger

	http    *http.Server
	addr    net.Addr
	served  chan struct{}
	running sync.WaitGroup // requests
}

// Timeouts of connections; each operation bounds its own body.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
)

// Start listens and serves in the background.
func (s *server) Start(ctx context.Context) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", s.listen)
	if err != nil {
		return fmt.Errorf("%w; set PORTICO_LISTEN to a free address", err)
	}
	s.addr, s.served = l.Addr(), make(chan struct{})
	s.http = &http.Server{
		Handler: http.HandlerFunc(s.count), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		ErrorLog: slog.NewLogLogger(s.logger.Handler(), slog.LevelDebug),
	}
	go func() {
		defer close(s.served)
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.logger.Error("the HTTP server ended", "error", err)
		}
	}()
	return nil
}

func (s *server) count(w http.ResponseWriter, r *http.Request) {
	s.running.Add(1)
	defer s.running.Done()
	s.handler.ServeHTTP(w, r.WithContext(s.enter(r.Context())))
}

// Stop lets requests in flight and programs in the background finish, ends those
// that take longer than the grace, and returns when none is left.
func (s *server) Stop(ctx context.Context) error {
	if s.http == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.grace)
	defer cancel()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		s.drain(ctx)
	}()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		s.logger.Warn("requests took longer than the grace and are ended")
		err = s.http.Close()
	}
	<-s.served
	s.running.Wait()
	<-drained
	s.http = nil
	return err
}
