package model_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/model"
)

const (
	piece = `{"type":"response.output_text.delta","sequence_number":0,"delta":"Half"}`
	done  = `{"type":"response.completed","response":{"id":"r","model":"m","output":[]}}`
)

// faulty is a client of a provider, and how often that was asked.
func faulty(t *testing.T, c model.Config, answer http.HandlerFunc) (*model.Client, *atomic.Int64) {
	t.Helper()
	asked := &atomic.Int64{}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		answer(w, r)
	}))
	t.Cleanup(web.Close)
	c.BaseURL, c.APIKey, c.Model = web.URL, "sk-the-whole-key", "m"
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return model.New(c), asked
}

// A stream without a last word is asked for again, so often, and what it was is
// in the error.
func TestAnswersThatBreakOffAreAskedForAgain(t *testing.T) {
	t.Parallel()
	flush := func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }
	hang := func(w http.ResponseWriter, r *http.Request) { flush(w); <-r.Context().Done() }
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		why    string
	}{
		"cut":             {func(w http.ResponseWriter, _ *http.Request) { stream(w, piece); flush(w); panic(http.ErrAbortHandler) }, "The connection to the upstream broke"},
		"cut in an event": {func(w http.ResponseWriter, _ *http.Request) { stream(w, piece); fmt.Fprint(w, "data: "+done) }, "the stream ended before the answer"},
		"no last word":    {func(w http.ResponseWriter, _ *http.Request) { stream(w, piece, "[DONE]") }, "an event is not a JSON object"},
		"garbage":         {func(w http.ResponseWriter, _ *http.Request) { stream(w, piece, "\x00\xff{") }, "an event is not a JSON object"},
		"not an object":   {func(w http.ResponseWriter, _ *http.Request) { stream(w, `[1]`) }, "an event is not a JSON object"},
		"an odd piece": {func(w http.ResponseWriter, _ *http.Request) {
			stream(w, `{"type":"response.output_text.delta","delta":7}`)
		}, "an event of type response.output_text.delta cannot be read"},
		"a page":  {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, "the stream ended before the answer (Content-Type text/html; charset=utf-8)"},
		"silence": {func(w http.ResponseWriter, r *http.Request) { stream(w, piece); hang(w, r) }, "nothing came within 100ms"},
		"a line of 33 MiB": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, "data: %s\n\n", strings.Repeat("x", 33<<20))
		}, "an event has more than 33554432 bytes"},
		"an event in lines": {func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, strings.Repeat("data: 0123456789\n", 4<<20))
		}, "an event has more than 33554432 bytes"},
	} {
		idle := time.Minute
		if name == "silence" {
			idle = 100 * time.Millisecond
		}
		client, asked := faulty(t, model.Config{Idle: idle, Timeout: time.Minute, Retries: 2}, c.answer)
		restarts := 0
		_, err := client.Respond(t.Context(), model.Request{}, func(d model.Delta) {
			if d.Kind == model.Restart {
				restarts++
			}
		})
		require.ErrorContains(t, err, "the model provider gave no whole answer (incomplete_stream): the answer broke off: ", name)
		require.ErrorContains(t, err, c.why, name)
		require.ErrorContains(t, err, "[3 attempts]; try again later", name)
		require.Equal(t, int64(3), asked.Load(), name)
		require.Equal(t, 2, restarts, name)
	}
}

// An error in a stream is the provider's last word, in either of its forms.
func TestErrorsInTheMiddleOfAStream(t *testing.T) {
	t.Parallel()
	for event, want := range map[string]string{
		`{"type":"error","code":"server_error","message":"it broke","param":null}`:                  "refused the request (server_error): it broke",
		`{"type":"error","error":{"type":"overloaded_error","code":null,"message":"too much"}}`:     "refused the request: too much",
		`{"error":{"code":503,"message":"no room"}}`:                                                "refused the request (503): no room",
		`{"type":"error","error":"plain"}`:                                                          "refused the request",
		`{"type":"response.failed","response":{"error":{"code":"c","message":"m"},"output":[]}}`:    "refused the request (c): m",
		`{"type":"error","code":"bad_key","message":"the key sk-the-whole-key is not one of ours"}`: "the key [redacted] is not one of ours",
	} {
		client, asked := faulty(t, model.Config{Retries: 2}, func(w http.ResponseWriter, _ *http.Request) { stream(w, piece, event) })
		_, err := client.Respond(t.Context(), model.Request{}, nothing)
		require.ErrorContains(t, err, want)
		require.Equal(t, int64(1), asked.Load(), event)
	}
}

