package rest_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/egress"
	upstreams "github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/connector/rest"
	"github.com/portico-run/portico/modules/toolset"
)

func signing(t *testing.T) *rest.Connector {
	t.Helper()
	client := egress.New(egress.Config{})
	t.Cleanup(client.Close)
	return rest.New(rest.Deps{
		Upstream: upstreams.New(upstreams.Deps{Client: client, ResponseCap: 1 << 16}), Timeout: 5 * time.Second, MaxTimeout: time.Minute,
		Now: func() time.Time { return time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC) },
	})
}

// The signature is the one that the vendor's own library (volcengine 1.0,
// SignerV4) makes of the same request at the same moment.
func TestVolcengineSignature(t *testing.T) {
	t.Parallel()
	got := rest.Signed(t, "POST", "https://visual.volcengineapi.com/?Action=CVSubmitTask&Version=2022-08-31", "application/json", `{"req_key":"x"}`,
		toolset.Credential{Type: toolset.Volcengine, Username: "AKtest", Value: "SKtest", Name: "cn-north-1/cv"}, time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC))
	require.Equal(t, "20260304T050607Z", got.Get("X-Date"))
	require.Equal(t, "HMAC-SHA256 Credential=AKtest/20260304/cn-north-1/cv/request, SignedHeaders=content-type;host;x-content-sha256;x-date, "+
		"Signature=18a5361ee412d171bda983159af094eac03e3201a594954c2c6901286c88922e", got.Get("Authorization"))
}

// A task of Volcengine's: each request is signed, the secret is never sent, and
// a success that says it is none is a failure.
func TestVolcengineTasks(t *testing.T) {
	t.Parallel()
	answers := []string{
		`{"code":10000,"message":"Success","data":{"task_id":"7"}}`,
		`{"code":10000,"data":{"status":"in_queue"}}`,
		`{"code":10000,"data":{"status":"done","resp_data":"{\"code\":0,\"urls\":[\"https://x/y.mp4\"]}"}}`,
	}
	u := serve(t, func(w http.ResponseWriter, _ *http.Request, n int) {
		io.WriteString(w, answers[min(n, len(answers))-1])
	})
	m := toolset.Method{HTTPMethod: "POST", Endpoint: "/?Action=Submit&Version=1", Adapter: toolset.Adapter{Polling: &toolset.Polling{
		StatusURL: "/?Action=GetResult&Version=1", StatusMethod: "POST", StatusBody: []byte(`{"req_key":"{req_key}","task_id":"{task_id}"}`),
		ResultPath: "data.resp_data", IntervalSeconds: 1,
	}}}
	in := invocation(t, u, m, `{"req_key":"jimeng","prompt":"a cat"}`)
	in.Credential = toolset.Credential{Type: toolset.Volcengine, Username: "AKtest", Value: "SKsecret-of-volcengine", Name: "cn-north-1/cv"}
	out := execute(t, executor(t, &waits{}), in)
	require.Nil(t, out.Failure)
	require.JSONEq(t, `{"code":0,"urls":["https://x/y.mp4"]}`, string(out.Data))
	require.Len(t, u.seen(), 3)
	require.JSONEq(t, `{"req_key":"jimeng","task_id":"7"}`, u.seen()[1].body)
	for _, r := range u.seen() {
		require.Regexp(t, `^HMAC-SHA256 Credential=AKtest/\d{8}/cn-north-1/cv/request, SignedHeaders=.*, Signature=[0-9a-f]{64}$`, r.header.Get("Authorization"))
		require.NotContains(t, r.body+r.uri, "SKsecret")
	}
	for answer, want := range map[string]string{
		`{"code":50411,"message":"Pre Img Risk Not Pass"}`:                           "VOLCENGINE_API_ERROR",
		`{"code":10000,"data":{"resp_data":"{\"code\":50501,\"msg\":\"no face\"}"}}`: "VOLCENGINE_INVALID_INPUT_IMAGE",
	} {
		u := serve(t, func(w http.ResponseWriter, _ *http.Request, _ int) { io.WriteString(w, answer) })
		in := invocation(t, u, toolset.Method{HTTPMethod: "POST", Endpoint: "/"}, `{}`)
		in.Credential = toolset.Credential{Type: toolset.Volcengine, Username: "AKtest", Value: "SKsecret", Name: "a/b"}
		out := execute(t, signing(t), in)
		require.Equal(t, want, out.Failure.Code)
	}
}

// What a schema leaves out is not seen by the other side, at any depth.
func TestOmitFields(t *testing.T) {
	t.Parallel()
	u := serve(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"debug":1,"items":[{"debug":2,"name":"a","n":12345678901234567890}]}`)
	})
	in := invocation(t, u, toolset.Method{
		HTTPMethod: "POST", Endpoint: "/", Request: []byte(`{"type":"object","omitFields":["internal"]}`), Response: []byte(`{"type":"object","omitFields":["debug"]}`),
	}, `{"internal":1,"deep":{"internal":2,"kept":3}}`)
	out := execute(t, executor(t, nil), in)
	require.JSONEq(t, `{"items":[{"name":"a","n":12345678901234567890}]}`, string(out.Data))
	require.JSONEq(t, `{"deep":{"kept":3}}`, u.seen()[0].body)
}
