package rest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/toolset"
)

// answers gives one answer after the other; the last one stays.
func answers(bodies ...string) func(http.ResponseWriter, *http.Request, int) {
	return func(w http.ResponseWriter, _ *http.Request, n int) {
		w.Header().Set("Content-Type", "application/json")
		body := bodies[min(n, len(bodies))-1]
		if status, rest, ok := strings.Cut(body, "|"); ok {
			code := 0
			_, _ = fmt.Sscan(status, &code)
			w.WriteHeader(code)
			body = rest
		}
		io.WriteString(w, body)
	}
}

// An upstream that only starts a task is asked until it has ended.
func TestPolling(t *testing.T) {
	t.Parallel()
	usual := toolset.Polling{StatusURL: "/tasks/{id}/status"}
	for name, c := range map[string]struct {
		polling toolset.Polling
		answers []string
		want    string // data, or code and message of the failure
		uris    []string
		reports []string
	}{
		"the usual": {
			usual,
			[]string{`{"request_id":"a/b"}`, `{"status":"IN_QUEUE"}`, `{"status":"IN_QUEUE"}`, `503|busy`, `{"state":"running"}`, `{"status":"Completed","data":{"url":"x"}}`},
			`{"url":"x"}`,
			[]string{"POST /go", "GET /tasks/a%2Fb/status"},
			[]string{"run: IN_QUEUE", "run: the upstream answers 503", "run: running"},
		},
		"a number as id": {usual, []string{`{"data":{"task_id":7}}`, `{"status":"done","result":{"n":1}}`}, `{"n":1}`, []string{"POST /go", "GET /tasks/7/status"}, nil},
		"the whole body": {usual, []string{`{"id":"x"}`, `{"status":"succeeded","n":1}`}, `{"n":1,"status":"succeeded"}`, nil, nil},
		"failed": {
			usual,
			[]string{`{"id":"x"}`, `{"status":"failed","error":{"message":"no picture"}}`},
			`TASK_FAILED The task failed: no picture. Upstream response: {"status":"failed","error":{"message":"no picture"}}`, nil, nil,
		},
		"no id":       {usual, []string{`{"ok":true}`}, `POLLING_TASK_ID_NOT_FOUND The upstream started a task and did not say its id. Upstream response: {"ok":true}`, nil, nil},
		"not started": {usual, []string{`400|{"message":"wrong prompt"}`}, `BAD_REQUEST wrong prompt. Upstream response: {"message":"wrong prompt"}`, nil, nil},
		"gone": {
			usual, []string{`{"id":"x"}`, `404|{"message":"no such task"}`}, `NOT_FOUND no such task. Upstream response: {"message":"no such task"}`, nil, nil,
		},
		"too slow": {
			toolset.Polling{StatusURL: "/tasks/{id}", MaxWaitSeconds: 10, IntervalSeconds: 4},
			[]string{`{"id":"x"}`, `{"status":"running"}`},
			`POLLING_TIMEOUT The task x had not ended after 8s; its last status was "running". It may still end at the upstream.`, nil, nil,
		},
		"an id in a query": {
			toolset.Polling{StatusURL: "/tasks?id={id}"},
			[]string{`{"id":"a+b&c=d"}`, `{"status":"done","data":{}}`},
			`{}`,
			[]string{"POST /go", "GET /tasks?id=a%2Bb%26c%3Dd"},
			nil,
		},
		"a result over the limit": {
			usual,
			[]string{`{"id":"x"}`, `{"status":"done","data":"` + strings.Repeat("x", 1<<17) + `"}`, `{"status":"done","data":{}}`},
			"RESPONSE_TOO_LARGE The result has more than 65536 bytes, the most that a call may return (TOOL_RESPONSE_CAP). " +
				"Nothing of it is returned. Ask for less: use a filter, fewer fields or smaller pages.", nil, nil,
		},
		"an address that is refused": {
			toolset.Polling{StatusURL: "http://10.0.0.1/{id}"},
			[]string{`{"id":"x"}`},
			"EGRESS_REFUSED The tool's address, or one it redirects to, is not one that this toolset may reach.", nil, nil,
		},
		"its own paths and words": {
			toolset.Polling{
				StatusURL: "/query", StatusMethod: "post", StatusBody: []byte(`{"task":"{id}","deep":["{task_id}"]}`), TaskIDPath: "data.job", StatusPath: "data.phase",
				ResultPath: "data.answer", CompletedStatuses: []string{"ready"}, FailedStatuses: []string{"expired"},
			},
			[]string{`{"id":"wrong","data":{"job":"j\"1"}}`, `{"data":{"phase":"done"}}`, `{"data":{"phase":"READY","answer":"{\"video\":1}"}}`},
			`{"video":1}`,
			[]string{"POST /go", `POST /query {"task":"j\"1","deep":["j\"1"]}`},
			[]string{"run: done"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := serve(t, answers(c.answers...))
			in := invocation(t, u, toolset.Method{Name: "run", Endpoint: "/go", Adapter: toolset.Adapter{Polling: &c.polling}}, `{"prompt":"a cat"}`)
			var reports []string
			in.Progress = func(_ context.Context, text string) { reports = append(reports, text) }
			w := &waits{}
			out := execute(t, executor(t, w), in)
			if out.Failure != nil {
				require.Equal(t, c.want, out.Failure.Code+" "+out.Failure.Message)
			} else {
				require.JSONEq(t, c.want, string(out.Data))
			}
			for i, want := range c.uris {
				got := u.seen()[i]
				text := got.method + " " + got.uri
				if strings.Contains(want, "{") {
					text += " " + got.body
				}
				require.Equal(t, want, text)
			}
			if c.reports != nil {
				require.Equal(t, c.reports, reports)
			}
			for _, d := range w.list {
				require.LessOrEqual(t, d, 5*time.Second)
			}
		})
	}
}

