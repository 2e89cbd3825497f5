package rest_test

import (
	"context"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/tool"
	"github.com/portico-run/portico/modules/tool/resource"
	"github.com/portico-run/portico/modules/toolset"
)

// What is sent is what the table of styles in the OpenAPI Specification says,
// for each style, with and without explode, and each type of value.
func TestStylesAreThoseOfTheSpecification(t *testing.T) {
	t.Parallel()
	const (
		text   = `{"color":"blue"}`
		list   = `{"color":["blue","black","brown"]}`
		object = `{"color":{"R":100,"G":200,"B":150}}`
	)
	type row struct {
		in, style          string
		explode            bool
		text, list, object string
	}
	u := serve(t, answerJSON(`{}`))
	e := executor(t, nil)
	send := func(t *testing.T, p toolset.Parameter, arguments string) seen {
		t.Helper()
		m := toolset.Method{HTTPMethod: "GET", Endpoint: "/x", Adapter: toolset.Adapter{Parameters: map[string]toolset.Parameter{"color": p}}}
		if p.In == toolset.InPath {
			m.Endpoint = "/x/{color}"
		}
		before := len(u.seen())
		out := execute(t, e, invocation(t, u, m, arguments))
		require.Nil(t, out.Failure)
		return u.seen()[before]
	}
	for _, r := range []row{
		{"path", "matrix", false, "/x/;color=blue", "/x/;color=blue,black,brown", "/x/;color=B,150,G,200,R,100"},
		{"path", "matrix", true, "/x/;color=blue", "/x/;color=blue;color=black;color=brown", "/x/;B=150;G=200;R=100"},
		{"path", "label", false, "/x/.blue", "/x/.blue,black,brown", "/x/.B,150,G,200,R,100"},
		{"path", "label", true, "/x/.blue", "/x/.blue.black.brown", "/x/.B=150.G=200.R=100"},
		{"path", "simple", false, "/x/blue", "/x/blue,black,brown", "/x/B,150,G,200,R,100"},
		{"path", "simple", true, "/x/blue", "/x/blue,black,brown", "/x/B=150,G=200,R=100"},
		{"query", "form", false, "/x?color=blue", "/x?color=blue,black,brown", "/x?color=B,150,G,200,R,100"},
		{"query", "form", true, "/x?color=blue", "/x?color=blue&color=black&color=brown", "/x?B=150&G=200&R=100"},
		{"query", "spaceDelimited", false, "/x?color=blue", "/x?color=blue%20black%20brown", "/x?color=B%20150%20G%20200%20R%20100"},
		{"query", "spaceDelimited", true, "/x?color=blue", "/x?color=blue&color=black&color=brown", "/x?B=150&G=200&R=100"},
		{"query", "pipeDelimited", false, "/x?color=blue", "/x?color=blue%7Cblack%7Cbrown", "/x?color=B%7C150%7CG%7C200%7CR%7C100"},
		{"query", "pipeDelimited", true, "/x?color=blue", "/x?color=blue&color=black&color=brown", "/x?B=150&G=200&R=100"},
		{"query", "deepObject", true, "/x?color=blue", "/x?color%5B0%5D=blue&color%5B1%5D=black&color%5B2%5D=brown", "/x?color%5BB%5D=150&color%5BG%5D=200&color%5BR%5D=100"},
		{"header", "simple", false, "blue", "blue,black,brown", "B,150,G,200,R,100"},
		{"header", "simple", true, "blue", "blue,black,brown", "B=150,G=200,R=100"},
		{"cookie", "form", false, "color=blue", "color=blue,black,brown", "color=B,150,G,200,R,100"},
		{"cookie", "form", true, "color=blue", "color=blue; color=black; color=brown", "B=150; G=200; R=100"},
	} {
		for arguments, want := range map[string]string{text: r.text, list: r.list, object: r.object} {
			got := send(t, toolset.Parameter{In: r.in, Style: r.style, Explode: &r.explode}, arguments)
			where := got.uri
			switch r.in {
			case "header":
				where = got.header.Get("Color")
			case "cookie":
				where = got.header.Get("Cookie")
			}
			require.Equal(t, want, where, "%s %s explode=%v %s", r.in, r.style, r.explode, arguments)
		}
	}
	for arguments, c := range map[string]struct {
		p    toolset.Parameter
		want string
	}{
		`{"color":"a/b?c&d=e#f g+é"}`:          {toolset.Parameter{In: "query", AllowReserved: true}, "/x?color=a/b?c%26d=e%23f%20g%2B%C3%A9"},
		`{"color":"a/b?c&d"}`:                  {toolset.Parameter{In: "query"}, "/x?color=a%2Fb%3Fc%26d"},
		`{"color":["a,b","c"]}`:                {toolset.Parameter{In: "query", Explode: new(bool)}, "/x?color=a%2Cb,c"},
		`{"color":{"a":[1,{"b":null,"c":2}]}}`: {toolset.Parameter{In: "query", Style: "deepObject"}, "/x?color%5Ba%5D%5B0%5D=1&color%5Ba%5D%5B1%5D%5Bc%5D=2"},
		`{"color":{"R":[1]}}`:                  {toolset.Parameter{In: "query", ContentType: "application/json"}, "/x?color=%7B%22R%22%3A%5B1%5D%7D"},
		`{"color":"R"}`:                        {toolset.Parameter{In: "query", ContentType: "application/json", Name: "c[]"}, "/x?c%5B%5D=%22R%22"},
		`{"color":[]}`:                         {toolset.Parameter{In: "query", Explode: new(bool)}, "/x"},
		`{"color":null}`:                       {toolset.Parameter{In: "query"}, "/x"},
		`{"color":["a/b","c"]}`:                {toolset.Parameter{In: "path"}, "/x/a%2Fb,c"},
	} {
		require.Equal(t, c.want, send(t, c.p, arguments).uri, arguments)
	}
	for _, arguments := range []string{`{"color":".."}`, `{"color":["a",".."]}`, `{"color":""}`, `{"color":[]}`, `{"color":null}`} {
		m := toolset.Method{HTTPMethod: "GET", Endpoint: "/x/{color}", Adapter: toolset.Adapter{Parameters: map[string]toolset.Parameter{"color": {In: "path", Style: "label"}}}}
		before := len(u.seen())
		require.NotNil(t, execute(t, e, invocation(t, u, m, arguments)).Failure, arguments)
		require.Len(t, u.seen(), before, arguments)
	}
}

