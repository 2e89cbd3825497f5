package rest_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/egress"
	upstreams "github.com/portico-run/portico/internal/upstream"
	"github.com/portico-run/portico/modules/connector/rest"
	"github.com/portico-run/portico/modules/tool"
	"github.com/portico-run/portico/modules/tool/resource"
	"github.com/portico-run/portico/modules/toolset"
)

const secret = "sk-top-secret"

// seen is a request as it arrived.
type seen struct {
	method, uri, body string
	header            http.Header
}

// upstream records requests and answers with the next of its answers.
type upstream struct {
	*httptest.Server
	mu       sync.Mutex
	requests []seen
	answer   func(w http.ResponseWriter, r *http.Request, n int)
}

func serve(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, n int)) *upstream {
	t.Helper()
	u := &upstream{answer: answer}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		u.mu.Lock()
		u.requests = append(u.requests, seen{r.Method, r.RequestURI, string(body), r.Header})
		n := len(u.requests)
		u.mu.Unlock()
		u.answer(w, r, n)
	}))
	t.Cleanup(u.Close)
	return u
}

func (u *upstream) seen() []seen {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]seen(nil), u.requests...)
}

func answerJSON(body string) func(http.ResponseWriter, *http.Request, int) {
	return func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		io.WriteString(w, body)
	}
}

// waits records pauses instead of pausing.
type waits struct{ list []time.Duration }

func (w *waits) wait(_ context.Context, d time.Duration) error {
	w.list = append(w.list, d)
	return nil
}

func executor(t *testing.T, w *waits) *rest.Connector {
	t.Helper()
	client := egress.New(egress.Config{})
	t.Cleanup(client.Close)
	d := upstreams.Deps{Client: client, ResponseCap: 1 << 16}
	if w != nil {
		d.Wait = w.wait
	}
	return rest.New(rest.Deps{Upstream: upstreams.New(d), Timeout: 5 * time.Second, MaxTimeout: time.Minute})
}

// executorAt is an executor for which it is the moment that a clock says.
func executorAt(t *testing.T, now func() time.Time) *rest.Connector {
	t.Helper()
	client := egress.New(egress.Config{})
	t.Cleanup(client.Close)
	return rest.New(rest.Deps{Upstream: upstreams.New(upstreams.Deps{Client: client, ResponseCap: 1 << 16}), Timeout: 5 * time.Second, MaxTimeout: time.Minute, Now: now})
}

func invocation(t *testing.T, u *upstream, m toolset.Method, arguments string) tool.Invocation {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(arguments))
	d.UseNumber()
	var args map[string]any
	require.NoError(t, d.Decode(&args))
	if m.HTTPMethod == "" {
		m.HTTPMethod = "POST"
	}
	return tool.Invocation{
		Toolset: toolset.Toolset{Key: "t", Domain: u.URL, Egress: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
		Method:  m, Arguments: args,
	}
}

func execute(t *testing.T, e *rest.Connector, in tool.Invocation) tool.Outcome {
	t.Helper()
	out, err := e.Execute(t.Context(), in)
	require.NoError(t, err)
	return out
}

