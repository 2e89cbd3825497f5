// Package tracetest receives traces as a collector does, for tests.
package tracetest

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Receiver takes OTLP over HTTP.
type Receiver struct {
	URL string

	t  testing.TB
	mu sync.Mutex
	// spans are those that came, and raw is all that came, as it was encoded.
	spans  []*tracepb.Span
	raw    []byte
	header http.Header
}

// New starts a receiver and stops it with the test.
func New(t testing.TB) *Receiver {
	t.Helper()
	r := &Receiver{t: t}
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	r.URL = s.URL
	return r
}

// ServeHTTP implements http.Handler.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	var body io.Reader = q.Body
	if q.Header.Get("Content-Encoding") == "gzip" {
		plain, err := gzip.NewReader(q.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = plain
	}
	text, err := io.ReadAll(body)
	var sent collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(text, &sent)
	}
	if err != nil || q.URL.Path != "/v1/traces" {
		http.Error(w, "no traces", http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.raw, r.header = append(r.raw, text...), q.Header
	for _, of := range sent.GetResourceSpans() {
		for _, scope := range of.GetScopeSpans() {
			r.spans = append(r.spans, scope.GetSpans()...)
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// Spans are all that came.
func (r *Receiver) Spans() []*tracepb.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*tracepb.Span{}, r.spans...)
}

// Raw is all that came, as it was encoded.
func (r *Receiver) Raw() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return string(r.raw)
}

// Header is that of the newest request.
func (r *Receiver) Header() http.Header {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.header
}

// Path is the names of a span and of those above it, the highest first. It fails
// where one of them did not come.
func (r *Receiver) Path(s *tracepb.Span) (names []string) {
	r.t.Helper()
	byID := map[string]*tracepb.Span{}
	for _, other := range r.Spans() {
		byID[string(other.GetSpanId())] = other
	}
	for {
		names = append([]string{s.GetName()}, names...)
		above, ok := byID[string(s.GetParentSpanId())]
		if !ok {
			return names
		}
		require.Equal(r.t, s.GetTraceId(), above.GetTraceId())
		s = above
	}
}
