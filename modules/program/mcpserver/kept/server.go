package kept

import (
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/portico-run/portico/internal/actor"
)

// object is a server object, with what answers requests without a session. The keeper's
// lock guards used and busy.
type object struct {
	server  *mcp.Server
	handler http.Handler
	used    time.Time
	busy    int // requests and sessions that use it
}

func kindOf(who actor.Actor) Kind { return Kind{Scope: who.Scope, Rights: who.Rights} }

// enter finds or makes the server object for a caller, and keeps it until leave.
func (k *Keeper) enter(who actor.Actor) (o *object, leave func()) {
	of := holder{uid: who.UID, key: who.KeyID, kind: kindOf(who)}
	k.mu.Lock()
	o = k.servers[of]
	if o != nil {
		o.busy++
	}
	k.mu.Unlock()
	if o == nil {
		o = k.add(of)
	}
	return o, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		o.busy--
		o.used = k.settings.Now()
	}
}

// add makes a server object. Where there are as many as there may be and all of them
// are in use, it serves one request and is not kept.
func (k *Keeper) add(of holder) *object {
	server := k.settings.Build(of.kind)
	made := &object{server: server, busy: 1, handler: mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{
		Stateless: true, MaxRequestBodyBytes: k.settings.MaxBody, PropagateRequestCancellation: true, DisableLocalhostProtection: true, // hosts and origins are checked before
	})}
	k.mu.Lock()
	defer k.mu.Unlock()
	if o := k.servers[of]; o != nil { // made by another request meanwhile
		o.busy++
		return o
	}
	if len(k.servers) < k.settings.Servers || k.evict() {
		k.servers[of] = made
	}
	return made
}

// evict lets the server object go that nobody uses for the longest time: no session and
// no request is in it, so that nothing of it is left. Callers hold the lock.
func (k *Keeper) evict() bool {
	var oldest *object
	var whose holder
	for of, o := range k.servers {
		if o.busy == 0 && (oldest == nil || o.used.Before(oldest.used)) {
			oldest, whose = o, of
		}
	}
	if oldest == nil {
		return false
	}
	delete(k.servers, whose)
	return true
}
