package redact_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/redact"
)

func TestCredentialsAreTakenOutOfJSON(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ in, out string }{
		"a named one":          {`{"password":"hunter2","city":"Oslo"}`, `{"password":"[redacted]","city":"Oslo"}`},
		"names of many forms":  {`{"apiKey":1,"X-Auth-Token":"a","client_secret":["b"],"Set-Cookie":{"c":1}}`, `{"apiKey":"[redacted]","X-Auth-Token":"[redacted]","client_secret":"[redacted]","Set-Cookie":"[redacted]"}`},
		"deep":                 {`[{"a":{"accessToken":"x","b":[{"pwd":"y"}]}}]`, `[{"a":{"accessToken":"[redacted]","b":[{"pwd":"[redacted]"}]}}]`},
		"arguments as a text":  {`{"type":"function_call","arguments":"{\"token\":\"t-1\",\"n\":1.0}"}`, `{"type":"function_call","arguments":"{\"token\":\"[redacted]\",\"n\":1.0}"}`},
		"known forms anywhere": {`{"note":"use sk-abcdefghijklmnop and ghp_abcdefghijklmnopqrstuv"}`, `{"note":"use [redacted] and [redacted]"}`},
		"code":                 {`{"code":"api_key = 'abc def'\nprint(api_key)"}`, `{"code":"api_key = [redacted]\nprint(api_key)"}`},
		"counts are no tokens": {`{"max_tokens":100,"tokens":7,"password":null,"secret":""}`, `{"max_tokens":100,"tokens":7,"password":null,"secret":""}`},
		"order and numbers":    {`{"z":12345678901234567890,"a":1.50}`, `{"z":12345678901234567890,"a":1.50}`},
		"no JSON":              {`{"password":"hunter2`, `{"password":[redacted]`},
		"nothing to take out":  {`"plain"`, `"plain"`},
	} {
		require.Equal(t, c.out, string(redact.JSON([]byte(c.in))), name)
	}
}

func TestCredentialsAreTakenOutOfText(t *testing.T) {
	t.Parallel()
	for in, out := range map[string]string{
		"Authorization: Bearer abc123.def":                        "Authorization: [redacted] [redacted]",
		"sent Bearer abc123.def to it":                            "sent Bearer [redacted] to it",
		"postgres://me:pa55@db/x":                                 "postgres://[redacted]@db/x",
		"https://a.b/c?api_key=123&city=Oslo":                     "https://a.b/c?api_key=[redacted]&city=Oslo",
		"a basic understanding of tokens":                         "a basic understanding of tokens",
		"-----BEGIN RSA PRIVATE KEY-----\nMII\n":                  "[redacted]",
		"eyJhbGciOiJIUzI1NiJ9.eyJ1aWQiOiJ1LTEifQ.c2lnbmF0dXJl ok": "[redacted] ok",
		"AKIAABCDEFGHIJKLMNOP":                                    "[redacted]",
		`{\"password\": \"x\"}`:                                   `{\"password\": [redacted]}`,
	} {
		require.Equal(t, out, redact.Text(in))
	}
}
