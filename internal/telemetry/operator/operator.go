// Package operator serves what only who runs this process may see: profiles, the
// numbers for Prometheus, and the level of the log, on an address of its own.
package operator

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof" // its init adds to http.DefaultServeMux, which nothing here serves
	"strings"
	"sync"
	"time"

	"github.com/portico-run/portico/configs"
)

// Deps is what the package needs.
type Deps struct {
	// Listen is the address, "host:port".
	Listen string
	// Token is what requests carry as their bearer token. Without one, every
	// process of the machine may ask, and Listen must be a loopback address.
	Token string
	// Level is that of the log; nil if it cannot be changed.
	Level   *slog.LevelVar
	Metrics http.Handler
	Logger  *slog.Logger
}

// Server answers on an address of its own.
type Server struct {
	deps    Deps
	http    *http.Server
	addr    net.Addr
	served  chan struct{}
	running sync.WaitGroup // requests
}

// New returns a server that does nothing until Start.
func New(d Deps) *Server { return &Server{deps: d} }

// Bounds of requests. A profile takes as long as it asks for.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	maxLevel      = 64 // bytes of a level's name
)

// Start listens and serves in the background.
func (s *Server) Start(ctx context.Context) error {
	if s.deps.Token == "" && !loopback(s.deps.Listen) {
		return errors.New("the address for operators can be reached from other machines: set PORTICO_ADMIN_TOKEN, or have PORTICO_ADMIN_LISTEN begin with 127.0.0.1")
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", s.deps.Listen)
	if err != nil {
		return fmt.Errorf("%w; set PORTICO_ADMIN_LISTEN to a free address", err)
	}
	s.addr, s.served = l.Addr(), make(chan struct{})
	handler := s.handler()
	s.http = &http.Server{
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		ErrorLog: slog.NewLogLogger(s.deps.Logger.Handler(), slog.LevelDebug),
	}
	s.http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.running.Add(1)
		defer s.running.Done()
		handler.ServeHTTP(w, r)
	})
	go func() {
		defer close(s.served)
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.deps.Logger.Error("the server for operators ended", "error", err)
		}
	}()
	return nil
}

// Stop breaks off what is being answered, and returns when nothing is.
func (s *Server) Stop(context.Context) error {
	if s.http == nil {
		return nil
	}
	err := s.http.Close()
	<-s.served
	s.running.Wait()
	s.http = nil
	return err
}

// Addr is where it answers.
func (s *Server) Addr() net.Addr { return s.addr }

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", s.deps.Metrics)
	mux.HandleFunc("GET /loglevel", s.showLevel)
	mux.HandleFunc("PUT /loglevel", s.setLevel)
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol) // by "go tool pprof"
	return s.guard(mux)
}

// guard lets in who has the token. Where there is none, it lets in who asked for
// this machine by a loopback name: a page in a browser whose own name leads here
// did not.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case s.deps.Token == "" && !loopback(r.Host):
			http.Error(w, "Ask for 127.0.0.1, ::1 or localhost, or set PORTICO_ADMIN_TOKEN.", http.StatusForbidden)
		case s.deps.Token != "" && !same(bearer(r), s.deps.Token):
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "Send PORTICO_ADMIN_TOKEN as the bearer token.", http.StatusUnauthorized)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return token
}

// same compares in a time that says nothing of the token, its length included.
func same(got, want string) bool {
	a, b := sha256.Sum256([]byte(got)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

func loopback(address string) bool { return configs.IsLoopback("http://" + address) }

func (s *Server) showLevel(w http.ResponseWriter, _ *http.Request) {
	if s.deps.Level == nil {
		http.Error(w, "The level of this log cannot be changed.", http.StatusNotFound)
		return
	}
	_, _ = fmt.Fprintln(w, strings.ToLower(s.deps.Level.Level().String()))
}

func (s *Server) setLevel(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxLevel))
	level, known := levels()[strings.TrimSpace(string(body))]
	if err != nil || !known {
		http.Error(w, "Send debug, info, warn or error as the body.", http.StatusBadRequest)
		return
	}
	if s.deps.Level != nil {
		before := s.deps.Level.Level()
		s.deps.Level.Set(level)
		// At the highest level, so that the log itself says why it grew silent.
		s.deps.Logger.ErrorContext(r.Context(), "the level of the log was changed", "from", before, "to", level)
	}
	s.showLevel(w, r)
}

func levels() map[string]slog.Level {
	return map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
}