// A header's value cannot begin another header, whatever is in a list.
func TestStyledHeadersStayOneHeader(t *testing.T) {
	t.Parallel()
	u := serve(t, answerJSON(`{}`))
	m := toolset.Method{HTTPMethod: "GET", Endpoint: "/x", Adapter: toolset.Adapter{Parameters: map[string]toolset.Parameter{"a": {In: "header", Name: "X-A"}, "b": {In: "cookie"}}}}
	require.Nil(t, execute(t, executor(t, nil), invocation(t, u, m, `{"a":["x\r\nX-B: 1"],"b":"1; admin=1"}`)).Failure)
	got := u.seen()[0].header
	require.Empty(t, got.Get("X-B"))
	require.Equal(t, "b=1%3B%20admin%3D1", got.Get("Cookie"))
}

// A body is what the method says, and nothing where there is nothing to send.
func TestBodiesAreWhatTheMethodSays(t *testing.T) {
	t.Parallel()
	yes := true
	form := map[string]string{"Content-Type": "application/x-www-form-urlencoded"}
	for name, c := range map[string]struct {
		adapter               toolset.Adapter
		arguments, body, kind string
	}{
		"never":                {toolset.Adapter{Body: "none"}, `{}`, "", ""},
		"not without argument": {toolset.Adapter{Body: "optional"}, `{}`, "", ""},
		"with one":             {toolset.Adapter{Body: "optional"}, `{"a":1}`, `{"a":1}`, "application/json"},
		"another name":         {toolset.Adapter{Parameters: map[string]toolset.Parameter{"body_id": {In: "body", Name: "id"}}}, `{"body_id":1}`, `{"id":1}`, "application/json"},
		"text":                 {toolset.Adapter{Headers: map[string]string{"Content-Type": "text/plain"}, BodyParameter: "body"}, `{"body":"a \"b\""}`, `a "b"`, "text/plain"},
		"JSON of another name": {toolset.Adapter{Headers: map[string]string{"Content-Type": "application/vnd.api+json"}, BodyParameter: "body"}, `{"body":"a"}`, `"a"`, "application/vnd.api+json"},
		"missing whole":        {toolset.Adapter{BodyParameter: "body"}, `{}`, "", ""},
		"deep form": {
			toolset.Adapter{Headers: form, Parameters: map[string]toolset.Parameter{"a": {In: "body", Style: "deepObject", Explode: &yes}}},
			`{"a":{"b":["x y"]},"c":"d e"}`,
			"c=d+e&a%5Bb%5D%5B0%5D=x%20y", "application/x-www-form-urlencoded",
		},
		"JSON in a form": {
			toolset.Adapter{Headers: form, Parameters: map[string]toolset.Parameter{"a": {In: "body", ContentType: "application/json"}}},
			`{"a":{"b":1}}`,
			"a=%7B%22b%22%3A1%7D", "application/x-www-form-urlencoded",
		},
	} {
		u := serve(t, answerJSON(`{}`))
		require.Nil(t, execute(t, executor(t, nil), invocation(t, u, toolset.Method{Endpoint: "/x", Adapter: c.adapter}, c.arguments)).Failure, name)
		require.Equal(t, c.body, u.seen()[0].body, name)
		require.Equal(t, c.kind, u.seen()[0].header.Get("Content-Type"), name)
	}
}

