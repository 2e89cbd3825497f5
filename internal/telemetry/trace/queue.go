package trace

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// Bounds of what waits to be sent.
const (
	maxWaiting    = 4096
	maxBatch      = 512
	every         = 2 * time.Second
	exportTimeout = 10 * time.Second
)

// queue sends spans that ended, in the background. Nobody waits for it: a span that
// finds it full is dropped and counted.
type queue struct {
	exporter sdk.SpanExporter
	logger   *slog.Logger
	spans    chan sdk.ReadOnlySpan
	exported atomic.Int64
	dropped  atomic.Int64

	once sync.Once
	stop chan struct{}
	done chan struct{} // nil until start
	end  context.CancelFunc
}

func newQueue(e sdk.SpanExporter, l *slog.Logger) *queue {
	return &queue{exporter: e, logger: l, spans: make(chan sdk.ReadOnlySpan, maxWaiting), stop: make(chan struct{})}
}

func (q *queue) start(ctx context.Context) error {
	ctx, q.end = context.WithCancel(context.WithoutCancel(ctx))
	q.done = make(chan struct{})
	if starts, ok := q.exporter.(interface {
		Start(ctx context.Context) error
	}); ok {
		if err := starts.Start(ctx); err != nil {
			return err
		}
	}
	go func() {
		defer close(q.done)
		q.work(ctx)
	}()
	return nil
}

// work sends batches until the queue is stopped, and then what is left.
func (q *queue) work(ctx context.Context) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for running := true; running; {
		select {
		case <-tick.C:
		case <-q.stop:
			running = false
		}
		for q.send(ctx) {
			continue
		}
	}
}

// send sends a batch, and reports whether there may be more.
func (q *queue) send(ctx context.Context) bool {
	var batch []sdk.ReadOnlySpan
	for more := true; more && len(batch) < maxBatch; {
		select {
		case s := <-q.spans:
			batch = append(batch, s)
		default:
			more = false
		}
	}
	if len(batch) == 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, exportTimeout)
	defer cancel()
	if err := q.exporter.ExportSpans(ctx, batch); err != nil {
		q.dropped.Add(int64(len(batch)))
		q.logger.WarnContext(ctx, "traces are lost: the receiver at OTEL_EXPORTER_OTLP_ENDPOINT does not take them", "spans", len(batch), "error", err)
		return false
	}
	q.exported.Add(int64(len(batch)))
	return len(batch) == maxBatch
}

// OnStart implements sdk.SpanProcessor.
func (*queue) OnStart(context.Context, sdk.ReadWriteSpan) {}

// OnEnd implements sdk.SpanProcessor.
func (q *queue) OnEnd(s sdk.ReadOnlySpan) {
	select {
	case q.spans <- s:
	default:
		q.dropped.Add(1)
	}
}

// ForceFlush implements sdk.SpanProcessor. Nobody waits for spans.
func (*queue) ForceFlush(context.Context) error { return nil }

// Shutdown implements sdk.SpanProcessor: it sends what is left, as long as ctx lasts.
func (q *queue) Shutdown(ctx context.Context) error {
	if q.done == nil {
		return nil
	}
	q.once.Do(func() { close(q.stop) })
	select {
	case <-q.done:
	case <-ctx.Done():
		q.end() // breaks off what is being sent
		<-q.done
	}
	q.end()
	return q.exporter.Shutdown(context.WithoutCancel(ctx))
}