func TestRequestsAreBuiltAsTheMethodSays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		method              toolset.Method
		arguments           string
		uri, body, mimeType string
	}{
		"query": {
			toolset.Method{HTTPMethod: "GET", Endpoint: "/search"},
			`{"q":"a b&c","n":12345678901234567890,"tags":["x","y"],"deep":{"k":1},"no":null,"yes":true}`,
			`/search?deep=%7B%22k%22%3A1%7D&n=12345678901234567890&q=a+b%26c&tags=x&tags=y&yes=true`, ``, ``,
		},
		"query besides one of the endpoint": {
			toolset.Method{HTTPMethod: "GET", Endpoint: "/search?v=2&q={q}"}, `{"q":"ä&b","n":1}`, `/search?v=2&q=%C3%A4%26b&n=1`, ``, ``,
		},
		"path": {
			toolset.Method{HTTPMethod: "GET", Endpoint: "/users/{id}/files/{name}"},
			`{"id":7,"name":"a/../b?c#d"}`,
			`/users/7/files/a%2F..%2Fb%3Fc%23d`, ``, ``,
		},
		"JSON": {
			toolset.Method{Endpoint: "/things/{id}"},
			`{"id":"x","list":[1],"n":12345678901234567890,"nul":null}`,
			`/things/x`, `{"list":[1],"n":12345678901234567890,"nul":null}`, `application/json`,
		},
		"JSON of nothing": {toolset.Method{Endpoint: "/go"}, `{}`, `/go`, `{}`, `application/json`},
		"PUT":             {toolset.Method{HTTPMethod: "PUT", Endpoint: "/go"}, `{"a":1}`, `/go`, `{"a":1}`, `application/json`},
		"DELETE":          {toolset.Method{HTTPMethod: "DELETE", Endpoint: "/go/{a}"}, `{"a":1}`, `/go/1`, ``, ``},
		"DELETE with more": {
			toolset.Method{HTTPMethod: "DELETE", Endpoint: "/go/{a}"}, `{"a":1,"b":2}`, `/go/1`, `{"b":2}`, `application/json`,
		},
		"form": {
			toolset.Method{Endpoint: "/f", Adapter: toolset.Adapter{Headers: map[string]string{"content-type": "application/x-www-form-urlencoded"}}},
			`{"a":"x y","b":[1,2],"c":null}`, `/f`, `a=x+y&b=1&b=2`, `application/x-www-form-urlencoded`,
		},
		"own type": {
			toolset.Method{Endpoint: "/f", Adapter: toolset.Adapter{Headers: map[string]string{"Content-Type": "application/vnd.api+json"}}},
			`{"a":1}`, `/f`, `{"a":1}`, `application/vnd.api+json`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := serve(t, answerJSON(`{"ok":true}`))
			in := invocation(t, u, c.method, c.arguments)
			out := execute(t, executor(t, nil), in)
			require.Nil(t, out.Failure)
			require.JSONEq(t, `{"ok":true}`, string(out.Data))
			got := u.seen()[0]
			require.Equal(t, c.uri, got.uri)
			require.Equal(t, c.body, got.body)
			require.Equal(t, c.mimeType, got.header.Get("Content-Type"))
			require.Equal(t, "portico", got.header.Get("User-Agent"))
			require.Equal(t, in.Method.HTTPMethod, got.method)
		})
	}
}

func TestMultipart(t *testing.T) {
	t.Parallel()
	var fields map[string][]string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.ParseMultipartForm(1<<20) == nil {
			fields = r.MultipartForm.Value
		}
	}))
	t.Cleanup(server.Close)
	in := invocation(t, &upstream{Server: server}, toolset.Method{
		Endpoint: "/", Adapter: toolset.Adapter{UseFormData: true, Headers: map[string]string{"Content-Type": "application/json"}},
	},
		`{"text":"a","list":["x",null,3],"object":{"k":[1]},"no":null,"n":1.5}`)
	out := execute(t, executor(t, nil), in)
	require.Equal(t, "null", string(out.Data))
	require.Equal(t, map[string][]string{"text": {"a"}, "list[0]": {"x"}, "list[2]": {"3"}, "object": {`{"k":[1]}`}, "n": {"1.5"}}, fields)
}

