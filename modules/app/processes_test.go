package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
)

// Once one process has stopped its calls to an upstream, the others need one call that
// gets no answer, not thirty.
func TestProcessesLeaveAnUpstreamAloneTogether(t *testing.T) {
	testenv.Slow(t, "two whole servers at work")
	t.Parallel()
	upstream := &configured{fail: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }}
	web := httptest.NewServer(upstream)
	t.Cleanup(web.Close)
	const failures = 30
	url, env := databasetest.URL(t, database.Postgres), []string{fmt.Sprint("TOOL_BREAKER_FAILURES=", failures), "TOOL_BREAKER_DELAY=1h"}
	one, other := serve(t, url, env...), serve(t, url, env...)
	one.apply(t, map[string]string{"faulty.yaml": fmt.Sprintf("{key: faulty, name: X, domain: %q, egress: {allow: [127.0.0.0/8]}, billing: 5, methods: [{name: go, endpoint: /go, request: {type: object}}]}", web.URL)})
	stopped := func(s *instance) bool {
		var got struct{ ErrorCode string }
		require.NoError(t, json.Unmarshal(s.send(one.key, "POST", "/v1/tool/execute", `{"toolsetKey":"faulty","toolName":"go"}`).body.Data, &got))
		return got.ErrorCode == "UPSTREAM_UNAVAILABLE"
	}
	for !stopped(one) {
	}
	sent := upstream.seen()
	require.Eventually(t, func() bool { return stopped(other) }, time.Minute, 20*time.Millisecond)
	require.Less(t, upstream.seen()-sent, failures)
	require.Positive(t, upstream.seen()-sent, "the other process has seen for itself")
}
