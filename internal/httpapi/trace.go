package httpapi

import (
	"context"
	"log/slog"

	"github.com/portico-run/portico/internal/telemetry/trace"
)

// Traced adds the id of the request that a line belongs to, where it has one:
// also to lines of work that goes on when the request is answered.
func Traced(h slog.Handler) slog.Handler { return traced{h} }

type traced struct{ slog.Handler }

// Handle implements slog.Handler.
func (t traced) Handle(ctx context.Context, r slog.Record) error {
	if id := TraceID(ctx); id != "" {
		r.AddAttrs(slog.String("traceId", id))
		if of := trace.ID(ctx); of != "" && of != id { // the caller named the request
			r.AddAttrs(slog.String("openTelemetryTraceId", of))
		}
	}
	return t.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (t traced) WithAttrs(attrs []slog.Attr) slog.Handler { return traced{t.Handler.WithAttrs(attrs)} }

// WithGroup implements slog.Handler.
func (t traced) WithGroup(name string) slog.Handler { return traced{t.Handler.WithGroup(name)} }

type viaKey struct{}

// Via marks a request that a part of this process makes for somebody, for the log.
func Via(ctx context.Context, part string) context.Context {
	return context.WithValue(ctx, viaKey{}, part)
}
