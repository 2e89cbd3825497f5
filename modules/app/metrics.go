package app

import (
	"net/http"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/telemetry"
	"github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/tool"
	"github.com/portico-run/portico/modules/toolset"
)

// measureSandbox adds the sandbox to the metrics.
func measureSandbox(m *telemetry.Metrics, stats func() sandbox.Stats, most sandbox.Counts) {
	stat := func(read func(s sandbox.Stats) int) func() float64 {
		return func() float64 { return float64(read(stats())) }
	}
	m.Gauge("portico_sandbox_idle", "Interpreters that wait for a program.", stat(func(s sandbox.Stats) int { return s.Idle }))
	m.Gauge("portico_sandbox_running", "Programs that run.", stat(func(s sandbox.Stats) int { return s.Running }))
	m.Gauge("portico_sandbox_paused", "Programs that wait for somebody outside.", stat(func(s sandbox.Stats) int { return s.Paused }))
	m.Gauge("portico_sandbox_queued", "Programs that wait for their turn.", stat(func(s sandbox.Stats) int { return s.Queued }))
	m.Counter("portico_sandbox_programs_total", "Programs that were run.", stat(func(s sandbox.Stats) int { return s.Jobs }))
	m.Counter("portico_sandbox_cold_starts_total", "Programs that found no interpreter ready.", stat(func(s sandbox.Stats) int { return s.Cold }))
	m.Gauge("portico_sandbox_saturation", "Programs that run or wait for a turn, as a part of those that may run at once.", func() float64 {
		s := stats()
		return part(s.Running+s.Queued, most.Running)
	})
	m.Gauge("portico_sandbox_paused_saturation", "Programs that are paused, as a part of those that may be.", func() float64 {
		return part(stats().Paused, most.Paused)
	})
	m.Counter("portico_sandbox_refused_total", "Programs that found the queue full or waited too long.", stat(func(s sandbox.Stats) int { return s.Refused }))
}

// part is n as a part of all; of nothing it is nothing.
func part(n, all int) float64 {
	if all == 0 {
		return 0
	}
	return float64(n) / float64(all)
}

// watch counts and times what the modules tell of. No label says who or where:
// each has a short list of values.
type watch struct {
	called   func(kind toolset.Kind, went tool.Went, took time.Duration)
	woken    func(late time.Duration, found bool)
	upstream func(of string) func(result upstream.Result, took time.Duration)
}

// margin is how long a wake-up takes at most: an event that is younger when polling
// finds it would have come by itself.
const margin = 250 * time.Millisecond

func newWatch(m *telemetry.Metrics) *watch {
	calls := m.Count("portico_calls_total", "Calls of tools that ended, by the kind of their toolset and how they went.", "kind", "outcome")
	callSeconds := m.Times("portico_call_seconds", "Their duration by kind, without waits for a person.", "kind")
	requests := m.Count("portico_upstream_requests_total", "Requests to upstreams, by what they were for and how they went.", "purpose", "result")
	requestSeconds := m.Times("portico_upstream_request_seconds", "How long answers of upstreams took to begin.", "purpose")
	wakes := m.Times("portico_wake_seconds", "From an event to its being read for a stream that waits.")
	lost := m.Count("portico_wake_lost_total", "Events that streams were not told of, and that polling found.")
	return &watch{
		called: func(kind toolset.Kind, went tool.Went, took time.Duration) {
			calls(1, string(kind), string(went))
			callSeconds(took, string(kind))
		},
		upstream: func(purpose string) func(result upstream.Result, took time.Duration) {
			return func(result upstream.Result, took time.Duration) {
				requests(1, purpose, string(result))
				if result != upstream.Skipped {
					requestSeconds(took, purpose)
				}
			}
		},
		woken: func(late time.Duration, found bool) {
			wakes(max(0, late))
			if found && late > margin {
				lost(1)
			}
		},
	}
}

// observe wires what is counted, and what follows requests.
func (a *App) observe() {
	a.Metrics = telemetry.New()
	a.watch = newWatch(a.Metrics)
	a.trace()
}

// measure adds what the modules know by themselves to the metrics.
func (a *App) measure() {
	measureSandbox(a.Metrics, a.Engine.Stats, a.Engine.Most())
	a.measureServers()
	a.Metrics.Gauge("portico_upstreams_stopped", "Upstreams of tools that nothing is sent to for a while.", func() float64 { return float64(len(a.upstreams.Stopped())) })
}

// measureLeases adds the leases to the metrics.
func (a *App) measureLeases() {
	a.Metrics.Gauge("portico_leases_held", "Calls and programs that this process works on.", func() float64 { return float64(a.Records.Service.Working()) })
	a.Metrics.Counter("portico_leases_lost_total", "Calls that others gave up while this process worked on them.", func() float64 { return float64(a.Records.Service.Lost()) })
	a.Metrics.Counter("portico_leases_reaped_total", "Calls and runs that this process ended because their own process was gone.", func() float64 { return float64(a.Leases.Reaped()) })
}

// metrics is the route that Prometheus reads.
type metrics struct{ handler http.Handler }

// Register adds the route.
func (m metrics) Register(api *httpapi.API) {
	api.Raw(httpapi.Operation{
		ID: "metrics", Method: http.MethodGet, Path: "/metrics", Tag: "health", Access: httpapi.Public,
		Summary: "Numbers of this process in Prometheus' text format", Raw: httpapi.Description{Media: map[string]string{"text/plain": "portico_sandbox_running 1\n"}},
	}, func(w http.ResponseWriter, r *http.Request, _ actor.Actor) error {
		m.handler.ServeHTTP(w, r)
		return nil
	})
}
