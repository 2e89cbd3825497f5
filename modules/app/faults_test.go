package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/connector/composio/composiotest"
	"github.com/portico-run/portico/modules/connector/vendors/vendorstest"
)

// fault is what can go wrong between the gateway and an upstream, and what a
// caller is told of it.
type fault struct {
	name, code, says string
	do               func(w http.ResponseWriter, r *http.Request)
}

// sent is every credential that a request carries; a fault may repeat it.
func sent(r *http.Request) string {
	return r.Header.Get("Authorization") + " " + r.Header.Get("X-Api-Key") + " " + r.Header.Get("X-Demo-Key")
}

func faults() []fault {
	status := func(code int, headers ...string) func(w http.ResponseWriter, r *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			for i := 0; i < len(headers); i += 2 {
				w.Header().Set(headers[i], headers[i+1])
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			fmt.Fprintf(w, `{"message":"refused","error":{"message":"refused, was sent %s"}}`, sent(r))
		}
	}
	return []fault{
		{"slow", "TIMEOUT", "did not answer within 2s", func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}},
		{"cut in the middle of a body", "CONNECTION_BROKEN", "may have had an effect", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprintf(w, `{"data": %q`, sent(r))
		}},
		{"reset", "CONNECTION_BROKEN", "may have had an effect", func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_ = conn.(*net.TCPConn).SetLinger(0)
				_ = conn.Close()
			}
		}},
		{"429 with Retry-After", "RATE_LIMIT_ERROR", "Try again after 9s", status(429, "Retry-After", "9")},
		{"429 without", "RATE_LIMIT_ERROR", "refused", status(429)},
		{"500", "SERVER_ERROR", "refused", status(500)},
		{"503", "SERVER_ERROR", "refused", status(503)},
		{"invalid JSON", "INVALID_RESPONSE", "", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"data": "%s`, sent(r))
		}},
		{"100 MB", "RESPONSE_TOO_LARGE", "more than", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			piece := []byte(strings.Repeat("[1],", 1<<18))
			for range 100 {
				if _, err := w.Write(piece); err != nil {
					return
				}
			}
		}},
		{"redirect to a private address", "EGRESS_REFUSED", "not one that this toolset may reach", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data", http.StatusSeeOther)
		}},
	}
}

// configured is an upstream of a config-based toolset that can be made to fail.
type configured struct {
	mu   sync.Mutex
	n    int
	fail func(w http.ResponseWriter, r *http.Request)
}

func (c *configured) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.n++
	fail := c.fail
	c.mu.Unlock()
	fail(w, r)
}

func (c *configured) seen() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// Whatever goes wrong between the gateway and an upstream of any type: the
// right error and record, one effect at most, no charge, and no credential in
// an answer, a record or the log.
func TestFaults(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	for _, d := range databasetest.Of(t) {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			testFaults(t, d)
		})
	}
}

const faultKey = "sk-of-the-faulty-upstream"

func testFaults(t *testing.T, d database.Dialect) {
	t.Helper()
	upstream := &configured{}
	plain := httptest.NewServer(upstream)
	t.Cleanup(plain.Close)
	secure := httptest.NewTLSServer(upstream)
	t.Cleanup(secure.Close)
	toolset := func(key, domain string) string {
		return fmt.Sprintf("{key: %s, name: X, domain: %q, egress: {allow: [127.0.0.0/8]}, credential: {type: bearer, value: %s}, billing: 5, methods: [{name: go, endpoint: /go, request: {type: object}}]}", key, domain, faultKey)
	}
	g := openGateway(t, d, "TOOL_TIMEOUT=2s", "COMPOSIO_TIMEOUT=2s", "TOOL_RESPONSE_CAP=1MiB", "TOOL_BREAKER_FAILURES=0")
	g.apply(t, map[string]string{"faulty.yaml": toolset("faulty", plain.URL), "secure.yaml": toolset("secure", secure.URL)})
	g.connect()
	kinds := map[string]struct {
		body string
		set  func(do func(w http.ResponseWriter, r *http.Request))
		seen func() int
	}{
		"config based": {`{"toolsetKey":"faulty","toolName":"go","arguments":{}}`, func(do func(w http.ResponseWriter, r *http.Request)) {
			upstream.mu.Lock()
			defer upstream.mu.Unlock()
			upstream.fail = do
		}, upstream.seen},
		"composio": {`{"toolsetKey":"gmail","toolName":"GMAIL_SEND_EMAIL","arguments":{"to":"a","body":"b"}}`, func(do func(w http.ResponseWriter, r *http.Request)) {
			g.composio.Fail(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodPost {
					return false
				}
				do(w, r)
				return true
			})
		}, func() int { return g.composio.Requests("POST /api/v3/tools/execute") }},
		"legacy SDK": {`{"toolsetKey":"perplexity","toolName":"chat_completions","arguments":{"messages":[{"role":"user","content":"x"}]}}`, func(do func(w http.ResponseWriter, r *http.Request)) {
			g.perplexity.Fail(func(w http.ResponseWriter, r *http.Request) bool {
				do(w, r)
				return true
			})
		}, func() int { return len(g.perplexity.Requests("POST", "/chat")) }},
	}
	// The tools of the provider are known before it fails.
	require.Contains(t, g.send(g.key, "POST", "/v1/tool/execute", `{"toolsetKey":"gmail","toolName":"GMAIL_FETCH_EMAILS","arguments":{}}`).raw, `"status":"success"`)
	usages := g.count("SELECT count(*) FROM credit_usages")
	check := func(name, body, code, says string) {
		t.Helper()
		records := g.count("SELECT count(*) FROM tool_call_results")
		a := g.send(g.key, "POST", "/v1/tool/execute", body)
		require.Equal(t, 200, a.status, "%s: %s", name, a.raw)
		var got struct{ Status, Error, ErrorCode string }
		require.NoError(t, json.Unmarshal(a.body.Data, &got), name)
		require.Equal(t, "error", got.Status, "%s: %.300s", name, a.raw)
		require.Equal(t, code, got.ErrorCode, "%s: %s", name, got.Error)
		require.Contains(t, got.Error, says, name)
		require.Equal(t, records+1, g.count("SELECT count(*) FROM tool_call_results"), name)
		require.Equal(t, 1, g.count("SELECT count(*) FROM tool_call_results WHERE status = 'failed' AND error = ? AND pk = (SELECT max(pk) FROM tool_call_results)", got.Error), name)
		for _, secret := range []string{faultKey, composiotest.Key, vendorstest.Token} {
			require.NotContains(t, a.raw, secret, name)
			require.Zero(t, g.count("SELECT count(*) FROM tool_call_results WHERE output LIKE ? OR error LIKE ?", "%"+secret+"%", "%"+secret+"%"), name)
		}
	}
	for kind, k := range kinds {
		for _, f := range faults() {
			k.set(f.do)
			before := k.seen()
			check(kind+": "+f.name, k.body, f.code, f.says)
			require.Equal(t, before+1, k.seen(), "%s: %s: the call was made again", kind, f.name)
		}
	}
	check("certificate error", `{"toolsetKey":"secure","toolName":"go","arguments":{}}`, "TLS_FAILED", "certificate")
	require.Equal(t, usages, g.count("SELECT count(*) FROM credit_usages"), "a failed call was billed")
	for _, secret := range []string{faultKey, composiotest.Key, vendorstest.Token} {
		require.NotContains(t, g.log.String(), secret)
	}
}

