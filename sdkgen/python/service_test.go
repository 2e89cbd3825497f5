package python_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// seen is one request as the service got it.
type seen struct {
	Method, Path, Key string
	Header            http.Header
	Body              string
}

// service is a real HTTP server in the place of the tool service. It keeps
// what it was sent, and how many connections were opened.
type service struct {
	mu      sync.Mutex
	calls   []seen
	opened  int
	baseURL string
}

// answers decides what the service says; n counts requests from 1.
type answers func(w http.ResponseWriter, r *http.Request, n int)

// newService serves on TCP, or on a unix socket.
func newService(t *testing.T, unix bool, answer answers) *service {
	t.Helper()
	s := &service{}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.calls = append(s.calls, seen{r.Method, r.URL.Path, r.Header.Get("Idempotency-Key"), r.Header.Clone(), string(body)})
		n := len(s.calls)
		s.mu.Unlock()
		answer(w, r, n)
	}))
	srv.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.mu.Lock()
			s.opened++
			s.mu.Unlock()
		}
	}
	if unix {
		path := filepath.Join(t.TempDir(), "tool.sock")
		var lc net.ListenConfig
		l, err := lc.Listen(context.Background(), "unix", path)
		require.NoError(t, err)
		_ = srv.Listener.Close()
		srv.Listener = l
		s.baseURL = "unix://" + path
	}
	srv.Start()
	t.Cleanup(srv.Close)
	if !unix {
		s.baseURL = srv.URL
	}
	return s
}

func (s *service) requests() []seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]seen(nil), s.calls...)
}

func (s *service) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened
}

// env is the sandbox's environment for code that calls the service.
func (s *service) env(more ...string) []string {
	return append([]string{"REFLY_TOOL_SERVICE_API_URL=" + s.baseURL, "REFLY_TOOL_SERVICE_API_KEY=rf_secret"}, more...)
}

func reply(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

const good = `{"success":true,"data":{"status":"success","data":{"url":"x"}}}`

func alwaysGood(w http.ResponseWriter, _ *http.Request, _ int) { reply(w, 200, good) }

// program runs Python that may use FalImage, Kinds and show(), which prints a
// value as JSON.
func program(t *testing.T, code string, env []string) (stdout, stderr string) {
	t.Helper()
	dir := t.TempDir()
	write(t, generate(t, "simple"), filepath.Join(dir, "refly_tools"))
	kinds := generate(t, "kinds")
	write(t, kinds, filepath.Join(dir, "refly_tools"))
	const head = "import json\nfrom refly_tools.fal_image import FalImage\nfrom refly_tools.kinds import Kinds\n" +
		"def show(value): print(json.dumps(value, sort_keys=True))\n" +
		"def draw(**more): return FalImage.text_to_image(prompt='p', file_name_title='f', **more)\n"
	out, problems, err := run(t, dir, env, interpreter(t), "-W", "error", "-c", head+code)
	require.NoError(t, err, problems)
	return out, problems
}

// result decodes what show printed.
func result(t *testing.T, stdout string) map[string]any {
	t.Helper()
	var v map[string]any
	require.NoError(t, json.Unmarshal([]byte(stdout), &v), stdout)
	return v
}
