// Package machine is the other side of a sandbox node: it takes programs of processes
// that it trusts, and runs them in a sandbox here. It knows no secret, and no more of a
// program than the program itself.
package machine

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/remote"
	"github.com/portico-run/portico/modules/sandbox/remote/wire"
)

// Engine runs programs. It admits all that it is given: how many that are is decided
// here.
type Engine interface {
	Begin(ctx context.Context, job sandbox.Job) (sandbox.Execution, error)
	Languages() []sandbox.Language
}

// Deps is what a machine needs.
type Deps struct {
	Engine  Engine
	Listen  string
	Trust   Trust
	Room    Room
	TLS     *tls.Config // nil for connections that are not encrypted
	Version string
	Metrics http.Handler
	Logger  *slog.Logger
}

// Trust is whose programs are taken.
type Trust struct {
	// Keys are the public keys of processes; none takes what comes from everybody, which
	// only a machine may do that listens on a loopback address.
	Keys []ed25519.PublicKey
	// One lets the machine serve the first owner alone that it is given a program of.
	One bool
}

// Room is how many programs there may be: Running at once, and Paused besides.
type Room struct{ Running, Paused int }

// Machine listens for programs. It is a lifecycle.Service.
type Machine struct {
	deps  Deps
	nonce string
	// started is when the machine was made.
	started time.Time
	http    *http.Server
	addr    net.Addr
	jobs    context.Context //nolint:containedctx // ends when all jobs are to end
	end     context.CancelFunc

	mu       sync.Mutex
	running  int
	paused   int
	owner    string // the only one, by the hash
	draining bool
	seen     map[string]time.Time // tokens that were used, and when they end
	work     sync.WaitGroup
	served   chan struct{}
}

// New returns a machine that listens to nobody.
func New(d Deps) *Machine {
	return &Machine{deps: d, nonce: rand.Text(), started: time.Now(), seen: map[string]time.Time{}}
}

const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	// quiet is how long nothing may come of a process until it is asked whether it lives,
	// and silence how long it may take to say so. Its programs end when it does not.
	quiet, silence = 2 * time.Second, 6 * time.Second
	// maxStreams is how many programs of one connection there may be, frame and window how
	// much of each is under way.
	maxStreams = 10_000
	frame      = 16 << 10
	window     = 256 << 10
)

// Start listens.
func (m *Machine) Start(ctx context.Context) error {
	if len(m.deps.Trust.Keys) == 0 && !loopback(m.deps.Listen) {
		return errors.New("a sandbox node that trusts nobody takes programs from everybody, so it listens on a loopback address only: set SANDBOX_NODE_TRUST to what portico node key prints where the API runs")
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", m.deps.Listen)
	if err != nil {
		return fmt.Errorf("%w; set SANDBOX_NODE_LISTEN to a free address", err)
	}
	m.addr, m.served = l.Addr(), make(chan struct{})
	m.jobs, m.end = context.WithCancel(context.WithoutCancel(ctx))
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(m.deps.TLS != nil)
	protocols.SetUnencryptedHTTP2(m.deps.TLS == nil)
	secured := m.deps.TLS.Clone()
	if secured != nil { // who asks for /healthz has no certificate; who brings a program must have one
		secured.ClientAuth, secured.VerifyConnection = tls.VerifyClientCertIfGiven, nil
	}
	m.http = &http.Server{
		Handler: m.routes(), Protocols: &protocols, TLSConfig: secured, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		HTTP2:    &http.HTTP2Config{MaxConcurrentStreams: maxStreams, SendPingTimeout: quiet, PingTimeout: silence, MaxReadFrameSize: frame, MaxReceiveBufferPerStream: window, MaxReceiveBufferPerConnection: 8 * window},
		ErrorLog: slog.NewLogLogger(m.deps.Logger.Handler(), slog.LevelDebug),
	}
	go func() {
		defer close(m.served)
		if m.deps.TLS != nil {
			err = m.http.ServeTLS(l, "", "")
		} else {
			err = m.http.Serve(l)
		}
		if !errors.Is(err, http.ErrServerClosed) {
			m.deps.Logger.Error("the listener for programs ended", "error", err)
		}
	}()
	return nil
}

func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// Addr is where the machine listens.
func (m *Machine) Addr() net.Addr { return m.addr }

// Nonce is what the machine calls itself since it started.
func (m *Machine) Nonce() string { return m.nonce }

// Drain takes no more programs. Those that run go on.
func (m *Machine) Drain() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.draining = true
}

// Working is how many programs there are.
func (m *Machine) Working() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.running + m.paused
}

