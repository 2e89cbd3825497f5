package hub

import (
	"slices"
	"sync"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/connector/mcp/server"
)

// entry is what is known of one server as one user has it.
type entry struct {
	key   key
	actor actor.Actor

	mu      sync.Mutex
	server  server.Server
	session *session // nil where nothing is connected
	calls   int      // that are in flight
	used    time.Time
	health  server.Health
	stderr  string // of the process before
	// legacy says that the server speaks the protocol of the era before.
	legacy bool

	list     server.List
	known    bool      // list is what the server offered, now or before
	listed   time.Time // when the server was asked last and answered
	stale    bool      // the server said that its list is another one
	renewing bool      // a goroutine lists because the server said so

	sent []string // values of Authorization that requests had last

	failures int
	again    time.Time         // nothing is tried before
	failure  *upstream.Failure // why not
}

// Waits after failures: the first, and the longest.
const (
	firstWait   = time.Second
	longestWait = time.Minute
)

func (e *entry) busy() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.calls > 0
}

func (e *entry) lastUse() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.used
}

func (e *entry) state() server.State {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.health.State
}

func (e *entry) current() server.Server {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.server
}

// sentKept is how many values of Authorization are known: a token may be another
// one before the answer to the one before is there.
const sentKept = 4

// sends notes what a request has as Authorization.
func (e *entry) sends(authorization string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if slices.Contains(e.sent, authorization) {
		return
	}
	e.sent = append(e.sent[max(0, len(e.sent)+1-sentKept):], authorization)
}

// secrets are the texts that the server must not give back.
func (e *entry) secrets() upstream.Secrets {
	e.mu.Lock()
	defer e.mu.Unlock()
	return secretsOf(e.server, e.sent)
}

// words are what the server said, without secrets and cut to the length of a reason.
func (e *entry) words(text string) string {
	return upstream.Limit(string(e.secrets().Redact([]byte(text))), upstream.MaxReason)
}

// begin counts a call; the function it returns ends it.
func (e *entry) begin(now func() time.Time) (end func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls++
	e.used = now()
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.calls--
		e.used = now()
	}
}

// is notes a state; e.mu is held.
func (e *entry) is(state server.State, reason string, now time.Time) {
	if e.health.State != state {
		e.health.Since = now
	}
	e.health.State, e.health.Reason = state, reason
	if state != server.AuthNeeded {
		e.health.ConnectURL = ""
	}
}

// works notes that the server answered as it should.
func (e *entry) works(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.failures, e.failure, e.again = 0, nil, time.Time{}
	e.is(server.Ready, "", now)
}

// fails notes why the server cannot be used, and for how long nothing is tried.
// A user who authorizes Portico is not made to wait.
func (e *entry) fails(f *upstream.Failure, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if f.Code == CodeAuthNeeded {
		e.is(server.AuthNeeded, f.Message, now)
		e.health.ConnectURL = connectURL(f)
		return
	}
	e.failures++
	e.failure = f
	e.again = now.Add(min(firstWait<<min(e.failures-1, 16), longestWait))
	e.is(server.Degraded, f.Message, now)
}

// waits is why nothing is tried at the moment; nil where it may be.
func (e *entry) waits(now time.Time) *upstream.Failure {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !now.Before(e.again) || e.failure == nil {
		return nil
	}
	f := *e.failure
	f.Message += " It is tried again in " + (e.again.Sub(now).Truncate(time.Second) + time.Second).String() + "."
	return &f
}
