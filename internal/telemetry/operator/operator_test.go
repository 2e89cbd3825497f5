package operator_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/telemetry"
	"github.com/portico-run/portico/internal/telemetry/operator"
)

const token = "a-token-of-at-least-thirty-two-characters"

type answer struct {
	status int
	body   string
}

// ask sends a request to a server, under another host if one is named.
func ask(t *testing.T, s *operator.Server, line, credential, host, body string) answer {
	t.Helper()
	method, path, _ := strings.Cut(line, " ")
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.Addr().String()+path, strings.NewReader(body))
	require.NoError(t, err)
	if credential != "" {
		r.Header.Set("Authorization", credential)
	}
	if host != "" {
		r.Host = host
	}
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return answer{resp.StatusCode, string(text)}
}

func start(t *testing.T, d operator.Deps) *operator.Server {
	t.Helper()
	d.Listen, d.Metrics = "127.0.0.1:0", telemetry.New().Handler()
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	s := operator.New(d)
	require.NoError(t, s.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, s.Stop(context.Background())) })
	return s
}

var everything = []string{
	"GET /metrics", "GET /loglevel", "PUT /loglevel", "GET /debug/pprof/", "GET /debug/pprof/heap", "GET /debug/pprof/cmdline",
	"GET /debug/pprof/profile?seconds=1", "GET /debug/pprof/trace?seconds=1", "GET /debug/pprof/symbol", "POST /debug/pprof/symbol", "GET /nothing",
}

func TestNothingIsServedWithoutTheToken(t *testing.T) {
	t.Parallel()
	level := &slog.LevelVar{}
	s := start(t, operator.Deps{Token: token, Level: level})
	for _, line := range everything {
		for _, credential := range []string{"", "Bearer ", "Bearer " + token[1:], "Bearer " + token + "x", "Basic " + token, token} {
			require.Equal(t, 401, ask(t, s, line, credential, "", "error").status, "%s with %q", line, credential)
		}
	}
	require.Equal(t, slog.LevelInfo, level.Level())
	for _, line := range []string{"GET /metrics", "GET /loglevel", "GET /debug/pprof/", "GET /debug/pprof/heap", "GET /debug/pprof/symbol", "POST /debug/pprof/symbol"} {
		require.Equal(t, 200, ask(t, s, line, "Bearer "+token, "", "").status, line)
	}
	require.Contains(t, ask(t, s, "GET /metrics", "Bearer "+token, "", "").body, "go_goroutines")
}

// A page in a browser of this machine may have a name of its own lead to loopback.
func TestWithoutATokenOnlyLoopbackNamesAreAnswered(t *testing.T) {
	t.Parallel()
	s := start(t, operator.Deps{Level: &slog.LevelVar{}})
	for _, line := range everything {
		require.Equal(t, 403, ask(t, s, line, "", "attacker.example:80", "").status, line)
	}
	for _, host := range []string{"", "localhost", "localhost:5803", "[::1]:5803"} {
		require.Equal(t, 200, ask(t, s, "GET /loglevel", "", host, "").status, host)
	}
}

func TestOtherMachinesNeedAToken(t *testing.T) {
	t.Parallel()
	for _, listen := range []string{":0", "0.0.0.0:0", "[::]:0", "10.1.2.3:0", "example.com:0"} {
		s := operator.New(operator.Deps{Listen: listen, Logger: slog.New(slog.DiscardHandler)})
		require.ErrorContains(t, s.Start(t.Context()), "PORTICO_ADMIN_TOKEN", listen)
		require.NoError(t, s.Stop(t.Context()))
	}
}

func TestTheLevelOfTheLogChanges(t *testing.T) {
	t.Parallel()
	level, log := &slog.LevelVar{}, &bytes.Buffer{}
	logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: level}))
	s := start(t, operator.Deps{Level: level, Logger: logger})
	require.Equal(t, "info\n", ask(t, s, "GET /loglevel", "", "", "").body)
	require.Equal(t, answer{200, "debug\n"}, ask(t, s, "PUT /loglevel", "", "", "debug\n"))
	require.True(t, logger.Enabled(t.Context(), slog.LevelDebug))
	require.Equal(t, answer{200, "error\n"}, ask(t, s, "PUT /loglevel", "", "", "error"))
	require.False(t, logger.Enabled(t.Context(), slog.LevelWarn))
	for _, wrong := range []string{"", "loud", "DEBUG-4", strings.Repeat("debug ", 100)} {
		require.Equal(t, 400, ask(t, s, "PUT /loglevel", "", "", wrong).status, wrong)
	}
	require.Equal(t, slog.LevelError, level.Level())
	require.Contains(t, log.String(), "from=DEBUG to=ERROR")
	require.Equal(t, 404, ask(t, start(t, operator.Deps{}), "GET /loglevel", "", "", "").status)
}

func TestStopBreaksOffAProfile(t *testing.T) {
	t.Parallel()
	s := start(t, operator.Deps{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Addr().String()+"/debug/pprof/trace?seconds=600", nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(r) // a trace begins with its header
	require.NoError(t, err)
	defer resp.Body.Close()
	stopped := make(chan error, 1)
	go func() { stopped <- s.Stop(ctx) }()
	select {
	case err := <-stopped:
		require.NoError(t, err)
	case <-ctx.Done():
		t.Fatal("Stop waits for the profile")
	}
}
