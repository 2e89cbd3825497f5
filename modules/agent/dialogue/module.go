package dialogue

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/lifecycle"
	"github.com/portico-run/portico/internal/wake"
	"github.com/portico-run/portico/modules/agent/loop"
	"github.com/portico-run/portico/modules/billing"
	"github.com/portico-run/portico/modules/billing/price"
	"github.com/portico-run/portico/modules/catalogue"
	"github.com/portico-run/portico/modules/codeapi/execution"
	"github.com/portico-run/portico/modules/model"
	"github.com/portico-run/portico/modules/program"
	"github.com/portico-run/portico/modules/tool/approval"
)

// Model is the models by their names; named.Set does.
type Model interface {
	loop.Model
	loop.Provider
	Known
	CountTokens(ctx context.Context, req model.Request) (model.Counted, error)
}

// Known says which models there are.
type Known interface {
	Has(name string) bool
	Names() []string
}

// Executions runs programs that wait for their caller.
type Executions interface {
	Start(ctx context.Context, a actor.Actor, req execution.ProgramRequest) (execution.Reply, error)
	Continue(ctx context.Context, a actor.Actor, token string, results []execution.ToolResult, request string) (execution.Reply, error)
	// Waits reports whether a program can be continued.
	Waits(a actor.Actor, token string) bool
}

// Toolsets knows what users have, and what programs can call of it.
type Toolsets interface {
	// Usable lists the keys of the toolsets and MCP servers that a user may use.
	Usable(ctx context.Context, a actor.Actor) ([]string, error)
	// Describe tells what programs can call. The warnings say what could not be
	// described.
	Describe(ctx context.Context, a actor.Actor, keys []string, selected map[string][]string) (*catalogue.Catalogue, []string, error)
	// State reads how far a program with toolsets has come.
	State(ctx context.Context, a actor.Actor, callID string, calls bool) (program.State, error)
}

// Sessions keeps the files of programs.
type Sessions interface {
	// Touch makes a session live from now, and says until when; a new one where none is
	// named. The error is session.ErrMissing for one that is over.
	Touch(ctx context.Context, a actor.Actor, session string) (id string, until time.Time, err error)
}

// Approvals settles calls that wait for a person.
type Approvals interface {
	Get(ctx context.Context, a actor.Actor, callID string) (approval.Approval, error)
	Decide(ctx context.Context, a actor.Actor, r approval.Ruling) (approval.Approval, error)
}

// Billing is where answers of models are paid for.
type Billing interface {
	ChargeModel(ctx context.Context, tx database.Tx, c billing.ModelCharge) error
	// AdmitModel refuses a request when nothing is left of what may be spent.
	AdmitModel(ctx context.Context, uid, resultID string, version int) error
}

// Settings are the limits of requests.
type Settings struct {
	// Requests is how often the model is asked for one request of a client, and Wall
	// how long that may take. 0 takes 25 and 30 minutes.
	Requests int
	Wall     time.Duration
	// Output is the most of one output that the model is given, in bytes; 0 takes
	// 64 KiB.
	Output int
	// Idle is how long what waits for a client waits; that of executions.
	Idle time.Duration
	// Price is what the tokens of a model cost, by its name.
	Price func(model string) price.Tokens
	// Window is how much a model reads and writes, by its name; nil knows of none.
	Window func(model string) Window
	// Busy is how many requests of one user are worked on at once; 0 takes 64.
	Busy int
	// Peers are the other processes, which hold conversations, too; nil where this one
	// is alone.
	Peers Peers
	// Grace is how long a request is worked on that nobody follows; 0 takes 10
	// seconds, within which clients come back.
	Grace time.Duration
}

// Running is where programs run.
type Running struct {
	Executions Executions
	Sessions   Sessions
}

// Deps is what the service needs.
type Deps struct {
	DB        *database.DB
	Model     Model
	Programs  Running
	Toolsets  Toolsets
	Approvals Approvals
	Billing   Billing
	// Hub tells of what happens in runs.
	Hub      *wake.Hub
	Settings Settings
}

// Service answers requests of clients that keep a conversation.
type Service struct {
	deps   Deps
	logger *slog.Logger

	mu      sync.Mutex
	turns   map[string]*turn       // what is known of requests, by user and digest
	pauses  map[string]*pause      // what waits for the client, by user and call
	talks   map[*conversation]bool // those that wait
	users   map[string]*user       // that have something of the above
	bytes   int64                  // of all conversations
	most    int64                  // of them
	working sync.WaitGroup
	stopped bool
}

// New returns a service that works on nothing.
func New(d Deps, logger *slog.Logger) *Service {
	s := &d.Settings
	for _, set := range []struct {
		v *int
		d int
	}{{&s.Requests, 25}, {&s.Output, 64 << 10}, {&s.Busy, 64}} {
		if *set.v == 0 {
			*set.v = set.d
		}
	}
	if s.Window == nil {
		s.Window = func(string) Window { return Window{} }
	}
	if s.Wall == 0 {
		s.Wall = 30 * time.Minute
	}
	if s.Grace == 0 {
		s.Grace = 10 * time.Second
	}
	return &Service{
		deps: d, logger: logger, most: mostBytes, turns: map[string]*turn{}, pauses: map[string]*pause{}, talks: map[*conversation]bool{}, users: map[string]*user{},
	}
}

// Start implements lifecycle.Service; work comes with requests.
func (*Service) Start(context.Context) error { return nil }

// Stop ends the work on all requests and returns when nothing of it runs any more.
func (s *Service) Stop(ctx context.Context) error {
	s.mu.Lock()
	s.stopped = true
	for _, t := range s.turns {
		t.cancel(errStopped)
		t.forget()
	}
	for c := range s.talks {
		c.cancel(errStopped)
	}
	s.mu.Unlock()
	return lifecycle.Wait(ctx, &s.working)
}
