// Package tool executes tools: it identifies a call, checks it, admits it, lets an
// executor do it, and settles it. Package record of modules/run keeps what happened
// and says so to whoever watches the run.
package tool

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/netip"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/budget"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/schema/jsonschema"
	"github.com/portico-run/portico/modules/billing"
	"github.com/portico-run/portico/modules/run/bound"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/tool/approval"
	"github.com/portico-run/portico/modules/tool/function"
	"github.com/portico-run/portico/modules/tool/resource"
	"github.com/portico-run/portico/modules/toolset"
)

// Executors runs the calls of each kind of toolset. A kind without one is
// identified and refused.
type Executors map[toolset.Kind]Executor

// Catalogue finds toolsets and their methods for a caller.
type Catalogue interface {
	Identify(ctx context.Context, a actor.Actor, key string) (toolset.Toolset, error)
	Method(ctx context.Context, a actor.Actor, t toolset.Toolset, name string) (toolset.Method, toolset.Credential, error)
}

// Policy says which toolsets code in a sandbox may call.
type Policy interface {
	AllowsToolset(key string) bool
}

// Biller charges a call inside the transaction that records it.
type Biller interface {
	Charge(ctx context.Context, tx database.Tx, c billing.Charge) (billing.Receipt, error)
	// Admit refuses a call that would go over a limit of its user.
	Admit(ctx context.Context, c billing.Charge) error
}

// Approvals makes calls wait until a person allows them.
type Approvals interface {
	// Review says whether a call waits. An error refuses the call.
	Review(ctx context.Context, q approval.Question) (approval.Need, error)
	// Wait makes a call wait, and returns how that ended.
	Wait(ctx context.Context, q approval.Question, n approval.Need) (approval.Verdict, error)
	// Continue is Wait for a call that another process made wait.
	Continue(ctx context.Context, q approval.Question) (approval.Verdict, error)
	// Ask makes a call wait for an answer to a question of its tool's.
	Ask(ctx context.Context, q approval.Question, asked approval.Asked) (approval.Reply, error)
}

// Resources carries files into tools and out of them.
type Resources interface {
	Inputs(ctx context.Context, a actor.Actor, egress []netip.Prefix, schema json.RawMessage, arguments map[string]any) (map[string]any, error)
	Outputs(ctx context.Context, a actor.Actor, o resource.Origin, schema, data json.RawMessage) (json.RawMessage, []any, []error)
	Keep(ctx context.Context, a actor.Actor, o resource.Origin, f resource.File) (any, error)
	Open(ctx context.Context, a actor.Actor, callID string, created time.Time, name string) (resource.File, error)
}

// Settings are the limits of calls.
type Settings struct {
	// ResultCap is the largest output, in bytes, that a call may have at all.
	ResultCap int
	// Timeout bounds one call, whatever its toolset allows itself.
	Timeout time.Duration
	// Bounds are how many calls of one user, key and run all processes take.
	Bounds Bounds
	// MCP executes the tools of MCP servers for who calls the route of SDKs, too.
	// Programs and models of this server reach them always.
	MCP bool
	// Observe, if set, is told of every call that ended: the kind of its toolset, how
	// it went, and how long it took without a wait for a person before it.
	Observe func(kind toolset.Kind, went Went, took time.Duration)
	// Now tells the time; nil is the wall clock.
	Now func() time.Time
}

// Deps is what the module needs.
type Deps struct {
	Records   *record.Service
	Catalogue Catalogue
	Policy    Policy
	Billing   Biller
	Means     Means
	// Approvals says which calls wait for a person; nil lets none wait.
	Approvals Approvals
	Settings  Settings
	Logger    *slog.Logger
}

// Means is what calls are executed with.
type Means struct {
	Executors Executors
	Resources Resources
	// Functions are the server's own tools; nil for none.
	Functions *function.Registry
	// Limiter counts calls in and out; nil counts those of this process alone.
	Limiter *bound.Limiter
}

// Module is the wired package.
type Module struct{ Service *Service }

// New wires the module and starts nothing.
func New(d Deps) *Module {
	if d.Settings.Now == nil {
		d.Settings.Now = database.Now
	}
	if d.Means.Limiter == nil {
		d.Means.Limiter = bound.New(bound.Deps{Now: d.Settings.Now})
	}
	return &Module{Service: &Service{
		records: d.Records, catalogue: d.Catalogue, policy: d.Policy, billing: d.Billing, executors: d.Means.Executors, resources: d.Means.Resources,
		functions: d.Means.Functions, approvals: d.Approvals, settings: d.Settings, logger: d.Logger, schemas: &jsonschema.Cache{}, limiter: d.Means.Limiter, large: newBudget(d.Settings),
	}}
}

// roomForLarge is the memory for results that are being worked on. A large one
// is stored before it is answered, and so leaves the memory soon.
const roomForLarge = 64 << 20

// newBudget gives one user half of the room, and at least one result.
func newBudget(s Settings) *budget.Budget {
	total := max(roomForLarge, int64(s.ResultCap))
	return budget.New(total, max(total/2, int64(s.ResultCap)))
}

// Register adds the module's operations to the API.
func (m *Module) Register(api *httpapi.API) { controller{m.Service}.register(api) }