// An upstream that gives no answer again and again is given up for a while, and
// the others are not.
func TestAnUpstreamThatFailsIsGivenUpForAWhile(t *testing.T) {
	t.Parallel()
	upstream := &configured{fail: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }}
	web := httptest.NewServer(upstream)
	t.Cleanup(web.Close)
	g := openGateway(t, database.SQLite, "TOOL_BREAKER_FAILURES=3", "TOOL_BREAKER_DELAY=1h")
	g.apply(t, map[string]string{"faulty.yaml": fmt.Sprintf("{key: faulty, name: X, domain: %q, egress: {allow: [127.0.0.0/8]}, billing: 5, methods: [{name: go, endpoint: /go, request: {type: object}}]}", web.URL)})
	var codes []string
	for range 8 {
		var got struct{ ErrorCode, Error string }
		require.NoError(t, json.Unmarshal(g.send(g.key, "POST", "/v1/tool/execute", `{"toolsetKey":"faulty","toolName":"go"}`).body.Data, &got))
		codes = append(codes, got.ErrorCode)
	}
	require.Equal(t, "SERVER_ERROR", codes[0])
	require.Equal(t, "UPSTREAM_UNAVAILABLE", codes[7])
	require.Less(t, upstream.seen(), 7)
	require.Contains(t, g.send(g.key, "POST", "/v1/tool/execute", `{"toolsetKey":"demo","toolName":"wait","arguments":{"ms":0}}`).raw, `"status":"success"`)
}

// A run that has spent what it may is refused before the call, in words that the
// program sees; nothing is sent and nothing is billed.
func TestSpendingLimits(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		o := s.run(map[string]any{"code": `
from refly_tools.demo import Demo
for n in range(3):
    r = Demo.get_weather(city="Rome", file_name_title="x")
    print(r["status"], r.get("errorCode"), r.get("error"))
print(Demo.wait(ms=0, file_name_title="x")["status"])
`})
		require.Equal(t, "success None None\nsuccess None None\nerror SPENDING_LIMIT The spending limit of this run is 5 credits; 4 are spent or in use, and the call costs at least 2. "+
			"Start another run, or ask the operator for a higher limit.\nsuccess\n", o.Stdout)
		require.Equal(t, 2, s.count("SELECT count(*) FROM credit_usages WHERE action_result_id = ?", o.ResultID))
		report := s.send(s.key, "GET", "/v1/credit/result?resultId="+o.ResultID, nil)
		require.JSONEq(t, `{"total":4,"charged":4,"lines":[{"usageType":"tool_call","toolsetKey":"demo","toolName":"get_weather","calls":2,"total":4,"charged":4}]}`, string(report.body.Data))
		require.Equal(t, "completed", s.run(map[string]any{"code": "from refly_tools.demo import Demo\nassert Demo.get_weather(city='Rome', file_name_title='x')['status'] == 'success'"}).Status)
	}, "BILLING_RUN_LIMIT=5")
}