// A file among the arguments is a part of a form, with its name and type, and
// base64 where only JSON goes.
func TestFilesAsArguments(t *testing.T) {
	t.Parallel()
	file := resource.File{Name: "cat.png", Type: "image/png", Content: []byte("\x89PNG")}
	var parts []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ParseMultipartForm(1<<20) != nil {
			return
		}
		for field, list := range r.MultipartForm.File {
			f, err := list[0].Open()
			if err != nil {
				return
			}
			content, _ := io.ReadAll(f)
			parts = append(parts, field+" "+list[0].Filename+" "+list[0].Header.Get("Content-Type")+" "+string(content))
		}
	}))
	t.Cleanup(server.Close)
	in := invocation(t, &upstream{Server: server}, toolset.Method{Endpoint: "/", Adapter: toolset.Adapter{UseFormData: true}}, `{}`)
	in.Arguments = map[string]any{"image": file}
	require.Nil(t, execute(t, executor(t, nil), in).Failure)
	require.Equal(t, []string{"image cat.png image/png \x89PNG"}, parts)

	u := serve(t, answerJSON(`{}`))
	in = invocation(t, u, toolset.Method{Endpoint: "/"}, `{}`)
	in.Arguments = map[string]any{"image": file}
	require.Nil(t, execute(t, executor(t, nil), in).Failure)
	require.JSONEq(t, `{"image":"iVBORw=="}`, u.seen()[0].body)
}

// Forms have no other way to write a name: RFC 7578, section 4.2.
func TestNamesOfFilesInFormsAreUTF8(t *testing.T) {
	t.Parallel()
	u := serve(t, answerJSON(`{}`))
	in := invocation(t, u, toolset.Method{Endpoint: "/", Adapter: toolset.Adapter{UseFormData: true}}, `{}`)
	in.Arguments["file"] = resource.File{Name: "Müller \"1\".pdf", Type: "application/pdf", Content: []byte("%PDF")}
	require.Nil(t, execute(t, executor(t, nil), in).Failure)
	require.Contains(t, u.seen()[0].body, `Content-Disposition: form-data; name="file"; filename="Müller \"1\".pdf"`+"\r\n")
}

func TestPathsCannotBeLeft(t *testing.T) {
	t.Parallel()
	u := serve(t, answerJSON(`{}`))
	for _, value := range []string{`".."`, `"."`, `""`, `null`, `[1]`, `{"a":1}`} {
		out := execute(t, executor(t, nil), invocation(t, u, toolset.Method{HTTPMethod: "GET", Endpoint: "/users/{id}/files"}, `{"id":`+value+`}`))
		require.NotNil(t, out.Failure, value)
		require.Equal(t, "INVALID_ARGUMENTS", out.Failure.Code)
	}
	require.Empty(t, u.seen())
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	headers := func(h map[string]string) toolset.Adapter { return toolset.Adapter{Headers: h} }
	for name, c := range map[string]struct {
		credential toolset.Credential
		adapter    toolset.Adapter
		header     string
		want       string
	}{
		"none":                  {toolset.Credential{}, headers(nil), "Authorization", ""},
		"header":                {toolset.Credential{Type: toolset.Header, Name: "X-Key", Value: secret}, headers(nil), "X-Key", secret},
		"bearer":                {toolset.Credential{Type: toolset.Bearer, Value: secret}, headers(nil), "Authorization", "Bearer " + secret},
		"basic":                 {toolset.Credential{Type: toolset.Basic, Username: "u", Value: "pass word"}, headers(nil), "Authorization", "Basic dTpwYXNzIHdvcmQ="},
		"automatic, template":   {toolset.Credential{Type: toolset.Automatic, Value: secret}, headers(map[string]string{"Authorization": "Key ${apiKey}"}), "Authorization", "Key " + secret},
		"automatic, key header": {toolset.Credential{Type: toolset.Automatic, Value: secret}, headers(map[string]string{"X-Goog-Api-Key": ""}), "X-Goog-Api-Key", secret},
		"automatic, bearer":     {toolset.Credential{Type: toolset.Automatic, Value: secret}, headers(nil), "Authorization", "Bearer " + secret},
		"automatic, own header": {toolset.Credential{Type: toolset.Automatic, Value: secret}, headers(map[string]string{"Authorization": "Fixed x"}), "Authorization", "Fixed x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := serve(t, answerJSON(`{}`))
			in := invocation(t, u, toolset.Method{Endpoint: "/", Adapter: c.adapter}, `{}`)
			in.Credential = c.credential
			execute(t, executor(t, nil), in)
			require.Equal(t, c.want, u.seen()[0].header.Get(c.header))
		})
	}
	u := serve(t, answerJSON(`{}`))
	in := invocation(t, u, toolset.Method{HTTPMethod: "GET", Endpoint: "/x?a=1"}, `{"b":2}`)
	in.Credential = toolset.Credential{Type: toolset.Query, Name: "key", Value: "a&b"}
	execute(t, executor(t, nil), in)
	require.Equal(t, "/x?a=1&b=2&key=a%26b", u.seen()[0].uri)
}