// An answer that its provider does not call whole is none, also where no reason is
// given.
func TestAnswersThatAreNotWhole(t *testing.T) {
	t.Parallel()
	ask := func(last string) (model.Response, error) {
		client, _ := faulty(t, model.Config{}, func(w http.ResponseWriter, _ *http.Request) { stream(w, last) })
		return client.Respond(t.Context(), model.Request{}, nothing)
	}
	for response, want := range map[string]string{
		`{"status":"failed","error":null,"output":[]}`:                                     "refused the request (server_error): It gives no reason.",
		`{"error":{"code":"rate_limit_exceeded","message":""},"output":[]}`:                "refused the request (rate_limit_exceeded): It gives no reason.",
		`{"status":"failed","error":{"code":"server_error","message":"m"},"output":[]}`:    "refused the request (server_error): m",
		`{"status":"failed","error":null,"incomplete_details":{"reason":"x"},"output":[]}`: "refused the request (server_error)",
	} {
		_, err := ask(`{"type":"response.failed","response":` + response + `}`)
		require.ErrorContains(t, err, want, response)
	}
	_, err := ask(`{"type":"response.completed","response":{"status":"failed","output":[]}}`)
	require.ErrorContains(t, err, "server_error")
	for event, want := range map[string]model.Ending{
		`{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":null,"output":[]}}`: model.Cut,
		`{"type":"response.incomplete","response":{"output":[]}}`:                                                 model.Cut,
		`{"type":"response.completed","response":{"status":"cancelled","output":[]}}`:                             model.Cut,
		`{"type":"response.completed","response":{"status":"completed","output":[]}}`:                             model.Finished,
		`{"type":"response.completed","response":{"output":[]}}`:                                                  model.Finished,
	} {
		got, err := ask(event)
		require.NoError(t, err, event)
		require.Equal(t, want, got.Ended, event)
		require.Equal(t, want == model.Cut, got.Incomplete != nil, event)
	}
}

func TestRefusalsSayWhatToDo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status       int
		header, body string
		want         string
		asked        int64
	}{
		"key":         {401, "", `{"error":{"message":"Incorrect API key provided: sk-the-whole-key","code":"invalid_api_key"}}`, "with status 401 (invalid_api_key): Incorrect API key provided: [redacted]; check MODEL_API_KEY and MODEL_HEADERS", 1},
		"model":       {404, "", `{"error":{"message":"no such model","code":null}}`, "with status 404: no such model; check MODEL_BASE_URL and MODEL_NAME", 1},
		"redirect":    {307, "Location: http://192.0.2.1/", ``, "with status 307; check MODEL_BASE_URL and MODEL_NAME", 1},
		"proxy":       {502, "Retry-After-Ms: 1", "<html>Bad Gateway</html>", "with status 502: <html>Bad Gateway</html> [3 attempts]; try again later", 3},
		"rate":        {429, "Retry-After: 0.001", `{"error":{"message":"slow down","code":"rate_limit_exceeded"}}`, "(rate_limit_exceeded): slow down. Try again after 0s. [3 attempts]; try again later", 3},
		"long rate":   {429, "Retry-After: 121", `{"error":{"message":"No quota."}}`, "with status 429: No quota. Try again after 2m1s.; try again later", 1},
		"large":       {400, "", `{"error":{"message":"` + strings.Repeat("x", 2000) + `"}}`, "xxx...[truncated]", 1},
		"a long page": {400, "", strings.Repeat("y", 2000), "yyy...[truncated]", 1},
	} {
		client, asked := faulty(t, model.Config{Retries: 2}, func(w http.ResponseWriter, _ *http.Request) {
			if name, value, found := strings.Cut(c.header, ": "); found {
				w.Header().Set(name, value)
			}
			w.WriteHeader(c.status)
			fmt.Fprint(w, c.body)
		})
		_, err := client.Respond(t.Context(), model.Request{}, nothing)
		require.ErrorContains(t, err, c.want, name)
		require.Equal(t, c.asked, asked.Load(), name)
		require.Less(t, len(err.Error()), 1000, name)
	}
}

