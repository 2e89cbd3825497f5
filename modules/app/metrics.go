package app

import (
	"net/http"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/internal/telemetry"
	"github.com/portico-run/portico/modules/sandbox"
)

// measure adds the sandbox to the metrics.
func measure(m *telemetry.Metrics, e *sandbox.Engine) {
	stat := func(read func(s sandbox.Stats) int) func() float64 {
		return func() float64 { return float64(read(e.Stats())) }
	}
	m.Gauge("portico_sandbox_idle", "Interpreters that wait for a program.", stat(func(s sandbox.Stats) int { return s.Idle }))
	m.Gauge("portico_sandbox_running", "Programs that run.", stat(func(s sandbox.Stats) int { return s.Running }))
	m.Gauge("portico_sandbox_paused", "Programs that wait for somebody outside.", stat(func(s sandbox.Stats) int { return s.Paused }))
	m.Gauge("portico_sandbox_queued", "Programs that wait for their turn.", stat(func(s sandbox.Stats) int { return s.Queued }))
	m.Counter("portico_sandbox_programs_total", "Programs that were run.", stat(func(s sandbox.Stats) int { return s.Jobs }))
	m.Counter("portico_sandbox_cold_starts_total", "Programs that found no interpreter ready.", stat(func(s sandbox.Stats) int { return s.Cold }))
	m.Counter("portico_sandbox_refused_total", "Programs that found the queue full or waited too long.", stat(func(s sandbox.Stats) int { return s.Refused }))
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