// A file that can be read as text has no secret in it; one that cannot stays as it is.
func TestFilesRepeatNoSecret(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{"key: " + secret: "key: [redacted]", "\xff" + secret: "\xff" + secret} {
		u := serve(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
			w.Header().Set("Content-Type", "application/octet-stream")
			io.WriteString(w, content)
		})
		in := invocation(t, u, toolset.Method{Endpoint: "/"}, `{}`)
		in.Credential = toolset.Credential{Type: toolset.Bearer, Value: secret}
		require.Equal(t, want, string(execute(t, executor(t, nil), in).File.Content))
	}
}

// What asks for the key is the toolset's file, and never an argument.
func TestArgumentsDoNotPlaceTheCredential(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]toolset.Adapter{
		"a header": {HeaderParameters: map[string]string{"title": "X-Title"}},
		"a style":  {Parameters: map[string]toolset.Parameter{"title": {In: toolset.InHeader, Name: "X-Title"}}},
	} {
		u := serve(t, answerJSON(`{}`))
		in := invocation(t, u, toolset.Method{Endpoint: "/", Adapter: a}, `{"title":"look: ${apiKey}"}`)
		in.Credential = toolset.Credential{Type: toolset.Automatic, Value: secret}
		require.Nil(t, execute(t, executor(t, nil), in).Failure, name)
		got := u.seen()[0].header
		require.Equal(t, "look: ${apiKey}", got.Get("X-Title"), name)
		require.Equal(t, "Bearer "+secret, got.Get("Authorization"), "%s: the key goes where it would", name)
	}
}

