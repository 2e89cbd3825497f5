package app_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
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

func TestOperatorsCommands(t *testing.T) {
	t.Parallel()
	for _, d := range []database.Dialect{database.SQLite, database.Postgres} {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			env := environ(t, databasetest.EmptyURL(t, d), "TOOLSET_PETS_API_KEY=pet-key")
			ok := func(args ...string) string {
				t.Helper()
				code, out, errs := portico(t, env, args...)
				require.Equal(t, 0, code, "%v: %s", args, errs)
				return out
			}
			require.Contains(t, ok("migrate", "status"), "not applied")
			require.Equal(t, "11 migrations applied\n", ok("migrate", "up"))
			require.Equal(t, "0 migrations applied\n", ok("migrate", "up"))
			require.NotContains(t, ok("migrate", "status"), "not applied")
			require.Equal(t, "1 migrations reverted\n", ok("migrate", "down"))
			require.Equal(t, "10 migrations reverted\n", ok("migrate", "down", "--all"))

			uid := strings.TrimSpace(ok("user", "create", "anna", "--email", "anna@example.com"))
			require.Regexp(t, `^u-[a-z0-9]{24}$`, uid)
			require.Contains(t, ok("user", "list"), uid+"  anna  anna@example.com")
			require.Regexp(t, `^rf_[0-9A-Za-z]{32,33}\n$`, ok("key", "create", "--user", "anna", "--days", "3"))
			require.Regexp(t, `^ey[\w-]+\.[\w-]+\.[\w-]+\n$`, ok("user", "token", "anna"))
			require.Equal(t, "anna has 2.5 credits\n", ok("credit", "grant", "--user", "anna", "--amount", "2.5", "--id", "one"))
			require.Equal(t, "anna has 2.5 credits\n", ok("credit", "grant", "--user", "anna", "--amount", "2.5", "--id", "one"))
			require.Contains(t, ok("credit", "plan", "portico_plus_monthly", "--type", "plus", "--interval", "monthly", "--monthly", "2000", "--daily-gift", "7.5"),
				"portico_plus_monthly  plus  monthly   2000     7.5")
			require.Equal(t, "anna has 2010 credits\n", ok("credit", "subscribe", "--user", "anna", "--plan", "portico_plus_monthly", "--id", "sub-1"))
			require.Equal(t, "anna has 2010 credits\n", ok("credit", "cancel", "--user", "anna"))
			require.Equal(t, "anna has 2010 credits\n", ok("credit", "balance", "--user", "anna"))
			require.Regexp(t, `(?m)^cr-daily-`+uid+`-\d{8} +gift +7\.5 +7\.5 +\d{4}`, ok("credit", "recharges", "--user", "anna"))
			require.Equal(t, "WHAT   CALLS  BY THE LIST  CHARGED\ntotal         0            0\n", ok("credit", "report", "--user", "anna", "--from", "2026-01-31"))
			require.Equal(t, "anna: a run 5, a day unlimited, overdraft 0\n", ok("credit", "limit", "--user", "anna", "--run", "5", "--overdraft", "0"))
			require.Equal(t, "composio: 0.299 standard, 0.897 premium for 1000 calls, times 1\n", ok("credit", "rate", "composio", "--standard", "0.299", "--premium", "0.897"))
			require.Equal(t, "The books balance. Users: 1\n", ok("credit", "verify"))
			require.Equal(t, "created    demo\n", ok("toolset", "apply", "-f", "../../configs/toolsets"))
			require.Equal(t, "toolset pets: 4 methods\n", ok("toolset", "import", "--openapi", "../connector/rest/openapi/testdata/pets.yaml", "--name", "pets", "--price", "2"))
			web := httptest.NewServer(http.FileServer(http.Dir("../connector/rest/openapi/testdata")))
			t.Cleanup(web.Close)
			code, _, errs := portico(t, env, "toolset", "import", "--openapi", web.URL+"/pets.yaml", "--name", "pets")
			require.Equal(t, 1, code)
			require.Contains(t, errs, "prohibited", "a document at a private address needs --egress")
			require.Contains(t, ok("toolset", "import", "--openapi", web.URL+"/pets.yaml", "--egress", "127.0.0.0/8", "--name", "pets", "--tag", "write", "--out", "-"), "- name: createPet")
			require.Contains(t, ok("toolset", "import", "--openapi", "../connector/rest/openapi/testdata/pets.yaml", "--name", "pets", "--tag", "read", "--out", "-"), "- name: list_pets")
			require.Regexp(t, `(?m)^\S+  inventory\.credential  pets  *$`, ok("audit"))
			require.Regexp(t, `(?m)^\S+  key\.create  ak-`, ok("audit", "--user", "anna"))
			require.Equal(t, "unchanged  demo\n", ok("toolset", "apply", "-f", "../../configs/toolsets/demo.yaml"))

			var decision struct {
				Enabled bool
				Steps   []struct{ Check, Result, Reason string }
			}
			require.NoError(t, json.Unmarshal([]byte(ok("ptc", "explain", "--uid", uid, "--toolsets", "demo,gmail", "--title", "x")), &decision))
			require.True(t, decision.Enabled)
			require.Len(t, decision.Steps, 6)

			out := ok("config")
			require.Contains(t, out, "PTC_MODE")
			require.NotContains(t, out, strings.Repeat("0a", 32))
			require.NotContains(t, out, strings.Repeat("s", 32))
			require.Regexp(t, `(?m)^all +376 +87572 +13517 +84\.6 %`, ok("tools", "measure", "--corpus", "../catalogue/signature/testdata/corpus"))
			out = ok("doctor")
			require.Contains(t, out, "ok    sandbox: execution")
			require.Regexp(t, `ok    sandbox: isolation +level namespaces`, out)
			require.NotContains(t, out, "FAIL")
		})
	}
}