// What was sent as a credential is in no error and no line of the log, whoever
// repeats it.
func TestCredentialsStayWhereTheyBelong(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	client, _ := faulty(t, model.Config{
		Headers: map[string]string{"Api-Key": "header+secret", "Authorization": "Bearer other-secret"}, LogOutput: true, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	}, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"error":{"code":"x","message":"%s and %s are no keys, nor is sk-the-whole-key"}}`, r.Header.Get("Authorization"), r.Header.Get("Api-Key"))
	})
	_, err := client.Respond(t.Context(), model.Request{}, nothing)
	require.ErrorContains(t, err, "[redacted] are no keys, nor is [redacted]")
	require.NotContains(t, err.Error()+log.String(), "secret")
	require.NotContains(t, err.Error()+log.String(), "whole-key")
	require.Contains(t, log.String(), "status=403")

	// No connection: the address may hold a credential as well.
	log.Reset()
	client = model.New(model.Config{BaseURL: "http://user:hunter22@127.0.0.1:1/v1?key=hunter23", Model: "m", Retries: 1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	_, err = client.Respond(t.Context(), model.Request{}, nothing)
	require.ErrorContains(t, err, "gave no whole answer (no_answer): The upstream does not accept connections. [2 attempts]; try again later, or check MODEL_BASE_URL")
	require.NotContains(t, err.Error()+log.String(), "hunter")
}

// An answer without end is not read without end.
func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	client, asked := faulty(t, model.Config{}, func(w http.ResponseWriter, r *http.Request) {
		long := `{"type":"response.output_text.delta","delta":"` + strings.Repeat("x", 16<<20) + `"}`
		for r.Context().Err() == nil {
			stream(w, long)
		}
	})
	_, err := client.Respond(t.Context(), model.Request{}, nothing)
	require.ErrorContains(t, err, "(too_long): the answer has more than 134217728 bytes of events")
	require.Equal(t, int64(1), asked.Load())
}

// An answer that nobody waits for any more ends with the call, in whatever state.
func TestCancelledCallsEnd(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(w http.ResponseWriter){
		"before an answer": func(http.ResponseWriter) {},
		"in a stream":      func(w http.ResponseWriter) { stream(w, piece); _ = http.NewResponseController(w).Flush() },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan struct{})
		client, asked := faulty(t, model.Config{Retries: 2}, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // so that the server sees the client leave
			begin(w)
			cancel()
			<-r.Context().Done()
			close(gone)
		})
		_, err := client.Respond(ctx, model.Request{}, nothing)
		require.ErrorIs(t, err, context.Canceled, name)
		_, refused := errors.AsType[*model.Error](err)
		require.False(t, refused, name)
		<-gone
		require.Equal(t, int64(1), asked.Load(), name)
	}
}

// The libraries of the vendors are the other end in tests, and no part of the
// program: OpenAI's alone is a third of its size.
func TestVendorsLibrariesAreNotLinked(t *testing.T) {
	t.Parallel()
	linked, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-tags=nomsgpack", "github.com/portico-run/portico/cmd/api").Output()
	require.NoError(t, err)
	require.Contains(t, string(linked), "github.com/portico-run/portico/modules/model\n")
	for _, heavy := range []string{"openai-go", "anthropic-sdk-go", "ugorji", "gopkg.in/yaml.v3"} {
		require.NotContains(t, string(linked), heavy)
	}
}
