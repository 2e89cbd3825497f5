package hub

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/connector/mcp/server"
	"github.com/portico-run/portico/modules/connector/mcp/stdio"
	"github.com/portico-run/portico/modules/connector/mcp/wire"
)

// legacy is the last revision of the protocol that begins with initialize.
const legacy = "2025-11-25"

// session is one connection.
type session struct {
	*mcp.ClientSession
	entry   *entry
	process *stdio.Process // nil over HTTP

	mu     sync.Mutex
	calls  map[string]*call // in flight, by their progress tokens
	next   int
	closed bool // by the hub
}

func (s *session) stderr() string {
	if s.process == nil {
		return ""
	}
	return s.process.Stderr()
}

// connect returns the connection of an entry, and makes it where there is none.
// Callers share the attempt; none of them decides how long it takes.
func (h *Hub) connect(ctx context.Context, e *entry) (*session, error) {
	e.mu.Lock()
	s := e.session
	e.mu.Unlock()
	if s != nil {
		return s, nil
	}
	if f := e.waits(h.deps.Now()); f != nil {
		return nil, f
	}
	s, err := h.connects.Do(ctx, e.key, func(ctx context.Context) (*session, error) { return h.establish(ctx, e) })
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return s, err
}

// establish makes a connection and notes how that went.
func (h *Hub) establish(ctx context.Context, e *entry) (*session, error) {
	if err := h.reserve(e.key.uid); err != nil {
		return nil, err
	}
	defer h.unreserve(e.key.uid)
	e.mu.Lock()
	if s := e.session; s != nil {
		e.mu.Unlock()
		return s, nil
	}
	e.is(server.Connecting, "", h.deps.Now())
	e.mu.Unlock()
	s, err := h.dial(ctx, e)
	if err != nil {
		if h.life.Err() != nil || errors.Is(err, context.Canceled) {
			return nil, err
		}
		f := h.explain(e, err)
		e.fails(f, h.deps.Now())
		h.deps.Logger.WarnContext(ctx, "an MCP server cannot be used", "server", e.key.name, "uid", e.key.uid, "error", f.Message, "cause", started(err))
		return nil, f
	}
	h.mu.Lock()
	if h.life.Err() != nil {
		h.mu.Unlock()
		_ = s.shut() // the hub has ended
		return nil, context.Canceled
	}
	h.open[s] = e
	h.mu.Unlock()
	e.mu.Lock()
	e.session, e.legacy, e.stale = s, s.InitializeResult().ProtocolVersion <= legacy, true
	e.mu.Unlock()
	e.works(h.deps.Now())
	h.spawn(func(context.Context) { h.watch(s) })
	return s, nil
}

// dial tries the era that the server spoke before, or else finds out. A process
// that says nothing to the question of the new era may be one of the old era.
func (h *Hub) dial(ctx context.Context, e *entry) (*session, error) {
	e.mu.Lock()
	version := ""
	if e.legacy {
		version = legacy
	}
	e.legacy = false // the next attempt finds out again
	e.mu.Unlock()
	s, err := h.attempt(ctx, e, version)
	if err != nil && e.current().Transport == server.Stdio && version == "" && errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return h.attempt(ctx, e, legacy)
	}
	return s, err
}

func (h *Hub) attempt(ctx context.Context, e *entry, version string) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, h.settings.Connect)
	defer cancel()
	s := &session{entry: e, calls: map[string]*call{}}
	transport, err := h.transport(ctx, s)
	if err != nil {
		return nil, err
	}
	s.ClientSession, err = h.client(s).Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		if s.process != nil {
			err = errors.Join(err, s.process.Close())
			e.mu.Lock()
			e.stderr = s.process.Stderr()
			e.mu.Unlock()
			if f := overLimit(e.key.name, s.process); f != nil && ctx.Err() == nil {
				return nil, f
			}
		}
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", ctx.Err(), err)
		}
		return nil, err
	}
	return s, nil
}

// client is the MCP client of one session. It offers servers to ask people, and
// nothing else: no roots, no sampling.
func (h *Hub) client(s *session) *mcp.Client {
	c := mcp.NewClient(&mcp.Implementation{Name: "portico", Version: "1"}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{
			Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{},
		}},
		MultiRoundTrip:              &mcp.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler:      func(context.Context, *mcp.ToolListChangedRequest) { h.changed(s.entry) },
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { s.progress(r.Params) },
	})
	c.AddReceivingMiddleware(s.asks)
	return c
}