// Parts of a form carry their media type, items of a list the same name, and a
// file is sent as the whole body byte for byte.
func TestPartsOfForms(t *testing.T) {
	t.Parallel()
	u := serve(t, answerJSON(`{}`))
	m := toolset.Method{Endpoint: "/x", Adapter: toolset.Adapter{UseFormData: true, Parameters: map[string]toolset.Parameter{
		"meta": {In: "body", ContentType: "application/json"}, "tags": {In: "body"}, "photo": {In: "body", Name: "photo[]", ContentType: "image/png"},
	}}}
	in := invocation(t, u, m, `{"meta":{"a":1},"tags":["x","y"]}`)
	in.Arguments["photo"] = resource.File{Type: "application/octet-stream", Content: []byte{1, 2}}
	require.Nil(t, execute(t, executor(t, nil), in).Failure)
	_, parameters, err := mime.ParseMediaType(u.seen()[0].header.Get("Content-Type"))
	require.NoError(t, err)
	var got []string
	for r := multipart.NewReader(strings.NewReader(u.seen()[0].body), parameters["boundary"]); ; {
		p, err := r.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		text, err := io.ReadAll(p)
		require.NoError(t, err)
		got = append(got, p.FormName()+"|"+p.FileName()+"|"+p.Header.Get("Content-Type")+"|"+string(text))
	}
	require.Equal(t, []string{`meta||application/json|{"a":1}`, "photo[]|photo[].bin|image/png|\x01\x02", "tags|||x", "tags|||y"}, got)

	whole := toolset.Method{Endpoint: "/x", Adapter: toolset.Adapter{BodyParameter: "body", Headers: map[string]string{"Content-Type": "image/png"}}}
	in = invocation(t, u, whole, `{}`)
	in.Arguments["body"] = resource.File{Content: []byte{0, 255}}
	require.Nil(t, execute(t, executor(t, nil), in).Failure)
	require.Equal(t, "\x00\xff", u.seen()[1].body)
}

