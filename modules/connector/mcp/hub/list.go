package hub

import (
	"context"
	"errors"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/connector/mcp/listing"
	"github.com/portico-run/portico/modules/connector/mcp/server"
)

// Tools returns what a server offers. It asks the server where that is not known,
// or where the server said that it changed; where the list is only old, or the
// server failed last, it is renewed meanwhile. A list that cannot be renewed stays. The error is an
// *upstream.Failure where the server has never been listed.
func (h *Hub) Tools(ctx context.Context, a actor.Actor, s server.Server) (server.List, error) {
	e := h.entry(a, s)
	if err := h.recall(ctx, e, s); err != nil {
		return server.List{}, err
	}
	e.mu.Lock()
	list, known, stale, failure := e.list, e.known, e.stale, e.failure
	old := h.deps.Now().Sub(e.listed) >= h.refresh(s)
	e.mu.Unlock()
	switch {
	case known && !stale && !old:
		return list, nil
	case known && (!stale || failure != nil):
		h.later(e)
		return list, nil //nolint:nilerr // the failure of another time
	case failure != nil: // it keeps nobody waiting twice
		h.later(e)
		return server.List{}, failure
	}
	renewed, err := h.renew(ctx, e)
	if err != nil && known && ctx.Err() == nil {
		return list, nil
	}
	return renewed, err
}

// later renews a list while nobody waits. The entry notes what goes wrong.
func (h *Hub) later(e *entry) {
	if e.waits(h.deps.Now()) == nil {
		h.spawn(func(ctx context.Context) { _, _ = h.renew(ctx, e) })
	}
}

// Refresh asks a server what it offers now, also where it failed a moment ago.
func (h *Hub) Refresh(ctx context.Context, a actor.Actor, s server.Server) (server.List, error) {
	e := h.entry(a, s)
	e.mu.Lock()
	e.again = time.Time{}
	e.mu.Unlock()
	return h.renew(ctx, e)
}

func (h *Hub) refresh(s server.Server) time.Duration {
	if s.Refresh > 0 {
		return s.Refresh
	}
	return h.settings.Refresh
}

// recall reads the list that was kept, by this process or another one, where
// none is known.
func (h *Hub) recall(ctx context.Context, e *entry, s server.Server) error {
	e.mu.Lock()
	known := e.known
	e.mu.Unlock()
	if known {
		return nil
	}
	last, err := h.deps.Directory.Last(ctx, s)
	if err != nil {
		return err
	}
	if last.Hash == "" {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.known {
		e.list, e.known, e.listed = last, true, last.Listed
	}
	return nil
}

// renew asks the server; callers share the question.
func (h *Hub) renew(ctx context.Context, e *entry) (server.List, error) {
	return h.lists.Do(ctx, e.key, func(ctx context.Context) (server.List, error) {
		defer e.begin(h.deps.Now)()
		s, err := h.connect(ctx, e)
		if err != nil {
			return server.List{}, err
		}
		ctx, cancel := context.WithTimeout(ctx, h.settings.List)
		defer cancel()
		e.mu.Lock()
		stale := e.stale
		e.stale = false // what changes from here on is told again
		e.mu.Unlock()
		list, err := listing.Fetch(ctx, s.ClientSession)
		if err != nil {
			f := h.explain(e, err)
			e.mu.Lock()
			e.stale = e.stale || stale || !e.known
			e.is(server.Degraded, f.Message, h.deps.Now())
			e.mu.Unlock()
			return list, f
		}
		list.Listed = h.deps.Now()
		e.works(list.Listed)
		h.keep(ctx, e, list)
		return list, nil
	})
}

// keep notes a new list, and tells of what is different.
func (h *Hub) keep(ctx context.Context, e *entry, list server.List) {
	e.mu.Lock()
	before, known, s := e.list, e.known, e.server
	e.list, e.known, e.listed = list, true, list.Listed
	e.mu.Unlock()
	if known && before.Hash != list.Hash {
		if c := listing.Differs(before, list); !c.None() {
			h.deps.Logger.WarnContext(ctx, "the tools of an MCP server changed", "server", s.Name, "uid", e.key.uid, "added", c.Added, "removed", c.Removed, "changed", c.Changed)
			if h.deps.Changed != nil {
				h.deps.Changed(ctx, e.actor, s, c)
			}
		}
	}
	if err := h.deps.Directory.Keep(ctx, s, list); err != nil {
		h.deps.Logger.ErrorContext(ctx, "the list of an MCP server is not kept", "server", s.Name, "error", err)
	}
}

// between is how long a server's next word of a change waits at least.
const between = time.Second

// changed renews a list because the server says that it is another one.
func (h *Hub) changed(e *entry) {
	e.mu.Lock()
	e.stale = true
	begun := e.renewing
	e.renewing = true
	e.mu.Unlock()
	if begun {
		return
	}
	h.spawn(func(ctx context.Context) {
		for again := true; again; {
			_, err := h.renew(ctx, e)
			select {
			case <-ctx.Done():
				return
			case <-time.After(between):
			}
			e.mu.Lock()
			again = err == nil && e.stale && e.session != nil // else whoever needs the list asks again
			e.renewing = again
			e.mu.Unlock()
		}
	})
}

// Server finds the server that a name means to an actor.
func (h *Hub) Server(ctx context.Context, a actor.Actor, name string) (server.Server, error) {
	return h.deps.Directory.Find(ctx, a, name)
}

// Servers are those that an actor may use.
func (h *Hub) Servers(ctx context.Context, a actor.Actor) ([]server.Server, error) {
	return h.deps.Directory.All(ctx, a)
}

// Unusable is the error of a toolset whose server cannot be asked.
func Unusable(name string, err error) error {
	if f, ok := errors.AsType[*upstream.Failure](err); ok {
		return errs.Newf(errs.Unavailable, "Toolset %s cannot be used at the moment: %s", name, f.Message).With(err)
	}
	return err
}
