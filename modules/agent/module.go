// Package agent answers what users ask with a language model and tools: it makes
// the run, decides what the model gets, lets it work, and records how it ended.
package agent

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/wake"
	"github.com/portico-run/portico/modules/agent/builtin"
	"github.com/portico-run/portico/modules/agent/checkpoint"
	"github.com/portico-run/portico/modules/agent/live"
	"github.com/portico-run/portico/modules/agent/loop"
	"github.com/portico-run/portico/modules/agent/prompt"
	"github.com/portico-run/portico/modules/agent/running"
	"github.com/portico-run/portico/modules/billing/price"
	"github.com/portico-run/portico/modules/catalogue/signature"
	"github.com/portico-run/portico/modules/program"
	"github.com/portico-run/portico/modules/ptc"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/bound"
	"github.com/portico-run/portico/modules/run/outside"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/run/stream"
	"github.com/portico-run/portico/modules/sdkbundle"
	"github.com/portico-run/portico/modules/tool"
	"github.com/portico-run/portico/modules/toolset"
)

// Model answers requests, says which tools its provider takes, and which names of
// models may be asked for; named.Set does.
type Model interface {
	loop.Model
	loop.Provider
	Has(name string) bool
	Names() []string
}

// Policy decides about programmatic tool calling.
type Policy interface {
	Decide(q ptc.Question) ptc.Decision
}

// Catalogue describes tools.
type Catalogue interface {
	Export(ctx context.Context, a actor.Actor, keys []string) ([]toolset.Definition, []toolset.Failure, error)
}

// SDK describes what programs can import.
type SDK interface {
	Context(ctx context.Context, a actor.Actor, keys []string) (sdkbundle.Context, error)
}

// Billing is where answers of models are paid for.
type Billing interface {
	live.Billing
	// AdmitModel refuses a request when nothing is left of what may be spent.
	AdmitModel(ctx context.Context, uid, resultID string, version int) error
}

// Streams shows runs live.
type Streams interface {
	Watch(w http.ResponseWriter, r *http.Request, a actor.Actor, from stream.From) error
}

// Outside ends the runs that services beside this server execute.
type Outside interface {
	Finish(ctx context.Context, a actor.Actor, e outside.Ending) (r run.Run, ended []string, err error)
}

// Deps is what the module needs.
type Deps struct {
	Records Records
	// Model is nil where none is configured.
	Model  Model
	Tools  *tool.Service
	Access Access
	// Builtin is what the server's own tools work with. Runs, Results and Logger
	// are filled in.
	Builtin  builtin.Deps
	Billing  Billing
	Settings Settings
	Logger   *slog.Logger
}

// Records are where runs are kept and watched.
type Records struct {
	DB      *database.DB
	Runs    *run.Service
	Calls   *record.Service
	Outside Outside
	Streams Streams
	Wake    *wake.Hub
	// Turns are what runs have come to.
	Turns *checkpoint.Store
}

// Access is what an agent is allowed and given.
type Access struct {
	Policy Policy
	Tools  Catalogue
	SDK    SDK
	// Flat has the functions that programs of everybody have; nil for none.
	Flat program.Flat
	// Programs are those that run without an agent.
	Programs Programs
}

// Programs ends the programs of runs.
type Programs interface {
	Abort(r run.Ref) bool
}

// Settings are the limits of agents.
type Settings struct {
	Limits loop.Limits
	// Lease is when a run that waits for room is looked at again.
	Lease time.Duration
	// MaxRuns is how many runs this process works on at once.
	MaxRuns int
	// MaxPerUser is how many runs of one user all processes work on; 0 is no bound.
	// Limiter counts them; nil counts those of this process alone.
	MaxPerUser int
	Limiter    *bound.Limiter
	// CodeTimeout bounds one program that names no time.
	CodeTimeout time.Duration
	// BreakEven keeps plain tool calling where it costs fewer tokens than code.
	BreakEven bool
	// Minimal leaves a model that writes code with the tool for it and the
	// lifecycle tools, Lifecycle offers those.
	Minimal, Lifecycle bool
	// Describe is how tools are shown to a model that writes code; empty for
	// DescribeAuto.
	Describe Describe
	// CodeTool is the name of the tool that runs code: execute_code, which is
	// the default, or exec_code.
	CodeTool string
	// Facts are what is known of a model, by its name; an empty name is the model
	// that answers where none is named.
	Facts func(model string) Facts
	// Flush is how often the words of an answer are shown.
	Flush time.Duration
}

