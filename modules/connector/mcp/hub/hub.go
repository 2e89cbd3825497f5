// Package hub keeps the connections to MCP servers: what the servers offer, how
// they do, and the calls of their tools.
//
// A connection belongs to one user, one server and one version of the server's
// settings and credentials; nobody else's calls go through it.
package hub

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/flight"
	"github.com/portico-run/portico/internal/lifecycle"
	"github.com/portico-run/portico/modules/connector/mcp/listing"
	"github.com/portico-run/portico/modules/connector/mcp/server"
	"github.com/portico-run/portico/modules/connector/mcp/stdio"
	"github.com/portico-run/portico/modules/connector/mcp/wire"
)

// Directory says which servers there are, and keeps what they offered last.
type Directory interface {
	// Find returns the actor's own server of a name, else everybody's. The error
	// has the code errs.ToolsetMissing where there is none.
	Find(ctx context.Context, a actor.Actor, name string) (server.Server, error)
	// All returns the servers that an actor may use.
	All(ctx context.Context, a actor.Actor) ([]server.Server, error)
	// Last returns the list that was kept last; the zero value for none.
	Last(ctx context.Context, s server.Server) (server.List, error)
	Keep(ctx context.Context, s server.Server, l server.List) error
}

// Authorizer presents the tokens of users to servers that want some.
type Authorizer interface {
	// Authorizer returns nil where the server wants none.
	Authorizer(ctx context.Context, a actor.Actor, s server.Server) (auth.OAuthHandler, error)
}

// Settings are the limits of the hub. Zeros are the defaults of the server's
// configuration.
type Settings struct {
	// Connect and List bound a connection's beginning and a list; Call is how long
	// a server may be silent during a call.
	Connect, List, Call time.Duration
	// Idle is after how long a connection that nobody uses is closed.
	Idle time.Duration
	// Refresh is after how long tools are listed again, where the server's
	// settings do not say it.
	Refresh time.Duration
	// ResponseCap is the most bytes of one answer.
	ResponseCap int64
	// Connections and PerUser bound the open connections.
	Connections, PerUser int
}

func (s Settings) withDefaults() Settings {
	or := func(d *time.Duration, usual time.Duration) {
		if *d == 0 {
			*d = usual
		}
	}
	or(&s.Connect, 10*time.Second)
	or(&s.List, 10*time.Second)
	or(&s.Call, time.Minute)
	or(&s.Idle, 5*time.Minute)
	or(&s.Refresh, 10*time.Minute)
	if s.ResponseCap == 0 {
		s.ResponseCap = 16 << 20
	}
	if s.Connections == 0 {
		s.Connections = 500
	}
	if s.PerUser == 0 {
		s.PerUser = 64
	}
	return s
}

// Deps is what the hub needs.
type Deps struct {
	Directory Directory
	// Authorizer is nil where no server wants tokens of users.
	Authorizer Authorizer
	Client     wire.Client
	// Processes starts the servers that are processes of this machine; nil for
	// a hub without them.
	Processes *stdio.Launcher
	// Changed is told of tools that are not what they were; nil tells nobody.
	Changed  func(ctx context.Context, a actor.Actor, s server.Server, c listing.Change)
	Settings Settings
	Logger   *slog.Logger
	// Now tells the time; nil is the wall clock.
	Now func() time.Time
}

// Hub implements lifecycle.Service. It is safe for concurrent use.
type Hub struct {
	deps     Deps
	settings Settings

	mu      sync.Mutex
	entries map[key]*entry
	open    map[*session]*entry
	opening map[string]int // connections on their way, by user

	connects flight.Group[key, *session]
	lists    flight.Group[key, server.List]

	life context.Context //nolint:containedctx // of the goroutines that Stop ends
	stop context.CancelFunc
	work sync.WaitGroup
}

// key is whose connection it is, and to what.
type key struct{ uid, owner, name, version string }

// New returns a hub that is not connected to anything.
func New(d Deps) *Hub {
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	h := &Hub{deps: d, settings: d.Settings.withDefaults(), entries: map[key]*entry{}, open: map[*session]*entry{}, opening: map[string]int{}}
	h.life, h.stop = context.WithCancel(context.Background())
	return h
}

// Start implements lifecycle.Service. It connects to no server: the first who
// asks for one does.
func (h *Hub) Start(context.Context) error {
	if h.deps.Processes != nil {
		if err := h.deps.Processes.Open(); err != nil {
			return err
		}
	}
	h.spawn(h.sweep)
	return nil
}

// Stop implements lifecycle.Service: it ends every connection and process, all at
// once: each may take its time.
func (h *Hub) Stop(ctx context.Context) error {
	h.stop()
	for _, s := range h.sessions() {
		h.work.Go(func() { h.close(s) })
	}
	err := lifecycle.Wait(ctx, &h.work)
	if h.deps.Processes != nil {
		err = errors.Join(err, h.deps.Processes.Close())
	}
	return err
}

// spawn runs work until Stop.
func (h *Hub) spawn(work func(ctx context.Context)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.life.Err() != nil {
		return
	}
	h.work.Go(func() { work(h.life) })
}

func (h *Hub) sessions() []*session {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]*session, 0, len(h.open))
	for s := range h.open {
		all = append(all, s)
	}
	return all
}

// Bounds on what the hub knows while nothing is connected.
const (
	maxEntries = 5000
	sweepEvery = 15 * time.Second
)

// entry finds what is known of a server as a user has it.
func (h *Hub) entry(a actor.Actor, s server.Server) *entry {
	k := key{a.UID, s.UID, s.Name, s.Version}
	h.mu.Lock()
	defer h.mu.Unlock()
	e, ok := h.entries[k]
	if !ok {
		if len(h.entries) >= maxEntries {
			h.forgetOldest()
		}
		e = &entry{key: k, actor: a, health: server.Health{State: server.Idle, Since: h.deps.Now()}}
		h.entries[k] = e
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.used, e.server = h.deps.Now(), s
	return e
}

// forgetOldest makes room for one entry; the lock is held.
func (h *Hub) forgetOldest() {
	var oldest *entry
	for _, e := range h.entries {
		if !e.busy() && (oldest == nil || e.lastUse().Before(oldest.lastUse())) {
			oldest = e
		}
	}
	if oldest != nil {
		delete(h.entries, oldest.key)
	}
}

// Health says how a server does for a user.
func (h *Hub) Health(a actor.Actor, s server.Server) server.Health {
	h.mu.Lock()
	e, ok := h.entries[key{a.UID, s.UID, s.Name, s.Version}]
	h.mu.Unlock()
	if !ok {
		return server.Health{State: server.Idle}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	out := e.health
	out.Stderr = e.stderr
	if e.session != nil {
		out.Stderr = e.session.stderr()
	}
	return out
}

// States counts the servers that were asked, by how they do.
func (h *Hub) States() map[server.State]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	counts := map[server.State]int{}
	for _, e := range h.entries {
		counts[e.state()]++
	}
	return counts
}

// Connections is how many are open.
func (h *Hub) Connections() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.open)
}

// sweep closes connections that nobody uses.
func (h *Hub) sweep(ctx context.Context) {
	ticker := time.NewTicker(min(sweepEvery, h.settings.Idle))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		h.closeIdle(h.deps.Now().Add(-h.settings.Idle))
	}
}

func (h *Hub) closeIdle(before time.Time) {
	for _, s := range h.sessions() {
		if e := s.entry; !e.busy() && e.lastUse().Before(before) {
			h.close(s)
		}
	}
}
