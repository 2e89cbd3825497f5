package app

import "github.com/portico-run/portico/internal/telemetry/trace"

// trace wires what follows requests, where there is somebody who takes it.
func (a *App) trace() {
	c := a.Config.Tracing
	if c.Endpoint == "" {
		return
	}
	a.tracer = trace.New(trace.Config{
		Endpoint: c.Endpoint, Headers: c.HeaderMap(), Ratio: c.Ratio.Float(), Trust: c.Trust, Version: Version, Process: a.Owner, Logger: a.Logger,
	})
	a.Metrics.Counter("portico_traces_dropped_total", "Spans that were lost: their queue was full, or nobody took them.", func() float64 { return float64(a.tracer.Dropped()) })
	a.Metrics.Counter("portico_traces_exported_total", "Spans that were taken.", func() float64 { return float64(a.tracer.Exported()) })
}