func TestSecretsThatAnUpstreamRepeatsDoNotComeBack(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 400, 500} {
		u := serve(t, func(w http.ResponseWriter, r *http.Request, _ int) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			io.WriteString(w, `{"message":"bad key `+secret+`","sent":"`+r.Header.Get("Authorization")+`"}`)
		})
		in := invocation(t, u, toolset.Method{Endpoint: "/"}, `{}`)
		in.Credential = toolset.Credential{Type: toolset.Bearer, Value: secret}
		out := execute(t, executor(t, nil), in)
		text, err := json.Marshal([]any{out.Data, out.Failure, out.File})
		require.NoError(t, err)
		require.NotContains(t, string(text), secret)
		require.Contains(t, string(text), "[redacted]")
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status         int
		mimeType, body string
		data           string
		code, message  string
	}{
		"object":        {200, "application/json", `{"a":12345678901234567890}`, `{"a":12345678901234567890}`, "", ""},
		"list":          {201, "application/vnd.x+json", `[1]`, `[1]`, "", ""},
		"empty":         {204, "", ``, `null`, "", ""},
		"blank":         {200, "application/json", " \n", `null`, "", ""},
		"text":          {200, "text/plain", `héllo "x"`, `"héllo \"x\""`, "", ""},
		"HTML":          {200, "text/html; charset=utf-8", `<b>`, `"<b>"`, "", ""},
		"control":       {200, "text/plain", "a\tb\r\n\x00\\", `"a\u0009b\u000d\n\u0000\\"`, "", ""},
		"bad text":      {200, "text/plain", "a\xff", `"a` + "\uFFFD" + `"`, "", ""},
		"untyped JSON":  {200, "-", `{"a":1}`, `{"a":1}`, "", ""},
		"untyped text":  {200, "nonsense/;;", `hello`, `"hello"`, "", ""},
		"untyped bytes": {200, "nonsense/;;", "\x00\xff", "", "FILE", ""},
		"invalid JSON":  {200, "application/json", `{"a":`, "", "INVALID_RESPONSE", `not valid. Upstream response: {"a":`},
		"binary":        {200, "image/png", "\x89PNG", "", "FILE", "image/png"},
		"too large":     {200, "application/json", `"` + strings.Repeat("x", 1<<16) + `"`, "", "RESPONSE_TOO_LARGE", "more than 65536 bytes"},
		"400":           {400, "application/json", `{"message":"no such city."}`, "", "BAD_REQUEST", `no such city. Upstream response: {"message":"no such city."}`},
		"401":           {401, "application/json", `{"error":{"message":"bad key"}}`, "", "UNAUTHORIZED", `bad key. Upstream response`},
		"403":           {403, "text/plain", `go away`, "", "FORBIDDEN", `The upstream answered 403 Forbidden. Upstream response: go away`},
		"404":           {404, "application/json", `{"error":"gone"}`, "", "NOT_FOUND", `gone. Upstream`},
		"409":           {409, "application/json", `{"detail":"taken"}`, "", "HTTP_ERROR", `taken. Upstream`},
		"429":           {429, "application/json", `{}`, "", "RATE_LIMIT_ERROR", `429 Too Many Requests. Upstream response: {}`},
		"500":           {500, "text/html", ``, "", "SERVER_ERROR", `The upstream answered 500 Internal Server Error.`},
		"304":           {304, "", ``, "", "HTTP_ERROR", `304 Not Modified.`},
		"long":          {502, "text/plain", strings.Repeat("é", 2000), "", "SERVER_ERROR", `...[truncated]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := serve(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
				w.Header()["Content-Type"] = nil
				if c.mimeType != "-" && c.mimeType != "" {
					w.Header().Set("Content-Type", c.mimeType)
				}
				w.WriteHeader(c.status)
				io.WriteString(w, c.body)
			})
			out := execute(t, executor(t, nil), invocation(t, u, toolset.Method{Endpoint: "/"}, `{}`))
			require.Len(t, u.seen(), 1, "a POST was repeated")
			if c.code == "" {
				require.Nil(t, out.Failure)
				require.Equal(t, c.data, string(out.Data))
				return
			}
			if c.code == "FILE" {
				require.Equal(t, &resource.File{Type: c.message, Content: []byte(c.body)}, out.File)
				return
			}
			require.NotNil(t, out.Failure)
			require.Equal(t, c.code, out.Failure.Code)
			require.Contains(t, out.Failure.Message, c.message)
			require.LessOrEqual(t, len(out.Failure.Message), 2200)
		})
	}
}

// What stands under extensions is the server's own: no form of it hides what was done.
func TestExtensionsOfGraphQLHaveAnyForm(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"data":{"add":{"id":1}},"extensions":{"cost":12}}`:                                "",
		`{"data":{"add":{"id":1}},"extensions":{"cost":{"throttleStatus":"ok"}}}`:           "",
		`{"data":{"add":{"id":1}},"extensions":[]}`:                                         "",
		`{"data":null,"errors":[{"message":"slow down","extensions":{"code":429}}]}`:        "GRAPHQL_ERROR",
		`{"errors":[{"message":"slow down","extensions":{"code":429,"type":"THROTTLED"}}]}`: "RATE_LIMIT_ERROR",
		`{"errors":[{"message":"no","extensions":"FORBIDDEN","type":"FORBIDDEN"}]}`:         "FORBIDDEN",
	} {
		out := execute(t, executor(t, nil), invocation(t, serve(t, answerJSON(body)), toolset.Method{
			Endpoint: "/graphql", Adapter: toolset.Adapter{GraphQL: &toolset.GraphQL{Query: "mutation add { add { id } }", Root: "add"}},
		}, `{}`))
		if want == "" {
			require.Nil(t, out.Failure, body)
			require.JSONEq(t, `{"id":1}`, string(out.Data), body)
			continue
		}
		require.NotNil(t, out.Failure, body)
		require.Equal(t, want, out.Failure.Code, body)
	}
}

