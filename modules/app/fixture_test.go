package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/configs"
	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/app"
	"github.com/portico-run/portico/modules/app/apptest"
	"github.com/portico-run/portico/modules/sandbox/guest"
	"github.com/portico-run/portico/modules/tool"
)

// buffer is a log that several goroutines write.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// environ is what a server of a test is configured with.
func environ(t testing.TB, url string, more ...string) []string {
	t.Helper()
	return apptest.Environ(t, url, append([]string{"LOG_LEVEL=debug"}, more...)...)
}

// instance is a running server.
type instance struct {
	t   testing.TB
	app *app.App
	url string
	key string // of the first user
	env []string
	log *buffer
	// stop stops the server; the test's end does so too.
	stop func()
}

// serve starts a server on a database and stops it with the test.
func serve(t testing.TB, url string, more ...string) *instance {
	t.Helper()
	return serveWith(t, environ(t, url, more...))
}

// serveWith starts a server with an environment, and with more kinds of toolsets.
func serveWith(t testing.TB, env []string, connectors ...tool.Connector) *instance {
	t.Helper()
	return serveOptions(t, env, app.Options{Connectors: connectors})
}

// serveOptions starts a server with an environment, and with what the options
// add to it.
func serveOptions(t testing.TB, env []string, o app.Options) *instance {
	t.Helper()
	testenv.Sandbox(t, guest.DefaultRoot(apptest.Values(env)))
	c, err := configs.Load(configs.Options{Environ: env})
	require.NoError(t, err)
	log := &buffer{}
	o.Config, o.Environ = c, apptest.Values(env)
	var level slog.Leveler = slog.LevelDebug
	if o.Level != nil {
		level = o.Level
	}
	o.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: level}))
	a, err := app.Open(t.Context(), o)
	require.NoError(t, err)
	key, err := a.Prepare(t.Context())
	require.NoError(t, err)
	s, err := a.Start(t.Context(), configs.Options{Environ: env})
	require.NoError(t, err)
	stop := sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, s.Stop(ctx))
		require.NoError(t, a.Close())
	})
	t.Cleanup(stop)
	return &instance{t: t, app: a, url: "http://" + s.Addr().String(), key: key.Reveal(), env: env, log: log, stop: stop}
}

// each runs a test on a server of its own over each database.
func each(t *testing.T, test func(t *testing.T, s *instance), more ...string) {
	t.Helper()
	for _, d := range databasetest.Of(t) {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			test(t, serve(t, databasetest.URL(t, d), more...))
		})
	}
}

// another makes a second user and returns a key.
func (s *instance) another(name string) string {
	s.t.Helper()
	u, err := s.app.Accounts.Service.CreateUser(s.t.Context(), name, "")
	require.NoError(s.t, err)
	_, key, err := s.app.Accounts.Service.CreateKey(s.t.Context(), actor.Actor{UID: u.UID, Scope: actor.Full}, "test", 0)
	require.NoError(s.t, err)
	return key.Reveal()
}

type answer struct {
	status int
	header http.Header
	raw    string
	body   struct {
		Success   bool            `json:"success"`
		Data      json.RawMessage `json:"data"`
		ErrCode   string          `json:"errCode"`
		ErrMsg    string          `json:"errMsg"`
		ErrDetail string          `json:"errDetail"`
	}
}

// send makes a request with a key; a body that is not a string becomes JSON.
func (s *instance) send(key, method, path string, body any, headers ...string) answer {
	s.t.Helper()
	text, ok := body.(string)
	if !ok && body != nil {
		b, err := json.Marshal(body)
		require.NoError(s.t, err)
		text = string(b)
	}
	resp, err := s.do(key, method, path, text, body != nil, headers)
	for range 5 { // a body that is refused for its size may not be taken whole: the answer can get lost
		if err == nil || len(text) < 1<<20 {
			break
		}
		resp, err = s.do(key, method, path, text, true, headers)
	}
	require.NoError(s.t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	a := answer{status: resp.StatusCode, header: resp.Header, raw: string(raw)}
	if strings.HasPrefix(a.raw, "{") && strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		require.NoError(s.t, json.Unmarshal(raw, &a.body), string(raw))
	}
	return a
}

// outcome is the answer to a program.
type outcome struct {
	Stdout, Stderr, Status, ResultID, CallID string
	ExitCode                                 int
	DurationMS                               int64
	ToolCalls                                []struct{ CallID, ToolsetKey, ToolName, Status, Error string }
	Warnings                                 []string
	ErrorCode                                string
	ToolCallsMade                            int
}

// run runs a program as the first user.
func (s *instance) run(body map[string]any) outcome {
	s.t.Helper()
	if body["language"] == nil {
		body["language"] = "python"
	}
	a := s.send(s.key, "POST", "/v1/sandbox/execute", body)
	require.Equal(s.t, 200, a.status, a.raw)
	var o outcome
	require.NoError(s.t, json.Unmarshal(a.body.Data, &o))
	return o
}

// exec changes the database behind the server's back.
func (s *instance) exec(sql string, args ...any) {
	s.t.Helper()
	app.Exec(s.t, s.app.DB, sql, args...)
}

// count asks the database for a number.
func (s *instance) count(sql string, args ...any) int {
	s.t.Helper()
	return app.Count(s.t, s.app.DB, sql, args...)
}

// do makes one request.
func (s *instance) do(key, method, path, body string, isJSON bool, headers []string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	require.NoError(s.t, err)
	if key != "" {
		r.Header.Set("X-API-Key", key)
	}
	if isJSON {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return http.DefaultClient.Do(r)
}
