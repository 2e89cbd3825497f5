// Package kept holds what lasts longer than a request of an MCP client: server objects,
// and the sessions of clients of the older era that can ask the person in front of them.
// Both are bounded, and end when nobody uses them. Neither knows whose request it
// serves: a request brings its caller.
package kept

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/portico-run/portico/internal/actor"
)

// Settings bound what is kept. Zero values are the usual ones.
type Settings struct {
	// Build makes the server object for callers of a kind. It is not told who they are,
	// so that an object cannot know it.
	Build func(k Kind) *mcp.Server
	// Servers is how many server objects there are; Idle is after how long one goes
	// that nobody uses.
	Servers int
	Idle    time.Duration
	// Sessions is how many there are, PerUser how many of one user, and SessionIdle
	// after how long one ends in which nothing happens.
	Sessions, PerUser int
	SessionIdle       time.Duration

	// Self is the id of this process, where others can answer for it: the ids of its
	// sessions name it. Empty where this process is alone.
	Self string

	MaxBody int64 // bytes of a request
	Logger  *slog.Logger
	Now     func() time.Time
}

// The usual bounds. An idle session costs some 30 KB.
const (
	usualServers     = 1000
	usualIdle        = 10 * time.Minute
	usualSessions    = 2000
	usualPerUser     = 16
	usualSessionIdle = 4 * time.Hour
	sweepEvery       = time.Minute
)

// Kind is what a credential may do.
type Kind struct {
	Scope  actor.Scope
	Rights actor.Rights
}

// holder is whom a server object is for: a user with one credential.
type holder struct {
	uid, key string
	kind     Kind
}

// Keeper keeps server objects and sessions. It owns what it starts: Stop ends all.
type Keeper struct {
	settings Settings

	mu       sync.Mutex
	servers  map[holder]*object
	sessions map[string]*session

	stopping chan struct{}
	end      sync.Once
	work     sync.WaitGroup // what sweeps, and what closes sessions
}

// New returns a keeper that has nothing yet. Without Start, nothing ends by being idle.
func New(s Settings) *Keeper {
	for _, of := range []struct {
		value *int
		usual int
	}{{&s.Servers, usualServers}, {&s.Sessions, usualSessions}, {&s.PerUser, usualPerUser}} {
		if *of.value == 0 {
			*of.value = of.usual
		}
	}
	if s.Idle == 0 {
		s.Idle = usualIdle
	}
	if s.SessionIdle == 0 {
		s.SessionIdle = usualSessionIdle
	}
	if s.Now == nil {
		s.Now = time.Now
	}
	if s.Logger == nil {
		s.Logger = slog.New(slog.DiscardHandler)
	}
	return &Keeper{settings: s, servers: map[holder]*object{}, sessions: map[string]*session{}, stopping: make(chan struct{})}
}

// Start implements lifecycle.Service.
func (k *Keeper) Start(context.Context) error {
	k.work.Go(func() {
		tick := time.NewTicker(sweepEvery)
		defer tick.Stop()
		for {
			select {
			case <-k.stopping:
				return
			case <-tick.C:
				k.Sweep()
			}
		}
	})
	return nil
}

// Quiesce asks nobody anything any more, and begins no session. What is under way goes
// on.
func (k *Keeper) Quiesce() { k.end.Do(func() { close(k.stopping) }) }

// Stop ends everything, when no request is under way any more.
func (k *Keeper) Stop(ctx context.Context) error {
	k.Quiesce()
	k.mu.Lock()
	for _, s := range k.sessions {
		k.drop(s)
	}
	clear(k.servers)
	k.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.work.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Stopping is closed by Quiesce.
func (k *Keeper) Stopping() <-chan struct{} { return k.stopping }

// Stops reports whether it begins no more sessions.
func (k *Keeper) Stops() bool {
	select {
	case <-k.stopping:
		return true
	default:
		return false
	}
}

// Sweep ends what was idle for too long.
func (k *Keeper) Sweep() {
	now := k.settings.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.sessions {
		if s.busy == 0 && now.Sub(s.used) >= k.settings.SessionIdle {
			k.drop(s)
		}
	}
	for of, o := range k.servers {
		if o.busy == 0 && now.Sub(o.used) >= k.settings.Idle {
			delete(k.servers, of)
		}
	}
}

// Kept counts the server objects and the sessions.
func (k *Keeper) Kept() (servers, sessions int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.servers), len(k.sessions)
}

// Serve answers one request without a session: any process can.
func (k *Keeper) Serve(w http.ResponseWriter, r *http.Request, who actor.Actor) {
	o, leave := k.enter(who)
	defer leave()
	o.handler.ServeHTTP(w, r)
}