func TestCommandsThatFailSayWhy(t *testing.T) {
	t.Parallel()
	env := environ(t, databasetest.URL(t, database.SQLite))
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	require.NoError(t, os.WriteFile(bad, []byte("key: x\nname: X\nmethods: [{name: a}]\n"), 0o644))
	for _, c := range []struct {
		args []string
		env  []string
		code int
		want string
	}{
		{[]string{"fly"}, env, 1, "unknown command"},
		{[]string{"key"}, env, 2, "needs a subcommand"},
		{[]string{"key", "create"}, env, 1, `required flag(s) "user" not set`},
		{[]string{"key", "create", "--user", "nobody"}, env, 1, "There is no such user"},
		{[]string{"key", "create", "--days", "soon"}, env, 2, "invalid argument"},
		{[]string{"user", "create"}, env, 2, "accepts 1 arg"},
		{[]string{"user", "create", "a b"}, env, 1, "portico:"},
		{[]string{"credit", "grant", "--user", "x", "--amount", "many"}, env, 2, "--amount"},
		{[]string{"credit", "refund", "--user", "nobody", "--call", "x"}, env, 1, "There is no such user"},
		{[]string{"credit", "plan", "x", "--type", "plus", "--monthly=-1"}, env, 1, "not negative"},
		{[]string{"toolset", "apply", "-f", "nowhere"}, env, 1, "nowhere"},
		{[]string{"toolset", "apply", "-f", bad}, env, 1, "bad.yaml:3: method \"a\" has no endpoint"},
		{[]string{"serve"}, append(env, "PTC_ROLLOUT_PERCENT=many"), 1, "PTC_ROLLOUT_PERCENT"},
		{[]string{"serve"}, append(env, "PORTICO_MODE=production", "ENCRYPTION_KEY=", "JWT_SECRET="), 1, "ENCRYPTION_KEY"},
		{
			[]string{"serve"},
			append(env, "PORTICO_MODE=production", "ENCRYPTION_KEY="+strings.Repeat("0b", 32), "JWT_SECRET="+strings.Repeat("s", 32), "SANDBOX_ISOLATION=kernel"),
			1, `the sandbox gives isolation "namespaces", SANDBOX_ISOLATION asks for "kernel"`,
		},
		{[]string{"serve"}, append(env, "DATABASE_URL=sqlite:/proc/nowhere/x.db"), 1, "portico:"},
		{[]string{"serve", "--config", "nowhere.yaml"}, env, 1, "nowhere.yaml"},
		{[]string{"tools", "measure"}, env, 1, `required flag(s) "corpus" not set`},
		{[]string{"tools", "measure", "--corpus", t.TempDir()}, env, 1, "holds no *.json"},
		{[]string{"doctor"}, append(env, "SANDBOX_ROOT=/nowhere"), 1, "checks failed"},
	} {
		code, out, errs := portico(t, c.env, c.args...)
		require.Equal(t, c.code, code, "%v: %s %s", c.args, out, errs)
		require.Contains(t, errs, c.want, c.args)
	}
}

