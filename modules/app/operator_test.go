package app_test

import (
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/configs"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/app"
)

// askOperators sends a request to the address for operators.
func askOperators(t *testing.T, address, line, token, body string) answer {
	t.Helper()
	method, path, _ := strings.Cut(line, " ")
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+address+path, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("X-API-Key", token)
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return answer{status: resp.StatusCode, header: resp.Header, raw: string(raw)}
}

// Who runs a process gets its profiles, its numbers and the level of its log; who
// uses it does not, whatever their key.
func TestOperatorsLookIntoAProcess(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	address, token, level := testenv.FreeAddress(t), strings.Repeat("operator", 5), &slog.LevelVar{}
	s := serveOptions(t, environ(t, databasetest.URL(t, database.SQLite), "PORTICO_ADMIN_LISTEN="+address, "PORTICO_ADMIN_TOKEN="+token), app.Options{Level: level})

	profile := askOperators(t, address, "GET /debug/pprof/profile?seconds=1", token, "")
	require.Equal(t, 200, profile.status)
	// A second, as coarse clocks measure it.
	require.Regexp(t, `\nDuration: (9\d\d(\.\d+)?ms|[1-9][\d.]*s)`, readProfile(t, profile.raw))
	require.Contains(t, readProfile(t, askOperators(t, address, "GET /debug/pprof/heap", token, "").raw), "Type: inuse_space")
	numbers := askOperators(t, address, "GET /metrics", token, "").raw
	require.Contains(t, numbers, "portico_sandbox_running 0")

	path := func(name string) string { return "/v1/tool/" + name } // there is none; the log has each that is asked for
	ask := func(name string) { require.Equal(t, 404, s.send(s.key, http.MethodGet, path(name), nil).status) }
	require.Equal(t, "error\n", askOperators(t, address, "PUT /loglevel", token, "error").raw)
	ask("silent")
	require.Equal(t, "info\n", askOperators(t, address, "PUT /loglevel", token, "info").raw)
	ask("logged")
	require.Contains(t, s.log.String(), path("logged"))
	require.NotContains(t, s.log.String(), path("silent"))
	require.NotContains(t, s.log.String(), token)

	for _, line := range []string{"GET /debug/pprof/heap", "GET /metrics", "GET /loglevel", "PUT /loglevel"} {
		for _, wrong := range []string{"", s.key, strings.Repeat("0a", 32), strings.Repeat("s", 32)} {
			require.Equal(t, 401, askOperators(t, address, line, wrong, "debug").status, line)
		}
	}
	require.Equal(t, slog.LevelInfo, level.Level())
	for _, line := range []string{"GET /debug/pprof/", "GET /debug/pprof/heap", "GET /loglevel", "PUT /loglevel"} {
		for _, key := range []string{s.key, token} {
			require.GreaterOrEqual(t, askOperators(t, strings.TrimPrefix(s.url, "http://"), line, key, "debug").status, 400, line)
			require.NotEqual(t, 200, s.send(key, strings.Fields(line)[0], strings.Fields(line)[1], nil).status)
		}
	}
	s.stop()
	_, err := http.Get("http://" + address + "/loglevel")
	require.Error(t, err)
}

// readProfile has Go's own tool read a profile.
func readProfile(t *testing.T, profile string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "profile")
	require.NoError(t, os.WriteFile(path, []byte(profile), 0o600))
	out, err := exec.CommandContext(t.Context(), "go", "tool", "pprof", "-top", path).CombinedOutput()
	require.NoError(t, err, string(out))
	return string(out)
}

// By default there is no such address, and one that others can reach is refused
// without a token.
func TestOperatorsHaveNoAddressByDefault(t *testing.T) {
	t.Parallel()
	c, err := configs.Load(configs.Options{})
	require.NoError(t, err)
	require.Empty(t, c.Admin.Listen)
	for _, listen := range []string{"0.0.0.0:5803", ":5803", "[::]:5803", "10.0.0.1:5803"} {
		_, err := configs.Load(configs.Options{Environ: []string{"PORTICO_ADMIN_LISTEN=" + listen}})
		require.ErrorContains(t, err, "PORTICO_ADMIN_TOKEN", listen)
	}
	for _, listen := range []string{"127.0.0.1:5803", "[::1]:5803", "localhost:5803"} {
		_, err := configs.Load(configs.Options{Environ: []string{"PORTICO_ADMIN_LISTEN=" + listen}})
		require.NoError(t, err, listen)
	}
}