func (h *Hub) transport(ctx context.Context, s *session) (mcp.Transport, error) {
	of := s.entry.current()
	if of.Transport == server.Stdio {
		if h.deps.Processes == nil {
			return nil, &upstream.Failure{Code: CodeNotAllowed, Message: "This server starts no processes for MCP servers."}
		}
		var err error
		if s.process, err = h.deps.Processes.Start(ctx, of); err != nil {
			return nil, err
		}
		limit := int(h.settings.ResponseCap)
		return &mcp.IOTransport{
			Reader: wire.NewLines(s.process.Stdout, limit, s.process.Note), Writer: s.process.Stdin, MaxLineLength: -1,
		}, nil
	}
	var handler auth.OAuthHandler
	if h.deps.Authorizer != nil {
		var err error
		if handler, err = h.deps.Authorizer.Authorizer(ctx, s.entry.actor, of); err != nil {
			return nil, err
		}
	}
	return &mcp.StreamableClientTransport{
		Endpoint: of.URL, OAuthHandler: handler, MaxEventSize: -1, // Tripper bounds them
		HTTPClient: &http.Client{
			Transport:     &wire.Tripper{Client: h.deps.Client, Server: of, Limit: h.settings.ResponseCap, Authorized: handler != nil, Sends: s.entry.sends},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// watch notes that a connection ended by itself.
func (h *Hub) watch(s *session) {
	err := s.Wait()
	h.mu.Lock()
	delete(h.open, s)
	h.mu.Unlock()
	e := s.entry
	e.mu.Lock()
	if e.session == s {
		e.session = nil
	}
	e.mu.Unlock()
	if s.process != nil {
		_ = s.process.Close() // what is left of its group; all that it wrote has been read then
		e.mu.Lock()
		e.stderr = s.stderr()
		e.mu.Unlock()
	}
	s.mu.Lock()
	expected := s.closed
	s.mu.Unlock()
	if expected {
		return
	}
	h.deps.Logger.Warn("an MCP server ended its connection", "server", e.key.name, "uid", e.key.uid, "error", err)
	if s.process == nil { // the next call connects again
		e.mu.Lock()
		e.is(server.Idle, "", h.deps.Now())
		e.mu.Unlock()
		return
	}
	f := overLimit(e.key.name, s.process)
	if f == nil {
		f = &upstream.Failure{Code: upstream.CodeUnavailable, Message: fmt.Sprintf("The process of MCP server %s ended.", e.key.name)}
	}
	e.fails(f, h.deps.Now())
}

// close ends a connection that is not used any more.
func (h *Hub) close(s *session) {
	h.mu.Lock()
	delete(h.open, s)
	h.mu.Unlock()
	e := s.entry
	e.mu.Lock()
	if e.session == s {
		e.session = nil
		if e.health.State == server.Ready {
			e.is(server.Idle, "", h.deps.Now())
		}
	}
	e.mu.Unlock()
	if err := s.shut(); err != nil {
		h.deps.Logger.Debug("the end of a connection to an MCP server", "server", e.key.name, "error", err)
	}
}

func (s *session) shut() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	if s.process == nil {
		return s.Close()
	}
	err := s.process.Close() // first: Close of the session waits for it
	return errors.Join(s.Close(), err)
}

// reserve makes room for one connection of a user: those that nobody uses are
// closed for it, the one that was used longest ago first.
func (h *Hub) reserve(uid string) error {
	for {
		h.mu.Lock()
		own, all := h.opening[uid], len(h.open)
		for _, n := range h.opening {
			all += n
		}
		for _, e := range h.open {
			if e.key.uid == uid {
				own++
			}
		}
		if own < h.settings.PerUser && all < h.settings.Connections {
			h.opening[uid]++
			h.mu.Unlock()
			return nil
		}
		victim := h.victim(uid, own >= h.settings.PerUser)
		h.mu.Unlock()
		if victim == nil {
			return &upstream.Failure{Code: upstream.CodeUnavailable, Message: "Too many connections to MCP servers are in use. Try again when other calls have ended."}
		}
		h.close(victim)
	}
}

func (h *Hub) unreserve(uid string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.opening[uid]--; h.opening[uid] <= 0 {
		delete(h.opening, uid)
	}
}

// victim is the connection without calls that was used longest ago; h.mu is held.
func (h *Hub) victim(uid string, own bool) *session {
	var found *session
	var oldest time.Time
	for s, e := range h.open {
		if (own && e.key.uid != uid) || e.busy() {
			continue
		}
		if used := e.lastUse(); found == nil || used.Before(oldest) {
			found, oldest = s, used
		}
	}
	return found
}
