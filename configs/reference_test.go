package configs_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portico-run/portico/configs"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func printed(t *testing.T, c *configs.Config) string {
	t.Helper()
	var out bytes.Buffer
	if err := c.Print(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestPrintedDefaults(t *testing.T) {
	t.Parallel()
	const golden = "testdata/default.golden.yaml"
	got := printed(t, mustLoad(t, ""))
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the printed defaults changed; if that is meant, run go test ./configs -update:\n%s", diff)
	}
}

// What is printed can be used as a file and means the same.
func TestPrintedConfigLoadsAgain(t *testing.T) {
	t.Parallel()
	file := `
server: {origins: ["https://a.test", "https://b.test"], bodyLimit: 1234567, jwtExpiration: 36h}
ptc: {mode: on, toolsetBlocklist: 'a,"b"', rolloutPercent: 12.5, pollInterval: 20ms}
sandbox: {s3lib: {hash: "007"}, root: 'C:\root # <&>'}
billing: {usdToCredits: 0.5, freeToolsets: [x]}
codeApi: {plans: [pro=plus], planLimits: [free timeout=90s maxFile=10MiB atOnce=2 perMinute=3, plus perMinute=60]}
`
	first := mustLoad(t, file, production()...)
	second := mustLoad(t, printed(t, first), production()...)
	if diff := cmp.Diff(first, second); diff != "" {
		t.Error(diff)
	}
}

// Every setting has a line in default.yaml, so that the file can be copied.
func TestDefaultFileIsComplete(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("default.yaml")
	if err != nil {
		t.Fatal(err)
	}
	keys := regexp.MustCompile(`(?m)^ *([A-Za-z0-9]+):`)
	names := func(text string) []string {
		var list []string
		for _, m := range keys.FindAllStringSubmatch(text, -1) {
			list = append(list, m[1])
		}
		return list
	}
	if diff := cmp.Diff(names(printed(t, mustLoad(t, ""))), names(string(content))); diff != "" {
		t.Error(diff)
	}
}

// example returns the variables of .env.example in their order.
func example(t *testing.T) (names, environ []string) {
	t.Helper()
	content, err := os.ReadFile("../.env.example")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^#?([A-Z][A-Z0-9_]*)=(.*)$`)
	for _, m := range line.FindAllStringSubmatch(string(content), -1) {
		names = append(names, m[1])
		environ = append(environ, m[1]+"="+m[2])
	}
	return names, environ
}

func TestExampleHasEveryVariable(t *testing.T) {
	t.Parallel()
	got, _ := example(t)
	if diff := cmp.Diff(configs.Variables(), got); diff != "" {
		t.Error(diff)
	}
}

// The variables whose names clients rely on: docs/wire/refly.md#who-may-use-ptc.
func TestExampleHasTheVariablesOfTheReference(t *testing.T) {
	t.Parallel()
	names, _ := example(t)
	for _, name := range []string{
		"PTC_MODE", "PTC_DEBUG", "PTC_USER_ALLOWLIST", "PTC_TOOLSET_ALLOWLIST", "PTC_TOOLSET_BLOCKLIST",
		"PTC_SEQUENTIAL", "PTC_ROLLOUT_PERCENT", "PTC_ROLLOUT_SALT", "SANDBOX_S3LIB_PATH_PREFIX", "SANDBOX_S3LIB_HASH",
	} {
		if !slices.Contains(names, name) {
			t.Errorf("%s is missing", name)
		}
	}
}

// The example shows the defaults: using it unchanged changes nothing.
func TestExampleShowsTheDefaults(t *testing.T) {
	t.Parallel()
	_, environ := example(t)
	want := mustLoad(t, "", "JWT_SECRET="+jwtSecret)
	got := mustLoad(t, "", append(environ, "JWT_SECRET="+jwtSecret)...)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// No way of showing a configuration shows a secret.
func TestSecretsAreHidden(t *testing.T) {
	t.Parallel()
	const secret = "hunter2hunter2hunter2hunter2hunter2"
	c := mustLoad(t, "", production(
		"JWT_SECRET="+secret, "S3_ACCESS_KEY="+secret, "S3_SECRET_KEY="+secret,
		"DATABASE_URL=postgres://portico:"+secret+"@db.test:5432/portico?sslmode=require&sslpassword="+secret)...)
	if c.Server.JWTSecret.Reveal() != secret || !strings.Contains(c.Database.URL.Reveal(), secret) {
		t.Fatal("Reveal does not return the secret")
	}
	var shown strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&shown, verb+"\n", *c)
		fmt.Fprintf(&shown, verb+" "+verb+"\n", c.Server.JWTSecret, c.Database.URL)
	}
	for _, handler := range []slog.Handler{slog.NewTextHandler(&shown, nil), slog.NewJSONHandler(&shown, nil)} {
		slog.New(handler).Info("configuration", "all", c, "secret", c.Server.JWTSecret, "url", c.Database.URL)
	}
	encoded, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	shown.Write(encoded)
	shown.WriteString(printed(t, c) + c.Server.JWTSecret.String() + c.Server.JWTSecret.GoString() + c.Database.URL.String() + c.Database.URL.GoString())
	if strings.Contains(shown.String(), secret) || strings.Contains(shown.String(), fmt.Sprintf("%x", secret)) {
		t.Errorf("a secret is shown in:\n%s", shown.String())
	}
	if !strings.Contains(shown.String(), "portico:redacted@db.test:5432/portico") {
		t.Error("the harmless part of the database's address is not shown")
	}
}

func TestStrangeDatabaseAddressesAreHidden(t *testing.T) {
	t.Parallel()
	for _, address := range []configs.DatabaseURL{
		"host=h password=hunter2", "mysql://u:hunter2@h/db", "postgres://u:hunter2%@h/db", "postgres://u:hunter2@a:1,b:2/db",
	} {
		if strings.Contains(address.String(), "hunter2") {
			t.Errorf("%s shows the password", address)
		}
	}
	if got := configs.DatabaseURL("sqlite:./x.db").String(); got != "sqlite:./x.db" {
		t.Errorf("SQLite is shown as %q", got)
	}
}
