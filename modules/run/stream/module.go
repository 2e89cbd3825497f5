// Package stream shows a run to its user: its events as they happen, over
// server-sent events, and its messages when it is read again.
//
// The database is the truth: every connection reads it from its own cursor,
// so any process can serve any run and a client that comes back misses
// nothing. Wake-ups only make it prompt.
package stream

import (
	"context"
	"net/http"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/sse"
	"github.com/portico-run/portico/internal/wake"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
)

// Runs is where runs, their events and their messages are read.
type Runs interface {
	Get(ctx context.Context, a actor.Actor, resultID string, version *int) (run.Run, error)
	Events(ctx context.Context, a actor.Actor, f run.EventFilter) ([]run.Event, error)
	Messages(ctx context.Context, a actor.Actor, f run.MessageFilter) ([]run.Message, error)
	Progress(ctx context.Context, runs []run.Ref) (map[run.Ref]int64, error)
}

// Sums adds up the calls of runs.
type Sums interface {
	Totals(ctx context.Context, a actor.Actor, runs []run.Ref) (map[run.Ref]run.Totals, error)
}

// Calls is where the records of tool calls are read. Ids that are not the
// caller's are left out of the answer.
type Calls interface {
	Calls(ctx context.Context, a actor.Actor, ids []string) (map[string]record.Call, error)
	Summaries(ctx context.Context, a actor.Actor, ids []string) (map[string]record.Summary, error)
}

// Deps is what the module needs.
type Deps struct {
	Runs  Runs
	Sums  Sums
	Calls Calls
	Hub   *wake.Hub
	// Poll is how late an event may be whose wake-up was lost; zero means
	// defaultPoll.
	Poll time.Duration
	// Woken, if set, is told when a stream that waited has read an event: when that was
	// written, and whether polling found it.
	Woken func(written time.Time, found bool)
	// SSE holds the heartbeat and the write deadline.
	SSE sse.Server
}

// defaultPoll is how often streams look for events without being woken.
const defaultPoll = 1500 * time.Millisecond

// Module is the live view of runs. As a service of the program it is stopped
// before the HTTP server, which waits for open requests to end by themselves.
type Module struct {
	Service *Service
}

// New builds the module. It starts nothing.
func New(d Deps) *Module {
	if d.Poll <= 0 {
		d.Poll = defaultPoll
	}
	return &Module{Service: &Service{
		runs: d.Runs, sums: d.Sums, calls: d.Calls, hub: d.Hub, poller: newPoller(d), woken: d.Woken, open: newOpen(),
		serve: d.SSE,
	}}
}

// Open is how many streams of this process somebody follows.
func (m *Module) Open() int { return m.Service.open.count() }

// Start does nothing: streams begin with their requests.
func (m *Module) Start(context.Context) error { return nil }

// Stop ends every open stream, refuses new ones, and returns when none is
// left. The clients resume elsewhere.
func (m *Module) Stop(ctx context.Context) error { return m.Service.open.close(ctx) }

// Register adds the module's routes.
func (m *Module) Register(api *httpapi.API) {
	c := controller{m.Service}
	api.Raw(httpapi.Operation{
		ID: "stream-action-events", Method: http.MethodGet, Path: "/v1/action/{resultId}/events", Tag: "action",
		Summary: "Watch a run live, as server-sent events",
		Description: "Each event carries its number as id and one line of JSON as data. Send the last number as the header " +
			"Last-Event-ID, or as the query parameter lastEventId, to resume without loss or duplicate. The stream closes after the event " +
			"`end`; resuming after it answers 204. With detail=summary, events about calls have a short form, `call`, without arguments and results, " +
			"and the stream begins with `retry: 500`. A page whose EventSource cannot send headers is known by the cookie _rf_access, a session token; " +
			"one of another origin sends a ticket of POST /v1/action/{resultId}/ticket as the query parameter ticket. The stream ends within five seconds of the credential.",
		Errors: []errs.Code{errs.ResultMissing, errs.Unavailable}, Tickets: true, Lasts: true,
		Raw: httpapi.Description{
			Input: eventsInput{}, Events: Events(), Statuses: map[int]string{http.StatusNoContent: "The run has ended, and there is no event after the one that was named"},
		},
	}, c.events)
	httpapi.Register(api, httpapi.Operation{
		ID: "get-action-result", Method: http.MethodGet, Path: "/v1/action/result", Tag: "action",
		Summary: "Read a run",
		Description: "With its conversation and with every tool call, as the events showed them. The messages of a large run come in several " +
			"answers: where messagesCursor is set there are more, and steps are about the messages of this answer only.",
		Errors: []errs.Code{errs.ResultMissing},
	}, c.result)
}
