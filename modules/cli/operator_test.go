package cli_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/app/apptest"
)

func TestOperatorsCommands(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	for _, d := range databasetest.Of(t) {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			env := apptest.Environ(t, databasetest.EmptyURL(t, d), "TOOLSET_PETS_API_KEY=pet-key")
			ok := func(args ...string) string {
				t.Helper()
				return good(t, env, args...)
			}
			require.Contains(t, ok("migrate", "status"), "not applied")
			files, err := filepath.Glob("../../migrations/" + string(d) + "/*.sql")
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintf("%d migrations applied\n", len(files)), ok("migrate", "up"))
			require.Equal(t, "0 migrations applied\n", ok("migrate", "up"))
			require.NotContains(t, ok("migrate", "status"), "not applied")
			require.Equal(t, "1 migrations reverted\n", ok("migrate", "down"))
			require.Equal(t, fmt.Sprintf("%d migrations reverted\n", len(files)-1), ok("migrate", "down", "--all"))

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
			code, _, errs := portico(t, env, "credit", "subscribe", "--user", "anna", "--plan", "portico_plus_monthly", "--days=-1")
			require.Equal(t, 2, code, errs)
			require.Contains(t, errs, "--days is 0 or more")
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
			code, _, errs = portico(t, env, "toolset", "import", "--openapi", web.URL+"/pets.yaml", "--name", "pets")
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
	env := apptest.Environ(t, databasetest.URL(t, database.SQLite))
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	require.NoError(t, os.WriteFile(bad, []byte("key: x\nname: X\nmethods: [{name: a}]\n"), 0o644))
	for _, c := range []struct {
		args []string
		env  []string
		code int
		want string
	}{
		{[]string{"fly"}, env, 2, `unknown command "fly"`},
		{[]string{"key"}, env, 2, "needs a subcommand"},
		{[]string{"key", "create"}, env, 2, "--user missing: see `portico key create --help`"},
		{[]string{"key", "create", "--user", "nobody"}, env, 3, "There is no such user"},
		{[]string{"key", "create", "--days", "soon"}, env, 2, "invalid argument"},
		{[]string{"user", "create"}, env, 2, "NAME missing: see `portico user create --help`"},
		{[]string{"user", "create", "a", "b"}, env, 2, `"b" is too much`},
		{[]string{"credit", "refund", "--user", "x"}, env, 2, "--call missing"},
		{[]string{"credit", "plan", "x", "--type", "plus", "--interval", "weekly"}, env, 2, "--interval is monthly or yearly"},
		{[]string{"key", "delete", "ak-x"}, env, 3, "already revoked. List"},
		{[]string{"user", "create", "a b"}, env, 1, "portico:"},
		{[]string{"credit", "grant", "--user", "x", "--amount", "many"}, env, 2, "--amount"},
		{[]string{"credit", "refund", "--user", "nobody", "--call", "x"}, env, 3, "There is no such user"},
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
		{[]string{"tools", "measure"}, env, 2, "--corpus missing"},
		{[]string{"tools", "measure", "--corpus", t.TempDir()}, env, 1, "holds no *.json"},
		{[]string{"doctor"}, append(env, "SANDBOX_ROOT=/nowhere"), 1, "checks failed"},
	} {
		code, out, errs := portico(t, c.env, c.args...)
		require.Equal(t, c.code, code, "%v: %s %s", c.args, out, errs)
		require.Contains(t, errs, c.want, c.args)
	}
}
