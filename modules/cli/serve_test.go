package cli_test

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/app/apptest"
)

// A server that cannot listen has made the first user already.
func TestTheFirstKeyIsShownAlsoWhereTheStartFails(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, taken.Close()) }()
	env := append(apptest.Environ(t, databasetest.URL(t, database.SQLite)), "PORTICO_LISTEN="+taken.Addr().String())
	code, out, errs := portico(t, env, "serve")
	require.Equal(t, 1, code, out)
	require.Contains(t, errs, "address already in use")
	key := regexp.MustCompile(`rf_\w+`).FindString(out)
	require.NotEmpty(t, key, out)
	s := serving(t, append(env, "PORTICO_LISTEN=127.0.0.1:0"))
	status, answer := s.get("/v1/canvas/list", "X-API-Key", key)
	require.Equal(t, 200, status, answer)
}

// freePort is one that nobody listens on at any address. The system gives out
// those above 32767.
func freePort(t *testing.T) string {
	t.Helper()
	for port := 20_000; port < 32_768; port++ {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", ":"+strconv.Itoa(port))
		if err == nil {
			require.NoError(t, l.Close())
			return strconv.Itoa(port)
		}
	}
	require.FailNow(t, "no port is free")
	return ""
}

var printedURL = regexp.MustCompile(`https?://[^\s/]+`)

// Every address that the server prints is one where it answers, whatever it
// listens on.
func TestPrintedAddressesFollowTheListenAddress(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	port := freePort(t)
	cases := map[string]struct {
		env  []string
		want string
	}{
		"port alone":      {[]string{"PORTICO_LISTEN=:" + port}, "http://localhost:" + port},
		"any address":     {[]string{"PORTICO_LISTEN=0.0.0.0:" + port}, "http://localhost:" + port},
		"address":         {[]string{"PORTICO_LISTEN=127.0.0.1:" + port}, "http://127.0.0.1:" + port},
		"name":            {[]string{"PORTICO_LISTEN=localhost:" + port}, "http://localhost:" + port},
		"any port":        {[]string{"PORTICO_LISTEN=127.0.0.1:0"}, ""},
		"behind a proxy":  {[]string{"PORTICO_LISTEN=127.0.0.1:0", "ENDPOINT=https://tools.example.com/"}, "https://tools.example.com"},
		"endpoint's port": {[]string{"PORTICO_LISTEN=:" + port, "ENDPOINT=http://127.0.0.1:" + port}, "http://127.0.0.1:" + port},
	}
	if l, err := net.Listen("tcp", "[::1]:0"); err == nil { // where the machine has IPv6
		require.NoError(t, l.Close())
		cases["any address of IPv6"] = cases["port alone"]
		cases["address of IPv6"] = struct {
			env  []string
			want string
		}{[]string{"PORTICO_LISTEN=[::1]:" + port}, "http://[::1]:" + port}
	}
	for name, c := range cases { // one after the other: they share the port
		env := apptest.Environ(t, databasetest.EmptyURL(t, database.SQLite), c.env...)
		s := serving(t, env)
		found := printedURL.FindAllString(s.printed, -1)
		require.Contains(t, []int{3, 4}, len(found), "%s:\n%s", name, s.printed) // the console is named on this machine only
		for _, url := range found {
			require.Equal(t, s.url, url, name)
		}
		if c.want != "" {
			require.Equal(t, c.want, s.url, name)
		}
		if strings.HasPrefix(s.url, "http:") {
			status, answer := s.get("/healthz", "Accept", "application/json")
			require.Equal(t, 200, status, "%s: %s", name, answer)
		}
		s.stop()
		require.Equal(t, c.want == "", strings.Contains(good(t, env, "doctor"), "callers use http://127.0.0.1:0"), name)
	}
}

// The server and the commands name the same database, with the whole path of a
// file and without the password of a server.
func TestCommandsSayWhichDatabaseTheyUse(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, env []string) {
		s := serving(t, env)
		used := regexp.MustCompile(`with the database (\S+)`).FindStringSubmatch(s.printed)
		require.NotNil(t, used, s.printed)
		_, _, errs := portico(t, env, "user", "list")
		require.Equal(t, "Using the database "+used[1]+"\n", errs)
		require.NotContains(t, errs, "sqlite:.")
		require.NotContains(t, errs, ":portico@")
		_, _, errs = portico(t, env, "user", "list", "--quiet")
		require.Empty(t, errs)
	})
}