func TestCompressedAnswersCountAsTheyUnpack(t *testing.T) {
	t.Parallel()
	u := serve(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Type", "application/json")
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, `"`+strings.Repeat("0", 50<<20)+`"`) // the client ends early
		_ = z.Close()
	})
	out := execute(t, executor(t, nil), invocation(t, u, toolset.Method{HTTPMethod: "GET", Endpoint: "/"}, `{}`))
	require.Equal(t, "RESPONSE_TOO_LARGE", out.Failure.Code)
}

func TestRetries(t *testing.T) {
	t.Parallel()
	two := 2
	for name, c := range map[string]struct {
		method     toolset.Method
		status     int
		retryAfter string
		attempts   int
		first      time.Duration // of the pauses, if it is exact
	}{
		"GET 503":            {toolset.Method{HTTPMethod: "GET"}, 503, "", 4, 0},
		"GET 429 asked":      {toolset.Method{HTTPMethod: "GET"}, 429, "2", 4, 2 * time.Second},
		"GET 502":            {toolset.Method{HTTPMethod: "GET"}, 502, "", 4, 0},
		"PUT 504":            {toolset.Method{HTTPMethod: "PUT"}, 504, "", 4, 0},
		"DELETE 503":         {toolset.Method{HTTPMethod: "DELETE"}, 503, "", 4, 0},
		"GET 500":            {toolset.Method{HTTPMethod: "GET"}, 500, "", 1, 0},
		"GET 404":            {toolset.Method{HTTPMethod: "GET"}, 404, "", 1, 0},
		"POST 503":           {toolset.Method{HTTPMethod: "POST"}, 503, "", 1, 0},
		"PATCH 429":          {toolset.Method{HTTPMethod: "PATCH"}, 429, "1", 1, 0},
		"POST 503 harmless":  {toolset.Method{HTTPMethod: "POST", Adapter: toolset.Adapter{Idempotent: true}}, 503, "", 4, 0},
		"two only":           {toolset.Method{HTTPMethod: "GET", Adapter: toolset.Adapter{MaxRetries: &two}}, 503, "", 3, 0},
		"none":               {toolset.Method{HTTPMethod: "GET", Adapter: toolset.Adapter{MaxRetries: new(int)}}, 503, "", 1, 0},
		"asked for too long": {toolset.Method{HTTPMethod: "GET"}, 503, "3600", 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := serve(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
				if c.retryAfter != "" {
					w.Header().Set("Retry-After", c.retryAfter)
				}
				w.WriteHeader(c.status)
			})
			w := &waits{}
			c.method.Endpoint = "/"
			out := execute(t, executor(t, w), invocation(t, u, c.method, `{}`))
			require.NotNil(t, out.Failure)
			require.Len(t, u.seen(), c.attempts)
			require.Len(t, w.list, c.attempts-1)
			if c.first > 0 {
				require.Equal(t, c.first, w.list[0])
			}
			for i, d := range w.list {
				require.LessOrEqual(t, d, 10*time.Second)
				require.True(t, c.first > 0 || d >= 125*time.Millisecond<<i, d)
			}
		})
	}
}

