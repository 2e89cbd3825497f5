// Package approval makes calls of tools wait until a person allows them.
//
// A policy says which calls do: toolset files, rules of operators for toolsets,
// tools, users and keys, the request that began the program, and, where none of
// these says anything, whether the tool may write. A call that waits is a row
// beside its record. Whoever decides changes that row; the process that makes the
// call sees it and goes on. Nothing is sent before.
package approval

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/cached"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/wake"
	"github.com/portico-run/portico/modules/run/record"
)

// Deps is what the module needs.
type Deps struct {
	DB      *database.DB
	Records *record.Service
	Hub     *wake.Hub // that DB tells of its commits
	// Check refuses arguments that the schema of a tool does not take.
	Check    func(ctx context.Context, a actor.Actor, toolset, tool string, arguments json.RawMessage) error
	Client   Client // for the webhook
	Settings Settings
	Logger   *slog.Logger
	// Now tells the time; nil is the wall clock.
	Now func() time.Time
}

// Client sends a request to whom the networks allow.
type Client interface {
	Do(r *http.Request, allow []netip.Prefix) (*http.Response, error)
}

// Settings are the limits of this server.
type Settings struct {
	// Default is for tools that may write and of which nothing else is said.
	Default Level
	// Expiry is how long a call waits before it is refused by itself.
	Expiry time.Duration
	// MaxWaiting is how many calls of one user may wait; zero is 100.
	MaxWaiting int
	// Poll is how late a decision may be noticed whose wake-up was lost; zero is a
	// second.
	Poll time.Duration
	// Webhook is told of every call that waits; empty tells nobody. Secret signs
	// what it is sent.
	Webhook, Secret string
	// Console is the address of the console, for links; empty where there is none.
	Console string
}

// Module is the wired package.
type Module struct {
	Service *Service

	once sync.Once
	stop context.CancelFunc
	done chan struct{}
}

// New wires the module and starts nothing.
func New(d Deps) *Module {
	if d.Now == nil {
		d.Now = d.DB.Now
	}
	if d.Settings.MaxWaiting == 0 {
		d.Settings.MaxWaiting = 100
	}
	if d.Settings.Poll == 0 {
		d.Settings.Poll = time.Second
	}
	s := &Service{deps: d, quits: make(chan struct{}), rules: cached.New[string, []rule](cached.Settings{Max: maxKnown, Age: knownLife, Now: d.Now})}
	d.Hub.Follow(rulesChanged, func(string) { s.rules.Drop(func(string, []rule) bool { return true }) })
	return &Module{Service: s}
}

// Start begins to look after approvals in the background: those that nobody waits
// for any more expire, and the webhook is told.
func (m *Module) Start(ctx context.Context) error {
	ctx, m.stop = context.WithCancel(context.WithoutCancel(ctx)) //nolint:gosec // Stop calls it
	m.done = make(chan struct{})
	go func() {
		defer close(m.done)
		m.Service.look(ctx)
	}()
	return nil
}

// Stop ends what Start began.
func (m *Module) Stop(context.Context) error {
	if m.stop == nil {
		return nil
	}
	m.once.Do(m.stop)
	<-m.done
	return nil
}

// Register adds the module's operations to the API.
func (m *Module) Register(api *httpapi.API) { controller{m.Service}.register(api) }