// The credential goes to the host that it is for, whatever host an answer, or
// the address of the status, names.
func TestPollingKeepsTheCredential(t *testing.T) {
	t.Parallel()
	var other http.Header
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		other = r.Header
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"picture":1}`)
	}))
	t.Cleanup(elsewhere.Close)
	u := serve(t, answers(`{"id":"x"}`, `{"status":"with `+secret+`"}`, `{"status":"done","response_url":"`+elsewhere.URL+`/result"}`))
	in := invocation(t, u, toolset.Method{Endpoint: "/go", Adapter: toolset.Adapter{
		Headers: map[string]string{"X-Api-Key": "", "X-Other": "${apiKey}"}, Polling: &toolset.Polling{StatusURL: "/tasks/{id}"},
	}}, `{}`)
	in.Credential = toolset.Credential{Type: toolset.Header, Name: "X-Api-Key", Value: secret}
	in.Progress = func(_ context.Context, text string) { require.NotContains(t, text, secret) }
	out := execute(t, executor(t, &waits{}), in)
	require.Nil(t, out.Failure)
	require.JSONEq(t, `{"picture":1}`, string(out.Data))
	require.Equal(t, secret, u.seen()[1].header.Get("X-Api-Key"), "the same host")
	require.NotContains(t, fmt.Sprint(other), secret)
	require.Empty(t, other.Get("X-Api-Key"))
}

func TestPollingEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	u := serve(t, answers(`{"id":"x"}`, `{"status":"running"}`))
	in := invocation(t, u, toolset.Method{Endpoint: "/go", Adapter: toolset.Adapter{Polling: &toolset.Polling{StatusURL: "/tasks/{id}"}}}, `{}`)
	ctx, cancel := context.WithCancel(t.Context())
	in.Progress = func(context.Context, string) { cancel() }
	out, err := executor(t, nil).Execute(ctx, in)
	require.NoError(t, err)
	require.Equal(t, "CANCELLED", out.Failure.Code)
}

// A number in JSON that is in a text keeps its digits.
func TestPollingKeepsNumbers(t *testing.T) {
	t.Parallel()
	u := serve(t, answers(`{"id":"x"}`, `{"status":"done","data":"{\"id\":9007199254740993}"}`))
	out := execute(t, executor(t, &waits{}), invocation(t, u, toolset.Method{Endpoint: "/go", Adapter: toolset.Adapter{Polling: &toolset.Polling{StatusURL: "/{id}", ResultPath: "data"}}}, `{}`))
	require.Nil(t, out.Failure)
	require.Equal(t, `{"id":9007199254740993}`, string(out.Data))
}

// The result of a task that has ended is asked for again where it fails for a moment.
func TestPollingFetchesTheResultAgain(t *testing.T) {
	t.Parallel()
	var self *upstream
	self = serve(t, func(w http.ResponseWriter, r *http.Request, n int) {
		answers(`{"id":"x"}`, `{"status":"done","response_url":"`+self.URL+`/result"}`, `503|busy`, `500|`, `{"ok":true}`)(w, r, n)
	})
	out := execute(t, executor(t, &waits{}), invocation(t, self, toolset.Method{Endpoint: "/go", Adapter: toolset.Adapter{Polling: &toolset.Polling{StatusURL: "/{id}"}}}, `{}`))
	require.Nil(t, out.Failure)
	require.JSONEq(t, `{"ok":true}`, string(out.Data))
	require.Len(t, self.seen(), 5)
}

// A failure that is cut has no beginning of a secret at its end.
func TestPollingCutsNoSecret(t *testing.T) {
	t.Parallel()
	long := "sk-" + strings.Repeat("A", 40)
	for name, answer := range map[string][]string{
		"no id":    {`{"a":"%s","seen":"%s"}`},
		"failed":   {`{"id":"x"}`, `{"status":"failed","a":"%s","seen":"%s"}`},
		"a reason": {`{"id":"x"}`, `{"status":"failed","error":"%s%s"}`},
	} {
		for _, before := range []int{470, 480, 1430, 1450, 1470} {
			last := len(answer) - 1
			bodies := append(answer[:last:last], fmt.Sprintf(answer[last], strings.Repeat("x", before), long))
			u := serve(t, answers(bodies...))
			in := invocation(t, u, toolset.Method{Endpoint: "/go", Adapter: toolset.Adapter{Polling: &toolset.Polling{StatusURL: "/{id}"}}}, `{}`)
			in.Credential = toolset.Credential{Type: toolset.Bearer, Value: toolset.Secret(long)}
			out := execute(t, executor(t, &waits{}), in)
			require.NotNil(t, out.Failure, name)
			require.NotContains(t, out.Failure.Message, "AAA", "%s, after %d bytes", name, before)
		}
	}
}

// A wait that ends says why the last question got no answer.
func TestPollingSaysWhatFailedLast(t *testing.T) {
	t.Parallel()
	u := serve(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if n > 1 {
			panic(http.ErrAbortHandler)
		}
		answers(`{"id":"x"}`)(w, r, n)
	})
	out := execute(t, executor(t, &waits{}), invocation(t, u, toolset.Method{Endpoint: "/go", Adapter: toolset.Adapter{Polling: &toolset.Polling{StatusURL: "/{id}", MaxWaitSeconds: 5}}}, `{}`))
	require.Equal(t, "POLLING_TIMEOUT", out.Failure.Code)
	require.Contains(t, out.Failure.Message, "The last question about it failed: CONNECTION_BROKEN")
}
