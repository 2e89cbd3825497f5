package upstream_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/upstream"
)

func TestARefusalIsInTheUpstreamsWords(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status  int
		body    string
		code    string
		message string
		data    string
	}{
		"a message":             {400, `{"message":"no city"}`, "BAD_REQUEST", `no city. Upstream response: {"message":"no city"}`, `{"message":"no city"}`},
		"a nested message":      {401, `{"error":{"message":"who?"}}`, "UNAUTHORIZED", `who?. Upstream response: {"error":{"message":"who?"}}`, `{"error":{"message":"who?"}}`},
		"an error that is text": {403, `{"error":"no."}`, "FORBIDDEN", `no. Upstream response: {"error":"no."}`, `{"error":"no."}`},
		"a detail":              {404, `{"detail":"gone"}`, "NOT_FOUND", `gone. Upstream response: {"detail":"gone"}`, `{"detail":"gone"}`},
		"a description":         {500, `{"error":"e","error_description":"longer"}`, "SERVER_ERROR", `longer. Upstream response: {"error":"e","error_description":"longer"}`, `{"error":"e","error_description":"longer"}`},
		"for people first":      {409, `{"readableMessage":"for you","message":"for us"}`, "HTTP_ERROR", `for you. Upstream response: {"readableMessage":"for you","message":"for us"}`, `{"readableMessage":"for you","message":"for us"}`},
		"a page":                {503, "<p>busy</p>\xff", "SERVER_ERROR", "The upstream answered 503 Service Unavailable. Upstream response: <p>busy</p>\uFFFD", ""},
		"nothing":               {502, "", "SERVER_ERROR", "The upstream answered 502 Bad Gateway.", ""},
		"no message at all":     {400, `{"message":7}`, "BAD_REQUEST", `The upstream answered 400 Bad Request. Upstream response: {"message":7}`, `{"message":7}`},
	} {
		f := upstream.Response{Status: c.status, Body: []byte(c.body)}.Refusal(nil)
		require.Equal(t, c.code, f.Code, name)
		require.Equal(t, c.message, f.Message, name)
		require.Equal(t, c.data, string(f.Data), name)
		require.Equal(t, c.code+": "+c.message, f.Error(), name)
	}
}

func TestARefusalSaysWhenToAskAgain(t *testing.T) {
	t.Parallel()
	later := http.Header{"Retry-After": {"30"}}
	require.Equal(t, "The upstream answered 429 Too Many Requests. Try again after 30s.", upstream.Response{Status: 429, Header: later}.Refusal(nil).Message)
	require.Equal(t, "RATE_LIMIT_ERROR", upstream.CodeOf(429))
	require.NotContains(t, upstream.Response{Status: 503, Header: later}.Refusal(nil).Message, "Try again")
	require.NotContains(t, upstream.Response{Status: 429, Header: http.Header{"Retry-After": {"soon"}}}.Refusal(nil).Message, "Try again")
}

func TestQuotesAreCutAtACharacter(t *testing.T) {
	t.Parallel()
	require.Equal(t, "four", upstream.Limit("four", 4))
	require.Equal(t, "ab...[truncated]", upstream.Limit("abüü", 3), "half a character is none")
	require.Equal(t, "...[truncated]", upstream.Limit("üü", 1))
	require.Len(t, upstream.Quote([]byte(" "+strings.Repeat("x", 2000))), 1500+len("...[truncated]"))
	long := upstream.Reason([]byte(`{"message":"` + strings.Repeat("x", 1000) + `"}`))
	require.Len(t, long, upstream.MaxReason+len("...[truncated]"))
	require.Empty(t, upstream.Reason([]byte("no JSON")))
}

// An upstream may send back what it was sent, as it was or in the form of a URL
// or of JSON.
func TestCredentialsDoNotComeBack(t *testing.T) {
	t.Parallel()
	const secret = `p&ss "w/rd<`
	s := upstream.Hide(secret, "short", "another-key")
	for name, text := range map[string]string{
		"as it is":           `you sent ` + secret,
		"in a query":         `at ?key=p%26ss+%22w%2Frd%3C`,
		"in a path":          `at /p&ss%20%22w%2Frd%3C/x`,
		"in JSON":            `{"sent":"p\u0026ss \"w/rd\u003c"}`,
		"another one":        `another-key`,
		"twice, with others": secret + secret + "another-key",
	} {
		got := string(s.Redact([]byte(text)))
		require.Contains(t, got, "[redacted]", name)
		require.NotRegexp(t, `rd<|rd%3C|rd\\u003c|another`, got, name)
	}
	plain := []byte("a short body without any")
	require.Same(t, &plain[0], &s.Redact(plain)[0], "what holds no secret is not copied")
	require.Equal(t, "short", string(s.Redact([]byte("short"))), "what is that short occurs by chance")

	f := upstream.Response{Status: 400, Body: []byte(`{"message":"bad key another-key"}`)}.Refusal(s)
	require.NotContains(t, f.Message+string(f.Data), "another-key")
	require.Contains(t, f.Message, "bad key [redacted]")
	require.JSONEq(t, `{"message":"bad key [redacted]"}`, string(f.Data))
}

func TestTooLargeSaysHowLarge(t *testing.T) {
	t.Parallel()
	require.Contains(t, upstream.TooLarge(11, 10).Message, "The result has 11 bytes, more than 10, the most")
	require.Contains(t, upstream.TooLarge(-1, 10).Message, "The result has more than 10 bytes, the most")
}

// Upstreams write JSON in the ways of their languages.
func TestSecretsAreKnownInEveryForm(t *testing.T) {
	t.Parallel()
	s := upstream.Hide(`abc/def+"ghi"==`)
	for _, form := range []string{`abc/def+"ghi"==`, `abc\/def+\"ghi\"==`, `abc/def\u002B\u0022ghi\u0022==`, `abc/def+\"ghi\"==`, `abc%2Fdef%2B%22ghi%22%3D%3D`} {
		require.Equal(t, `{"key":"[redacted]"}`, string(s.Redact([]byte(`{"key":"`+form+`"}`))), form)
	}
}
