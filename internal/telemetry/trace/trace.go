// Package trace follows requests through this server, and on to upstreams, with
// OpenTelemetry.
//
// Only what begins a trace knows the Tracer. Whatever works for a request takes the
// span above it from the context: where there is none, since tracing is off or this
// request is not sampled, Start does nothing and allocates nothing.
package trace

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

const library = "github.com/portico-run/portico"

// Kind is what a span is about. There is a short list of them: names of spans have
// nothing that users name.
type Kind string

// The kinds of spans below a request.
const (
	Run      Kind = "run"
	Model    Kind = "model"
	Program  Kind = "program"
	Call     Kind = "call"
	Upstream Kind = "upstream"
)

// Span is a part of a trace. The zero value is none. Its attributes name runs, calls
// and tools: never an argument, a result, a credential or a person.
type Span struct{ span trace.Span }

// Start begins a span below that of the context.
func Start(ctx context.Context, kind Kind) (context.Context, Span) {
	above := trace.SpanFromContext(ctx)
	if !above.IsRecording() {
		return ctx, Span{}
	}
	var of trace.SpanKind
	if kind == Model || kind == Upstream {
		of = trace.SpanKindClient
	}
	ctx, span := above.TracerProvider().Tracer(library).Start(ctx, string(kind), trace.WithSpanKind(of))
	return ctx, Span{span}
}

// Set says something of a span. What is empty is left out.
func (s Span) Set(name, value string) {
	if s.span != nil && value != "" {
		s.span.SetAttributes(attribute.String(name, value))
	}
}

// Count is Set for a number.
func (s Span) Count(name string, n int) {
	if s.span != nil {
		s.span.SetAttributes(attribute.Int(name, n))
	}
}

// Fail marks a span as failed. How is a word of a short list, no text of an error.
func (s Span) Fail(how string) {
	if s.span != nil {
		s.span.SetStatus(codes.Error, how)
	}
}

// End ends a span.
func (s Span) End() {
	if s.span != nil {
		s.span.End()
	}
}

// Of is the span of a context; none if it has none.
func Of(ctx context.Context) Span {
	if c := trace.SpanContextFromContext(ctx); c.IsValid() {
		return Span{trace.SpanFromContext(ctx)}
	}
	return Span{}
}

// Under is a context below a span: for work that comes back to this server over a
// connection of its own.
func (s Span) Under(ctx context.Context) context.Context {
	if s.span == nil {
		return ctx
	}
	return trace.ContextWithSpan(ctx, s.span)
}

// ID is the id of the trace of a context, or "".
func ID(ctx context.Context) string {
	if c := trace.SpanContextFromContext(ctx); c.IsValid() {
		return c.TraceID().String()
	}
	return ""
}

// Inject tells an upstream which trace a request belongs to. It sends the header
// traceparent and nothing else: no state, no baggage.
func Inject(ctx context.Context, h http.Header) {
	if trace.SpanFromContext(ctx).IsRecording() {
		propagation.TraceContext{}.Inject(ctx, only{h})
	}
}

// only carries traceparent.
type only struct{ http.Header }

// Get implements propagation.TextMapCarrier.
func (o only) Get(key string) string {
	if key != traceparent {
		return ""
	}
	return o.Header.Get(key)
}

// Set implements propagation.TextMapCarrier.
func (o only) Set(key, value string) {
	if key == traceparent {
		o.Header.Set(key, value)
	}
}

// Keys implements propagation.TextMapCarrier.
func (only) Keys() []string { return []string{traceparent} }

const traceparent = "traceparent"
