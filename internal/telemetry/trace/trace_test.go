package trace_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/portico-run/portico/internal/telemetry/trace"
	"github.com/portico-run/portico/internal/telemetry/trace/tracetest"
)

const sampled, unsampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"

func request(t *testing.T, traceparent string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	if traceparent != "" {
		r.Header.Set("Traceparent", traceparent)
	}
	return r
}

func tracer(c trace.Config) *trace.Tracer {
	c.Logger = slog.New(slog.DiscardHandler)
	return trace.New(c)
}

// traced reports whether a request with a traceparent is traced.
func traced(t *testing.T, of *trace.Tracer, traceparent string) bool {
	t.Helper()
	ctx, span := of.Request(request(t, traceparent))
	defer span.End()
	h := http.Header{}
	trace.Inject(ctx, h)
	return h.Get("Traceparent") != ""
}

// A client may say that its request is not traced. That it is, it may say only where
// clients are trusted: it chooses ids, too, so that no id decides.
func TestClientsDoNotDecideWhatIsTraced(t *testing.T) {
	t.Parallel()
	none, all, trusting := tracer(trace.Config{}), tracer(trace.Config{Ratio: 1}), tracer(trace.Config{Trust: true})
	for range 100 {
		require.False(t, traced(t, none, sampled))
		require.False(t, traced(t, none, ""))
		require.False(t, traced(t, all, unsampled))
		require.True(t, traced(t, all, sampled))
		require.True(t, traced(t, all, ""))
		require.True(t, traced(t, trusting, sampled))
		require.False(t, traced(t, trusting, ""))
	}
	half, n := tracer(trace.Config{Ratio: 0.5}), 0
	for range 1000 {
		if traced(t, half, sampled) {
			n++
		}
	}
	require.InDelta(t, 500, n, 150)
}

// What is below a request is traced as the request is, also what comes back to this
// server with another traceparent.
func TestWhatIsBelowFollowsTheRequest(t *testing.T) {
	t.Parallel()
	ctx, span := tracer(trace.Config{Ratio: 1}).Request(request(t, ""))
	defer span.End()
	r := request(t, unsampled)
	r = r.WithContext(trace.Of(ctx).Under(r.Context()))
	below, inner := tracer(trace.Config{}).Request(r)
	defer inner.End()
	require.NotEmpty(t, trace.ID(ctx))
	require.Equal(t, trace.ID(ctx), trace.ID(below))
}

// Nothing waits for traces: what finds no room, or nobody who takes it, is lost and
// counted, and the end of a server does not wait for a receiver that is silent.
func TestNobodyWaitsForTraces(t *testing.T) {
	t.Parallel()
	hangs := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hangs }))
	defer silent.Close()
	defer close(hangs)
	of := tracer(trace.Config{Ratio: 1, Endpoint: silent.URL})
	require.NoError(t, of.Start(t.Context()))
	const spans = 20_000
	for range spans {
		_, span := of.Request(request(t, ""))
		span.End()
	}
	require.Positive(t, of.Dropped())
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.NoError(t, of.Stop(ctx))
	require.Zero(t, of.Exported())
	require.NoError(t, of.Stop(t.Context()))
}

func TestWhatIsLeftIsSentAtTheEnd(t *testing.T) { //nolint:paralleltest // looks for goroutines of the process
	receiver := tracetest.New(t)
	before := goleak.IgnoreCurrent()
	of := tracer(trace.Config{Ratio: 1, Endpoint: receiver.URL + "/"})
	require.NoError(t, of.Start(t.Context()))
	_, span := of.Request(request(t, sampled))
	span.Answer(http.MethodGet, "/v1/things/:id", 500)
	span.End()
	require.NoError(t, of.Stop(t.Context()))
	require.EqualValues(t, 1, of.Exported())
	require.Equal(t, "GET /v1/things/:id", receiver.Spans()[0].GetName())
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	goleak.VerifyNone(t, before, goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"), goleak.IgnoreTopFunction("internal/poll.runtime_pollWait"))
}

// Where nothing is traced, following costs nothing.
func TestNoTraceCostsNothing(t *testing.T) { //nolint:paralleltest // counts what the process allocates
	ctx, h := t.Context(), http.Header{}
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		ctx, span := trace.Start(ctx, trace.Call)
		span.Set("portico.call.id", "c")
		span.Count("n", 1)
		span.Fail("failure")
		trace.Inject(ctx, h)
		_ = trace.ID(ctx)
		span.End()
	}))
	require.Empty(t, h)
}