// Facts are what an agent must know of a model.
type Facts struct {
	// Price is what its tokens cost its users.
	Price price.Tokens
	// Context is how many tokens it reads and writes in one request, Answer how many
	// of these it writes; 0 is not known.
	Context, Answer int64
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
	if d.Settings.Flush == 0 {
		d.Settings.Flush = 50 * time.Millisecond
	}
	if d.Settings.Limiter == nil {
		d.Settings.Limiter = bound.New(bound.Deps{})
	}
	if d.Settings.CodeTool == "" {
		d.Settings.CodeTool = prompt.ExecuteCode
	}
	d.Builtin.Runs, d.Builtin.Results, d.Builtin.Logger = d.Records.Runs, d.Records.Calls, d.Logger
	return &Module{Service: &Service{
		deps: d, counter: sync.OnceValue(signature.NewCounter),
		running: running.New(d.Settings.MaxRuns),
	}}
}

// Start begins to go on with runs whose process is gone.
func (m *Module) Start(ctx context.Context) error {
	ctx, m.stop = context.WithCancel(context.WithoutCancel(ctx)) //nolint:gosec // Stop calls it
	m.done = make(chan struct{})
	go func() {
		defer close(m.done)
		if m.Service.deps.Model != nil {
			m.Service.look(ctx)
		}
	}()
	return nil
}

// Stop ends the runs of this process, with an error that says so, and returns when
// they are recorded. Those with a call that waits for a person are left to another
// process.
func (m *Module) Stop(ctx context.Context) error {
	if m.stop != nil {
		m.once.Do(m.stop)
		<-m.done
	}
	return m.Service.running.Stop(ctx)
}

// maxBody is the largest request.
const maxBody = 1 << 20

// neverAsked says, in the document, that one of three members is the message.
const neverAsked = `{"properties":{"query":{"type":["string","null"],"pattern":"^\\s*$"},"input":{"type":["object","null"],"properties":{
	"query":{"type":["string","null"],"pattern":"^\\s*$"},"originalQuery":{"type":["string","null"],"pattern":"^\\s*$"}}}}}`

// Register adds the module's routes.
func (m *Module) Register(api *httpapi.API) {
	failures := []errs.Code{errs.ResultMissing, errs.CanvasMissing, errs.Conflict, errs.RateLimited, errs.Unavailable}
	httpapi.Register(api, httpapi.Operation{
		ID: "invoke-skill", Method: http.MethodPost, Path: "/v1/skill/invoke", Tag: "skill",
		Summary:     "Start an agent",
		Description: "Answers at once. Watch the run on /v1/action/{resultId}/events, read it on /v1/action/result, end it with /v1/action/abort.",
		Errors:      failures, BodyLimit: maxBody, Never: json.RawMessage(neverAsked), Runs: true,
	}, m.invoke)
	api.Raw(httpapi.Operation{
		ID: "stream-invoke-skill", Method: http.MethodPost, Path: "/v1/skill/streamInvoke", Tag: "skill",
		Summary: "Start an agent and watch it, as server-sent events",
		Description: "Takes the body of /v1/skill/invoke and answers with the stream of /v1/action/{resultId}/events. The run goes on when " +
			"the client leaves; resume there with the resultId of any event.",
		Errors: failures, BodyLimit: maxBody, Never: json.RawMessage(neverAsked), Runs: true, Lasts: true, Raw: httpapi.Description{Body: invokeBody{}, Events: stream.Events()},
	}, m.streamInvoke)
	httpapi.Register(api, httpapi.Operation{
		ID: "abort-action", Method: http.MethodPost, Path: "/v1/action/abort", Tag: "action",
		Summary: "End a run", Description: "Ends its programs and calls, too. Works on any server. A run that has ended stays as it is.",
		Runs:   true,
		Errors: []errs.Code{errs.ResultMissing},
	}, m.abort)
}

// Service runs agents.
type Service struct {
	deps    Deps
	running *running.Runs
	counter func() *signature.Counter // loads its vocabulary when it is needed
}
