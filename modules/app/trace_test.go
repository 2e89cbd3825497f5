package app_test

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/telemetry/trace/tracetest"
	"github.com/portico-run/portico/internal/testenv"
)

// One run of an agent, whose program calls a tool over HTTP, is one tree, from the
// request to the upstream, which is told of it. Nothing of what was asked or
// answered, and no credential, is in it.
func TestARunIsOneTrace(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	var mu sync.Mutex
	var told []http.Header
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, r.Header)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"answer":"` + canaryResult + `"}`))
	}))
	t.Cleanup(web.Close)
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "probe.yaml"), fmt.Appendf(nil, `
key: probe
name: Probe
domain: %s
egress: {allow: [127.0.0.0/8]}
credential: {type: bearer, value: %s}
billing: 0
methods:
  - {name: ask, description: Ask., endpoint: "/ask", method: POST, request: {type: object, properties: {text: {type: string}}}}
`, web.URL, canaryKey), 0o600))
	_, env := script(t, `
- output:
    - call:
        name: exec_code
        arguments:
          code: |
            from refly_tools.probe import Probe
            print("asked", Probe.ask(text="`+canaryArgument+`", file_name_title="x")["status"])
          timeout: null
- expect: ["asked success"]
  output: [{text: "Fine."}]
`)
	receiver := tracetest.New(t)
	s := serve(t, databasetest.URL(t, database.SQLite), append(env, "TOOLSETS_DIR="+folder, "OTEL_EXPORTER_OTLP_ENDPOINT="+receiver.URL, "OTEL_EXPORTER_OTLP_HEADERS=x-team=blue%20one")...)
	const remote, above = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	got := s.send(s.key, http.MethodPost, "/v1/skill/streamInvoke", `{"query":"`+canaryAddress+`","toolsets":["probe"]}`,
		"traceparent", "00-"+remote+"-"+above+"-01", "tracestate", "vendor=state", "baggage", "tenant=anna")
	require.Equal(t, 200, got.status, got.raw)
	require.Contains(t, got.raw, "Fine.")
	require.Equal(t, remote, got.header.Get("X-Request-Id"))
	named := s.send(s.key, http.MethodGet, "/v1/tool/list", nil, "X-Request-Id", "named-by-its-caller")
	require.Equal(t, "named-by-its-caller", named.header.Get("X-Request-Id"))
	s.stop() // sends what is left

	var paths []string
	for _, span := range receiver.Spans() {
		if hex.EncodeToString(span.GetTraceId()) == remote {
			paths = append(paths, strings.Join(receiver.Path(span), " > "))
		}
		if span.GetName() == "POST /v1/skill/streamInvoke" {
			require.Equal(t, above, hex.EncodeToString(span.GetParentSpanId()))
		}
	}
	const run = "POST /v1/skill/streamInvoke > run"
	require.ElementsMatch(t, []string{
		"POST /v1/skill/streamInvoke", run, run + " > model", run + " > model > upstream", run + " > model", run + " > model > upstream",
		run + " > program", run + " > program > POST /v1/tool/execute", run + " > program > POST /v1/tool/execute > call", run + " > program > POST /v1/tool/execute > call > upstream",
	}, paths)
	require.Len(t, told, 1)
	require.Regexp(t, "^00-"+remote+"-[0-9a-f]{16}-01$", told[0].Get("Traceparent"))
	require.Empty(t, told[0].Get("Baggage")+told[0].Get("Tracestate"))
	require.Equal(t, "blue one", receiver.Header().Get("X-Team"))
	require.Contains(t, s.log.String(), "traceId="+remote)
	require.Contains(t, s.log.String(), "traceId=named-by-its-caller openTelemetryTraceId=")
	for _, canary := range []string{canaryKey, canaryArgument, canaryResult, canaryAddress, s.key, "sk-model-secret", "header-secret", "anna", "admin", "vendor=state"} {
		require.NotContains(t, receiver.Raw(), canary)
	}
	require.Contains(t, receiver.Raw(), "probe")
}

// Without a receiver nothing is traced, and upstreams are told nothing.
func TestNothingIsTracedByDefault(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite))
	const remote = "0af7651916cd43dd8448eb211c80319c"
	got := s.send(s.key, http.MethodGet, "/v1/tool/list", nil, "traceparent", "00-"+remote+"-b7ad6b7169203331-01")
	require.NotEqual(t, remote, got.header.Get("X-Request-Id"))
	require.NotContains(t, s.send("", http.MethodGet, "/metrics", nil).raw, "portico_traces")
}