// A warning comes once when the server starts, and commands do not repeat it.
func TestWarningsComeOnce(t *testing.T) {
	t.Parallel()
	env := apptest.Environ(t, databasetest.EmptyURL(t, database.SQLite), "ENCRYPTION_KEY=", "JWT_SECRET=", "PTC_MOOD=on", "TOOLSET_PETS_API_KEY=k",
		"OBJECT_STORAGE_FOLDER="+t.TempDir()+"/objects")
	s := serving(t, env)
	s.stop()
	for _, warning := range []string{"JWT_SECRET is not set", "ENCRYPTION_KEY is not set", "PTC_MOOD is set but is not a setting"} {
		require.Equal(t, 1, strings.Count(s.log(), warning), s.log())
	}
	for _, args := range [][]string{{"user", "list"}, {"toolset", "apply", "--file", "../../configs/toolsets"}, {"credit", "verify"}} {
		_, _, errs := portico(t, env, args...)
		require.Equal(t, 1, strings.Count(errs, "\n"), "only which database is used: %s", errs)
	}
	_, out, _ := portico(t, env, "doctor")
	require.Equal(t, 1, strings.Count(out, "PTC_MOOD is set but is not a setting"))
	document := filepath.Join(t.TempDir(), "pets.json")
	require.NoError(t, os.WriteFile(document, []byte(`{"openapi":"3.1.0","info":{"title":"Pets","version":"1"},"servers":[{"url":"https://pets.example.com"}],"paths":{"/pets":{"get":{},"trace":{}}}}`), 0o600))
	_, imported, errs := portico(t, env, "toolset", "import", "--openapi", document, "--name", "pets")
	require.Equal(t, 1, strings.Count(imported+errs, "TRACE /pets is left out"), imported+errs)
}

// Exit codes are as docs/cli.md lists them.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	env := apptest.Environ(t, databasetest.EmptyURL(t, database.SQLite))
	good(t, env, "user", "create", "anna")
	for _, c := range []struct {
		code int
		line string
	}{
		{0, "user show anna"},
		{0, "--version"},
		{0, "help user"},
		{1, "toolset apply --file nowhere"},
		{1, "user create a:b"},
		{2, "user shew anna"},
		{2, "user show"},
		{2, "user show anna ben"},
		{2, "user show anna --jason"},
		{2, "credit grant --user anna"},
		{2, "run list --user anna --limit 0"},
		{2, "run list --user anna --limit 201"},
		{2, "credit report --user anna --from yesterday"},
		{3, "user show ben"},
		{3, "key show ak-none"},
		{3, "toolset show none"},
		{3, "run show ar-none"},
		{3, "credit balance --user ben"},
		{4, "user create anna"},
		{4, "user delete anna"},
	} {
		code, _, errs := portico(t, env, strings.Fields(c.line)...)
		require.Equal(t, c.code, code, "%s: %s", c.line, errs)
		if c.code != 0 {
			require.Contains(t, errs, "portico: ", c.line)
		}
	}
}

// Where the demo toolset is not loaded, the banner and the demo say so, and how
// to load it.
func TestAServerWithoutTheDemoToolsetSaysSo(t *testing.T) {
	t.Parallel()
	env := append(apptest.Environ(t, databasetest.URL(t, database.SQLite)), "TOOLSETS_DIR="+t.TempDir())
	const want = "The demo toolset is not loaded. Start the server in a folder with configs/toolsets/demo.yaml"
	s := serving(t, env)
	require.Contains(t, s.printed, want)
	code, _, errs := portico(t, env, "demo")
	require.Equal(t, 3, code, errs)
	require.Contains(t, errs, want)
}

// Whoever has turned the demo off is not told how to load it, nor to run it.
func TestAServerWithTheDemoOffDoesNotSpeakOfIt(t *testing.T) {
	t.Parallel()
	env := append(apptest.Environ(t, databasetest.URL(t, database.SQLite)), "DEMO_ENABLED=false")
	require.NotContains(t, serving(t, env).printed, "demo")
	code, _, errs := portico(t, env, "demo")
	require.Equal(t, 4, code, errs)
	require.Contains(t, errs, "The demo is off. Set DEMO_ENABLED=true")
}
