package app_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/cli"
	sdkgen "github.com/portico-run/portico/sdkgen/cli"
)

// portico runs a command of the program.
func portico(t *testing.T, env []string, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = cli.Main(t.Context(), args, env, &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

// The SDK that sdkgen publishes comes into force, and so does the policy,
// without a restart.
func TestConfigurationFileTakesEffect(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "portico.yaml")
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o644)) }
	write("ptc: {mode: \"on\"}\nsandbox: {s3lib: {pathPrefix: sdk, hash: none}}\n")
	objects := t.TempDir()
	env := environ(t, databasetest.URL(t, database.SQLite), "OBJECT_STORAGE_FOLDER="+objects, "PTC_MODE=", "PORTICO_CONFIG="+file)
	s := serveWith(t, env)
	a := s.send(s.key, "GET", "/v1/ptc/context", nil)
	require.Equal(t, 503, a.status)

	work := t.TempDir()
	for _, args := range [][]string{
		{"definition", "all", "--api", s.url, "--key", s.key, "--out", work},
		{"generate", "all", "--out", work},
		{"upload", "all", "--out", work, "--local", objects, "--prefix", "sdk", "--hash", "v1", "--activate", file},
	} {
		var out, errs bytes.Buffer
		require.Equal(t, 0, sdkgen.Main(context.Background(), args, nil, &out, &errs), "%v: %s", args, errs.String())
	}
	require.Eventually(t, func() bool {
		return s.send(s.key, "GET", "/v1/ptc/context", nil).status == 200
	}, 20*time.Second, 50*time.Millisecond)
	o := s.run(map[string]any{"code": "from refly_tools.demo import Demo\nprint(Demo.list_cities(file_name_title='x')['status'])"})
	require.Equal(t, "success\n", o.Stdout, o.Stderr)
	a = s.send(s.key, "GET", "/v1/ptc/context", nil)
	require.Contains(t, a.raw, `"pathPrefix":"sdk/v1"`)

	write("ptc: {mode: \"off\"}\nsandbox: {s3lib: {pathPrefix: sdk, hash: v1}}\n")
	require.Eventually(t, func() bool {
		return s.send(s.key, "POST", "/v1/sandbox/execute", map[string]any{"code": "pass", "language": "python"}).status == 403
	}, 20*time.Second, 50*time.Millisecond)
	write("ptc: {mode: \"on\", rolloutPercent: many}\n") // not valid: the one before stays
	require.Eventually(t, func() bool { return strings.Contains(s.log.String(), "not valid") }, 20*time.Second, 50*time.Millisecond)
	require.Equal(t, 403, s.send(s.key, "POST", "/v1/sandbox/execute", map[string]any{"code": "pass", "language": "python"}).status)
}

func TestSecondStartKeepsTheData(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	url := databasetest.EmptyURL(t, database.SQLite)
	first := serveWith(t, environ(t, url))
	require.NotEmpty(t, first.key)
	first.run(map[string]any{"code": "pass"})
	first.stop()
	second := serveWith(t, environ(t, url))
	require.Empty(t, second.key)
	require.Equal(t, 1, second.count(`SELECT count(*) FROM users`))
	require.Equal(t, 200, second.send(first.key, "GET", "/v1/credit/balance", nil).status)
	require.Equal(t, 1, second.count(`SELECT count(*) FROM action_results`))
}
