package kept

import (
	"context"
	"crypto/rand"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/peer"
)

// Header names the session of a request.
const Header = "Mcp-Session-Id"

var (
	// ErrNoSession is the answer where this process has no such session of the caller's:
	// clients begin another one.
	ErrNoSession = errs.New(errs.NotFound, "There is no such session.").Do("Begin another one: send initialize without the header Mcp-Session-Id.")
	errFull      = errs.New(errs.RateLimited, "There are as many sessions as there may be, and all of them are at work.").Do("Let one of them end first.").After(time.Second)
)

// session is one of a client of the older era. The keeper's lock guards what follows
// the blank line.
type session struct {
	id        string
	uid       string
	kind      Kind
	transport *mcp.StreamableServerTransport
	server    *mcp.ServerSession
	leave     func() // its server object

	used time.Time
	busy int  // requests in it
	gone bool // the keeper knows it no more
}

// Open begins a session with the request that asks for one, initialize.
func (k *Keeper) Open(w http.ResponseWriter, r *http.Request, who actor.Actor) error {
	s, err := k.open(who)
	if err != nil {
		return err
	}
	s.transport.ServeHTTP(w, r)
	k.mu.Lock()
	defer k.mu.Unlock()
	if s.server.InitializeParams() == nil { // it was refused
		k.drop(s)
	}
	k.rest(s)
	return nil
}

// open makes a session with one request in it.
func (k *Keeper) open(who actor.Actor) (*session, error) {
	o, leave := k.enter(who)
	s := &session{id: k.newID(), uid: who.UID, kind: kindOf(who), leave: leave, busy: 1}
	s.transport = &mcp.StreamableServerTransport{SessionID: s.id}
	// Its requests bring what is theirs; it knows nothing of the one that began it.
	var err error
	if s.server, err = o.server.Connect(context.Background(), s.transport, nil); err != nil {
		leave()
		return nil, errs.New(errs.Internal, "The session cannot begin.").With(err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.room(who.UID) {
		s.gone = true
		k.rest(s)
		return nil, errFull
	}
	k.sessions[s.id] = s
	return s, nil
}

// newID is the id of a new session. Where there are other processes, it names this one.
func (k *Keeper) newID() string {
	if k.settings.Self == "" {
		return rand.Text()
	}
	return rand.Text() + "-" + k.settings.Self
}

// elsewhere is the error for a session that this process does not have.
func (k *Keeper) elsewhere(id string) error {
	_, node, named := strings.Cut(id, "-")
	if k.settings.Self == "" || !named || node == k.settings.Self {
		return ErrNoSession
	}
	return &peer.Elsewhere{Node: node, Gone: func(context.Context) error { return ErrNoSession }}
}

// room makes room for another session of a user, in the place of the one in which
// nothing happens for the longest time: of theirs where they have as many as one may
// have, else of anybody's. Callers hold the lock.
func (k *Keeper) room(uid string) bool {
	if k.Stops() {
		return false
	}
	theirs := 0
	for _, s := range k.sessions {
		if s.uid == uid {
			theirs++
		}
	}
	own := theirs >= k.settings.PerUser
	if !own && len(k.sessions) < k.settings.Sessions {
		return true
	}
	var oldest *session
	for _, s := range k.sessions {
		if s.busy == 0 && (s.uid == uid || !own) && (oldest == nil || s.used.Before(oldest.used)) {
			oldest = s
		}
	}
	if oldest == nil {
		return false
	}
	k.drop(oldest)
	return true
}

// Continue answers a request in a session.
func (k *Keeper) Continue(w http.ResponseWriter, r *http.Request, who actor.Actor) error {
	s, err := k.find(r.Header.Get(Header), who)
	if err != nil {
		return err
	}
	defer k.done(s)
	s.transport.ServeHTTP(w, r)
	return nil
}

// maxID is how long the id of a session may be.
const maxID = 64

// End ends a session, with the last request in it.
func (k *Keeper) End(id string, who actor.Actor) error {
	if id == "" || len(id) > maxID {
		return errs.New(errs.Invalid, "The header Mcp-Session-Id must name the session, in 1 to 64 characters.")
	}
	s, err := k.find(id, who)
	if err != nil {
		return err
	}
	defer k.done(s)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.drop(s)
	return nil
}

// find is a session of the caller's, with one request more in it. A credential that may
// do less, or more, than the one it was begun with is in another's session. The error is
// a peer.Elsewhere where another process has it.
func (k *Keeper) find(id string, who actor.Actor) (*session, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.sessions[id]
	if s == nil {
		return nil, k.elsewhere(id)
	}
	if s.uid != who.UID || s.kind != kindOf(who) {
		return nil, ErrNoSession
	}
	s.busy++
	return s, nil
}

func (k *Keeper) done(s *session) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.rest(s)
}

// rest says that a request in a session is over. Callers hold the lock.
func (k *Keeper) rest(s *session) {
	s.busy--
	s.used = k.settings.Now()
	if s.gone && s.busy == 0 {
		k.shut(s)
	}
}

// drop forgets a session; it is closed when no request is in it. Callers hold the lock.
func (k *Keeper) drop(s *session) {
	if s.gone {
		return
	}
	s.gone = true
	delete(k.sessions, s.id)
	if s.busy == 0 {
		k.shut(s)
	}
}

// shut closes a session that is forgotten. What was begun in it may take a moment to
// notice that its client has gone.
func (k *Keeper) shut(s *session) {
	k.work.Go(func() {
		defer s.leave()
		if err := s.server.Close(); err != nil {
			k.settings.Logger.Debug("a session of an MCP client does not close", "error", err)
		}
	})
}