// A client of OAuth 2 gets a token once for all calls, another one when its time
// is over or the upstream refuses it, and its secret goes to the authorization
// server alone.
func TestClientCredentials(t *testing.T) {
	t.Parallel()
	var given atomic.Int32
	var refuse atomic.Bool
	u := serve(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/token":
			if _, password, _ := r.BasicAuth(); password != secret {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			n := given.Add(1)
			io.WriteString(w, `{"access_token":"token-number-`+string('0'+n)+`","token_type":"Bearer","expires_in":100}`)
		case refuse.Load():
			w.WriteHeader(http.StatusUnauthorized)
		default:
			io.WriteString(w, `{"told":"`+r.Header.Get("Authorization")+`"}`)
		}
	})
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	e := executorAt(t, func() time.Time { return now })
	credential := toolset.Credential{
		Type: toolset.ClientCredentials, Name: u.URL + "/token", Username: "client", Value: secret, Scopes: "read write",
		Also: []toolset.Credential{{Type: toolset.Cookie, Name: "session", Value: "cookie-value"}},
	}
	call := func() (failed bool) {
		in := invocation(t, u, toolset.Method{Endpoint: "/x", HTTPMethod: "GET"}, `{}`)
		in.Credential, in.Toolset.Global = credential, true
		out := execute(t, e, in)
		require.NotContains(t, string(out.Data), "token-number")
		return out.Failure != nil
	}
	require.False(t, call())
	require.False(t, call())
	require.EqualValues(t, 1, given.Load())
	require.Equal(t, "grant_type=client_credentials&scope=read+write", u.seen()[0].body)
	require.Equal(t, "Bearer token-number-1", u.seen()[2].header.Get("Authorization"))
	require.Equal(t, "session=cookie-value", u.seen()[2].header.Get("Cookie"))
	now = now.Add(80 * time.Second) // the token ends in 20
	require.False(t, call())
	require.EqualValues(t, 2, given.Load())
	refuse.Store(true)
	require.True(t, call())
	refuse.Store(false)
	require.False(t, call())
	require.EqualValues(t, 3, given.Load())
	credential.Value = "another-secret"
	in := invocation(t, u, toolset.Method{Endpoint: "/x", HTTPMethod: "GET"}, `{}`)
	in.Credential, in.Toolset.Global = credential, true
	out := execute(t, e, in)
	require.Contains(t, out.Failure.Message, "gave no token")
	require.NotContains(t, out.Failure.Message, "another-secret")

	// The address that a user names is not within the operator's networks.
	before := len(u.seen())
	in.Toolset.Global = false
	require.NotNil(t, execute(t, e, in).Failure)
	require.Len(t, u.seen(), before)
}

// XML is read as text, as a program reads it.
func TestXMLIsText(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"application/xml", "application/atom+xml; charset=utf-8", "application/x-ndjson"} {
		u := serve(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
			w.Header().Set("Content-Type", kind)
			io.WriteString(w, "<a/>")
		})
		out := execute(t, executor(t, nil), invocation(t, u, toolset.Method{Endpoint: "/x", HTTPMethod: "GET"}, `{}`))
		require.Equal(t, `"<a/>"`, string(out.Data), kind)
	}
}

// A call that waits for the token that another one asks for ends with its caller, and
// says so; so does the one that asks.
func TestWaitingForATokenEndsWithTheCall(t *testing.T) {
	t.Parallel()
	asked, over := make(chan struct{}), make(chan struct{})
	u := serve(t, func(http.ResponseWriter, *http.Request, int) {
		asked <- struct{}{}
		<-over
	})
	e := executor(t, nil)
	in := invocation(t, u, toolset.Method{Name: "x", Endpoint: "/x"}, `{}`)
	in.Toolset.Global = true
	in.Credential = toolset.Credential{Type: toolset.ClientCredentials, Name: u.URL + "/token", Username: "client", Value: secret}
	first, leave := context.WithCancel(t.Context())
	ended := make(chan tool.Outcome, 1)
	go func() {
		out, _ := e.Execute(first, in)
		ended <- out
	}()
	<-asked
	second, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	out, err := e.Execute(second, in)
	require.NoError(t, err)
	require.Equal(t, "TIMEOUT", out.Failure.Code)
	require.Contains(t, out.Failure.Message, "Nothing was sent to the tool")
	leave()
	require.Equal(t, "CANCELLED", (<-ended).Failure.Code)
	close(over)
}