func TestRetryThatWorks(t *testing.T) {
	t.Parallel()
	u := serve(t, func(w http.ResponseWriter, _ *http.Request, n int) {
		if n < 3 {
			w.WriteHeader(503)
			return
		}
		answerJSON(`7`)(w, nil, n)
	})
	out := execute(t, executor(t, &waits{}), invocation(t, u, toolset.Method{HTTPMethod: "PUT", Endpoint: "/"}, `{"a":1}`))
	require.Equal(t, "7", string(out.Data))
	for _, s := range u.seen() {
		require.Equal(t, `{"a":1}`, s.body)
	}
}

func TestConnectionFailuresAreRepeatedForEveryMethod(t *testing.T) {
	t.Parallel()
	u := serve(t, answerJSON(`1`))
	u.Close()
	w := &waits{}
	out := execute(t, executor(t, w), invocation(t, u, toolset.Method{Endpoint: "/"}, `{}`))
	require.Equal(t, "CONNECTION_FAILED", out.Failure.Code)
	require.Len(t, w.list, 3)
	require.NotContains(t, out.Failure.Message, "127.0.0.1")
}

func TestBrokenConnectionsAreNotRepeated(t *testing.T) {
	t.Parallel()
	u := serve(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Content-Length", "1000")
		io.WriteString(w, "{")
		panic(http.ErrAbortHandler)
	})
	out := execute(t, executor(t, &waits{}), invocation(t, u, toolset.Method{HTTPMethod: "PUT", Endpoint: "/"}, `{}`))
	require.Equal(t, "CONNECTION_BROKEN", out.Failure.Code)
	require.Len(t, u.seen(), 1)
}

func TestTimeouts(t *testing.T) {
	t.Parallel()
	u := serve(t, func(_ http.ResponseWriter, r *http.Request, _ int) { <-r.Context().Done() })
	in := invocation(t, u, toolset.Method{Endpoint: "/", Adapter: toolset.Adapter{TimeoutMS: 50}}, `{}`)
	out := execute(t, executor(t, nil), in)
	require.Equal(t, "TIMEOUT", out.Failure.Code)
	require.Equal(t, "The upstream did not answer within 50ms.", out.Failure.Message)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got, err := executor(t, nil).Execute(ctx, in)
	require.NoError(t, err)
	require.Equal(t, "CANCELLED", got.Failure.Code)
}

func TestEgressRules(t *testing.T) {
	t.Parallel()
	u := serve(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/", http.StatusFound)
	})
	in := invocation(t, u, toolset.Method{HTTPMethod: "GET", Endpoint: "/"}, `{}`)
	out := execute(t, executor(t, nil), in)
	require.Equal(t, "EGRESS_REFUSED", out.Failure.Code)
	require.NotContains(t, out.Failure.Message, "169.254")
	in.Toolset.Egress = nil
	out = execute(t, executor(t, nil), in)
	require.Equal(t, "EGRESS_REFUSED", out.Failure.Code)
	require.Len(t, u.seen(), 1)
}

func TestArgumentsAreNotChanged(t *testing.T) {
	t.Parallel()
	u := serve(t, answerJSON(`1`))
	in := invocation(t, u, toolset.Method{Endpoint: "/{a}"}, `{"a":"x","b":1}`)
	execute(t, executor(t, nil), in)
	require.Equal(t, map[string]any{"a": "x", "b": json.Number("1")}, in.Arguments)
}

func TestWaitingEndsWithTheCall(t *testing.T) {
	t.Parallel()
	u := serve(t, func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(503) })
	client := egress.New(egress.Config{})
	t.Cleanup(client.Close)
	e := rest.New(rest.Deps{
		Timeout: time.Minute, MaxTimeout: time.Minute, Upstream: upstreams.New(upstreams.Deps{
			Client: client, ResponseCap: 100, Wait: func(context.Context, time.Duration) error { return errors.New("ended") },
		}),
	})
	out := execute(t, e, invocation(t, u, toolset.Method{HTTPMethod: "GET", Endpoint: "/"}, `{}`))
	require.Equal(t, "SERVER_ERROR", out.Failure.Code)
	require.Len(t, u.seen(), 1)
}
