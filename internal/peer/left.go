package peer

import (
	"context"
	"encoding/json"
	"io"
	"sync"

	"github.com/portico-run/portico/internal/actor"
)

// opLeft says that the client of a forwarded request has left.
const opLeft = "left"

// clients are those of forwarded requests that this process answers.
type clients struct {
	mu     sync.Mutex
	leaves map[string]context.CancelFunc // by user and the id of the request
}

// follow is the context of a forwarded request. It ends when its client leaves, as the
// process that forwards it says, and when this process stops. It does not end when the
// connection between the two breaks: that process may have died, and the client ask
// again at another one.
func (s *Service) follow(ctx context.Context, uid, id string) (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stopped := context.AfterFunc(s.listener.works, cancel)
	key := uid + "\x00" + id
	s.clients.mu.Lock()
	defer s.clients.mu.Unlock()
	s.clients.leaves[key] = cancel
	return ctx, func() {
		s.clients.mu.Lock()
		delete(s.clients.leaves, key)
		s.clients.mu.Unlock()
		stopped()
		cancel()
	}
}

func (s *Service) serveLeft(_ context.Context, who actor.Actor, body io.Reader) (any, error) {
	var id string
	if err := json.NewDecoder(body).Decode(&id); err != nil {
		return nil, err
	}
	s.clients.mu.Lock()
	defer s.clients.mu.Unlock()
	cancel := s.clients.leaves[who.UID+"\x00"+id]
	if cancel != nil {
		cancel()
	}
	return cancel != nil, nil
}

// tellLeft says that a client has left, unless it is this process that leaves.
func (s *Service) tellLeft(ctx context.Context, to string, who actor.Actor, id string) {
	if ctx.Err() == nil || s.deps.Ends != nil && s.deps.Ends() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.deps.Times.Accept)
	defer cancel()
	if err := s.Ask(ctx, to, Call{Op: opLeft, Who: who, In: id}, nil); err != nil {
		s.deps.Logger.WarnContext(ctx, "another process was not told that a client left", "error", err)
	}
}
