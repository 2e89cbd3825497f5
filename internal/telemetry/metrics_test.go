package telemetry_test

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/telemetry"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	m := telemetry.New()
	m.Request("GET", "/v1/things/:id", 200, 20*time.Millisecond)
	m.Request("GET", "/v1/things/:id", 200, 20*time.Millisecond)
	m.Request("INVENTED", "", 404, time.Millisecond)
	n := 3.0
	m.Gauge("portico_things", "Things.", func() float64 { return n })
	m.Counter("portico_things_total", "Things ever.", func() float64 { return 7 })
	n = 4
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	text := w.Body.String()
	for _, line := range []string{
		`portico_http_requests_total{method="GET",route="/v1/things/:id",status="200"} 2`,
		`portico_http_requests_total{method="",route="",status="404"} 1`,
		`portico_http_request_seconds_count{method="GET",route="/v1/things/:id"} 2`,
		`portico_http_request_seconds_bucket{method="GET",route="/v1/things/:id",le="0.01"} 0`,
		`portico_http_request_seconds_bucket{method="GET",route="/v1/things/:id",le="0.025"} 2`,
		"portico_things 4", "portico_things_total 7", "process_resident_memory_bytes", "go_goroutines",
	} {
		require.Contains(t, text, line)
	}
	require.NotContains(t, text, "INVENTED")
}
