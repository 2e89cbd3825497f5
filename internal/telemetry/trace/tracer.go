package trace

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Config says where spans go.
type Config struct {
	// Endpoint is the base of an OTLP receiver over HTTP, such as
	// http://localhost:4318.
	Endpoint string
	Headers  map[string]string // may have credentials
	// Ratio is the part of requests that are traced, from 0 to 1.
	Ratio float64
	// Trust lets whoever sends a traceparent decide that a request is traced. Without
	// it, those are a part as all others.
	Trust bool
	// Version and Process say what runs.
	Version, Process string
	Logger           *slog.Logger
}

// Tracer begins traces. A nil Tracer begins none.
type Tracer struct {
	provider *sdk.TracerProvider
	queue    *queue
}

// New makes a tracer, which connects to nothing until there are spans, and starts
// nothing until Start.
func New(c Config) *Tracer {
	client := otlptracehttp.NewClient(otlptracehttp.WithEndpointURL(strings.TrimSuffix(c.Endpoint, "/")+"/v1/traces"), otlptracehttp.WithHeaders(c.Headers), otlptracehttp.WithTimeout(exportTimeout))
	q := newQueue(otlptrace.NewUnstarted(client), c.Logger)
	return &Tracer{queue: q, provider: sdk.NewTracerProvider(
		sdk.WithSpanProcessor(q), sdk.WithSampler(sampler{c.Ratio, c.Trust}), sdk.WithRawSpanLimits(limits()),
		sdk.WithResource(resource.NewSchemaless(attribute.String("service.name", "portico"), attribute.String("service.version", c.Version), attribute.String("service.instance.id", c.Process))),
	)}
}

// limits bound what a span holds.
func limits() sdk.SpanLimits {
	l := sdk.NewSpanLimits()
	l.AttributeValueLengthLimit, l.AttributeCountLimit = 256, 32
	return l
}

// Start implements lifecycle.Service.
func (t *Tracer) Start(ctx context.Context) error { return t.queue.start(ctx) }

// Stop sends what is left, as long as ctx lasts, and no longer than one request may.
func (t *Tracer) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, exportTimeout)
	defer cancel()
	return t.queue.Shutdown(ctx)
}

// Dropped is how many spans were lost: the queue was full, or nobody took them.
func (t *Tracer) Dropped() int64 { return t.queue.dropped.Load() }

// Exported is how many spans were taken.
func (t *Tracer) Exported() int64 { return t.queue.exported.Load() }

// Request begins the span of a request: below that of its context, which only this
// server puts there, or below the one that its header traceparent names.
func (t *Tracer) Request(r *http.Request) (context.Context, Span) {
	ctx := r.Context()
	if t == nil {
		return ctx, Span{}
	}
	if !trace.SpanContextFromContext(ctx).IsValid() {
		ctx = propagation.TraceContext{}.Extract(ctx, only{r.Header})
	}
	ctx, span := t.provider.Tracer(library).Start(ctx, r.Method, trace.WithSpanKind(trace.SpanKindServer))
	return ctx, Span{span}
}

// Answer says how a request was answered, by the pattern of its route.
func (s Span) Answer(method, route string, status int) {
	if s.span == nil {
		return
	}
	name := "HTTP"
	if route != "" {
		name = method + " " + route
		s.Set("http.request.method", method)
	}
	s.span.SetName(name)
	s.Set("http.route", route)
	s.Count("http.response.status_code", status)
	if status >= http.StatusInternalServerError {
		s.Fail("server error")
	}
}

// sampler decides which requests are traced. A client may say that one is not; that
// one is, only if clients are trusted: otherwise, whoever sends a traceparent with
// each request would have all of them traced. The decision is drawn, not taken from
// the id of the trace, which the client chooses.
type sampler struct {
	ratio float64
	trust bool
}

// ShouldSample implements sdk.Sampler.
func (s sampler) ShouldSample(p sdk.SamplingParameters) sdk.SamplingResult {
	above := trace.SpanContextFromContext(p.ParentContext)
	decided := sdk.SamplingResult{Decision: sdk.Drop, Tracestate: above.TraceState()}
	switch {
	case above.IsValid() && !above.IsSampled(), !(above.IsValid() && (!above.IsRemote() || s.trust)) && rand.Float64() >= s.ratio: //nolint:gosec // protects nothing
		return decided
	}
	decided.Decision = sdk.RecordAndSample
	return decided
}

// Description implements sdk.Sampler.
func (sampler) Description() string { return "portico" }