// Stop ends all programs, and returns when nothing of them is left.
func (m *Machine) Stop(context.Context) error {
	if m.http == nil {
		return nil
	}
	m.Drain()
	m.end()
	err := m.http.Close()
	<-m.served
	m.work.Wait()
	m.http = nil
	return err
}

func (m *Machine) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+wire.PathStatus, func(w http.ResponseWriter, _ *http.Request) { write(w, http.StatusOK, m.Status()) })
	mux.HandleFunc("POST "+wire.PathJobs, m.serveJob)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusOK, health{"ok", m.deps.Version})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if m.Status().Draining {
			write(w, http.StatusServiceUnavailable, health{"this sandbox node is about to end", m.deps.Version})
			return
		}
		write(w, http.StatusOK, health{"ok", m.deps.Version})
	})
	if m.deps.Metrics != nil {
		mux.Handle("GET /metrics", m.deps.Metrics)
	}
	return mux
}

type health struct {
	Status  string `json:"status"`
	Version string `json:"version"`
}

func write(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // whoever asked is gone
}

// Status is what the machine says of itself.
func (m *Machine) Status() remote.Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	return remote.Status{
		Nonce: m.nonce, Version: m.deps.Version, Languages: m.deps.Engine.Languages(), Capacity: m.deps.Room.Running, Running: m.running,
		Paused: m.paused, MaxPaused: m.deps.Room.Paused, Draining: m.draining, Owner: m.owner, Started: m.started, Now: time.Now(),
	}
}

// check returns the owner whose program a request brings, or why it is refused.
func (m *Machine) check(r *http.Request) (owner, refused string) {
	now := time.Now()
	tokens, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if m.deps.TLS != nil && (r.TLS == nil || len(r.TLS.VerifiedChains) == 0) {
		return "", wire.Untrusted
	}
	if len(m.deps.Trust.Keys) == 0 { // nobody but this machine reaches it
		return wire.Claimed(tokens), ""
	}
	t, err := wire.Verify(m.deps.Trust.Keys, m.nonce, tokens, now)
	switch {
	case errors.Is(err, wire.ErrOtherNode):
		return "", wire.OtherNode
	case err != nil:
		m.deps.Logger.WarnContext(r.Context(), "a program is refused", "error", err, "remote", r.RemoteAddr)
		return "", wire.Untrusted
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, ends := range m.seen {
		if ends.Before(now) {
			delete(m.seen, id)
		}
	}
	if _, again := m.seen[t.ID]; again {
		return "", wire.Untrusted
	}
	m.seen[t.ID] = t.Ends
	return t.Owner, ""
}

// admit gives a program its place, or says why there is none.
func (m *Machine) admit(owner string) (p *place, refused string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.draining:
		return nil, wire.Draining
	case m.deps.Trust.One && m.owner != "" && m.owner != owner:
		return nil, wire.OtherUser
	case m.running >= m.deps.Room.Running || m.running+m.paused >= m.deps.Room.Running+m.deps.Room.Paused:
		return nil, wire.Full
	}
	if m.deps.Trust.One {
		m.owner = owner
	}
	m.running++
	m.work.Add(1)
	return &place{machine: m, running: true}, ""
}

// place is what a program takes of the room. The process that it belongs to decides when
// it runs and when it is paused.
type place struct {
	machine *Machine
	running bool
	left    bool
}

// pause says whether the program is paused.
func (p *place) pause(paused bool) {
	m := p.machine
	m.mu.Lock()
	defer m.mu.Unlock()
	if p.left || p.running == !paused {
		return
	}
	p.running = !paused
	if paused {
		m.running, m.paused = m.running-1, m.paused+1
	} else {
		m.running, m.paused = m.running+1, m.paused-1
	}
}

// leave gives the place back.
func (p *place) leave() {
	m := p.machine
	m.mu.Lock()
	defer m.mu.Unlock()
	if p.left {
		return
	}
	p.left = true
	if p.running {
		m.running--
	} else {
		m.paused--
	}
}

// serveJob takes a program, and answers with the stream over which it is asked for.
func (m *Machine) serveJob(w http.ResponseWriter, r *http.Request) {
	owner, refused := m.check(r)
	var p *place
	if refused == "" {
		p, refused = m.admit(owner)
	}
	if refused != "" {
		w.Header().Set(wire.HeaderRefusal, refused)
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	defer m.work.Done()
	defer p.leave()
	if r.ProtoMajor != 2 { //nolint:mnd // the version of HTTP whose streams go both ways
		w.WriteHeader(http.StatusHTTPVersionNotSupported)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(m.jobs, cancel)() //nolint:contextcheck // the machine may end before the stream
	if err := newJob(m, p).serve(ctx, w, r); err != nil && ctx.Err() == nil {
		m.deps.Logger.WarnContext(ctx, "a program was given up", "error", err)
	}
}