func TestDemoCommand(t *testing.T) {
	t.Parallel()
	env := environ(t, databasetest.EmptyURL(t, database.SQLite), "ENDPOINT=http://"+freeAddress(t), "LOG_LEVEL=error")
	for _, want := range []string{"981.5", "963"} {
		code, out, errs := portico(t, env, "demo")
		require.Equal(t, 0, code, errs)
		require.Contains(t, out, "one was started for the demo")
		require.Equal(t, 11, strings.Count(out, "tool_call_end      demo."))
		require.Equal(t, 1, strings.Count(out, "tool_call_error    demo.fail"))
		require.Contains(t, out, "The program completed after")
		require.Contains(t, out, "Spent: 18.5 credits. Balance: "+want+".")
		require.Empty(t, errs)
	}
	// With a server running, that one is used.
	listen := freeAddress(t)
	env = append(env, "PORTICO_LISTEN="+listen, "ENDPOINT=http://"+listen)
	spawn(t, env)
	code, out, errs := portico(t, env, "demo")
	require.Equal(t, 0, code, errs)
	require.NotContains(t, out, "one was started")
	require.Contains(t, out, "Balance: 944.5.")

	code, _, errs = portico(t, append(env, "PTC_MODE=off", "ENDPOINT=http://"+freeAddress(t), "PORTICO_LISTEN=127.0.0.1:0", "DEMO_LISTEN="+freeAddress(t)), "demo")
	require.Equal(t, 1, code)
	require.Contains(t, errs, "PTC_MODE is off")
}

// The SDK that sdkgen publishes comes into force, and so does the policy,
// without a restart.
func TestConfigurationFileTakesEffect(t *testing.T) {
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

// A script is served to any client of the Responses protocol, until the command
// is ended.
func TestScriptedModelIsServed(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, in := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Main(ctx, []string{"scripted", "--script", "../../dev/demo/agent.yaml", "--listen", "127.0.0.1:0"}, nil, in, in)
		_ = in.Close()
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	base := regexp.MustCompile(`MODEL_BASE_URL=(\S+)`).FindStringSubmatch(line)
	require.NotNil(t, base, line)
	resp, err := http.Post(base[1]+"/responses", "application/json", strings.NewReader(`{"model":"any","input":"Hello"}`))
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, 400, resp.StatusCode, "the script expects another question")
	require.Contains(t, string(body), `turn 1 expects \"Which regions missed\"`)
	cancel()
	require.Equal(t, 0, <-ended)
	code, _, errs := portico(t, nil, "scripted", "--script", "nothing.yaml")
	require.NotZero(t, code)
	require.Contains(t, errs, "nothing.yaml")
}

// The agent's demo, as a person sees it: two programs, of which one fails and
// is corrected, a chart, the transcript, and what both ways cost.
func TestDemoOfTheAgent(t *testing.T) {
	t.Parallel()
	picture := filepath.Join(t.TempDir(), "chart.png")
	env := append(environ(t, "sqlite:"+filepath.Join(t.TempDir(), "not-used.db")), "LOG_LEVEL=error")
	code, out, errs := portico(t, env, "demo", "agent", "--chart", picture)
	require.Equal(t, 0, code, errs+out)
	for want, times := range map[string]int{
		"The model is SCRIPTED": 1, "left out: 1.": 1, "tool_call_error    execute_code": 1, "tool_call_end      execute_code": 1,
		"tool_call_end      shop.list_orders": 8, "[execute_code failed]": 1, "[execute_code completed]": 1, "[create_chart completed]": 1,
		"[scripted:demo]": 3, "image/png": 1, "South    2300 2130.5 -169.5": 2,
	} {
		require.Equal(t, times, strings.Count(out, want), "%s in\n%s", want, out)
	}
	require.NotContains(t, out, "cust-", "what the tools returned is shown to nobody")
	content, err := os.ReadFile(picture)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(content), "\x89PNG"))
	found := regexp.MustCompile(`PTC used (\d+) % fewer prompt tokens`).FindStringSubmatch(out)
	require.NotNil(t, found, out)
	saved, err := strconv.Atoi(found[1])
	require.NoError(t, err)
	require.GreaterOrEqual(t, saved, 30, "C11: for 30 tools and more")
	first := regexp.MustCompile(`(?m)^  (?:with code \(PTC\)|plain tool calling) +\d+ +(\d+) +\d+ `).FindAllStringSubmatch(out, -1)
	require.Len(t, first, 2)
	require.Less(t, 100*atoi(t, first[0][1]), 70*atoi(t, first[1][1]), "the first request alone, before any result")
}

func atoi(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// A server that cannot listen has made the first user already.
func TestTheFirstKeyIsShownAlsoWhereTheStartFails(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, taken.Close()) }()
	env := append(environ(t, databasetest.URL(t, database.SQLite)), "PORTICO_LISTEN="+taken.Addr().String())
	code, out, errs := portico(t, env, "serve")
	require.Equal(t, 1, code, out)
	require.Contains(t, errs, "address already in use")
	key := regexp.MustCompile(`rf_\w+`).FindString(out)
	require.NotEmpty(t, key, out)
	s := serveWith(t, append(env, "PORTICO_LISTEN=127.0.0.1:0"))
	require.Equal(t, 200, s.send(key, "GET", "/v1/canvas/list", nil).status)
}
