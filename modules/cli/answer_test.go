package cli_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/scripted"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/app/apptest"
	"github.com/portico-run/portico/modules/run/node/nodetest"
)

var update = flag.Bool("update", false, "write the golden files and docs/cli.md anew")

// golden compares a text with a file of testdata.
func golden(t *testing.T, path, text string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), text, "%s: go test ./modules/cli -update writes it anew", path)
}

// stable takes out of an answer what differs from run to run.
func stable(text string) string {
	for _, r := range []struct{ form, with string }{
		{`rf_\w{20,}`, "rf_0123456789abcdefghijABCDEFGHIJ01"},
		{`rf_\w{9}"`, `rf_012345678"`},
		{`\b(u|ak|ar|ts|cr|re|us)-[a-z0-9]{24}`, "$1-000000000000000000000000"},
		{`cr-daily-(u-0+)-\d{8}`, "cr-daily-$1-20260131"},
		{`ptc:[0-9a-f-]{36}`, "ptc:00000000-0000-4000-8000-000000000000"},
		{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`, "2026-01-31T12:00:00Z"},
		{`(code|invite)(=|": ")[A-Z2-7]{26}`, "$1${2}ABCDEFGHIJKLMNOPQRSTUVWXYZ"},
		{`http://localhost:\d+`, "http://localhost:5800"},
		{`ey[\w-]+\.[\w-]+\.[\w-]+`, "eyJhbGciOi….…"},
		{`"go": "go[^"]+"`, `"go": "go1.26"`},
		{`"platform": "[^"]+"`, `"platform": "linux/amd64"`},
		{`"seconds": [\d.e-]+`, `"seconds": 0.8`},
		{`"(commit|date)": "[^"]*"`, `"$1": "…"`},
		{`"modified": (true|false)`, `"modified": false`},
		{`\d+ of \d+ migrations`, "11 of 11 migrations"},
		{`(?s),\n  \{\n    "version": (?:[3-9]|\d\d+),\n    "name": "\d{4}_.*?\n  \}`, ""}, // two migrations show the shape
		{`,\n  \{\n    "table": "[^}]*\}`, ""},                                             // one column shows the shape
		{`http://127(\.\d+){3}:\d+`, "http://127.0.0.1:5801"},
	} {
		text = regexp.MustCompile(r.form).ReplaceAllString(text, r.with)
	}
	return text
}

// scriptable is the life of an installation, as a script sees it: each command
// with --json, whose answer is the golden file of the command's name.
func scriptable(t *testing.T, env []string, runID, callID string) [][]string {
	t.Helper()
	key := keyIDs(t, env, "anna")
	return [][]string{
		{"version"},
		{"user", "list"},
		{"user", "show", "anna"},
		{"user", "token", "anna"},
		{"user", "invite"},
		{"console", "--user", "anna"},
		{"key", "list", "--user", "anna"},
		{"key", "show", key[0]},
		{"key", "model", key[0], "small"},
		{"key", "rotate"},
		{"key", "delete", key[0], "--yes"},
		{"toolset", "apply", "--file", "../../configs/toolsets"},
		{"toolset", "list"},
		{"toolset", "show", "demo"},
		{"tool", "mark", "demo", "get_weather"},
		{"tool", "list"},
		{"toolset", "import", "--openapi", "../connector/rest/openapi/testdata/pets.yaml", "--name", "pets"},
		{"toolset", "delete", "pets", "--yes"},
		{"run", "list", "--user", "admin"},
		{"run", "show", runID},
		{"credit", "refund", "--user", "admin", "--call", callID},
		{"run", "delete", runID, "--yes"},
		{"credit", "grant", "--user", "anna", "--amount", "12.5", "--id", "cr-1"},
		{"credit", "balance", "--user", "anna"},
		{"credit", "recharges", "--user", "anna"},
		{"credit", "report", "--user", "admin"},
		{"credit", "plan", "plus_monthly", "--type", "plus", "--interval", "monthly", "--monthly", "2000", "--daily-gift", "7.5"},
		{"credit", "subscribe", "--user", "anna", "--plan", "plus_monthly"},
		{"credit", "cancel", "--user", "anna"},
		{"credit", "limit", "--user", "anna", "--run", "5"},
		{"credit", "rate", "composio", "--standard", "0.299", "--premium", "0.897"},
		{"credit", "verify"},
		{"mcp", "add", "docs", "--url", mcpServer(t), "--egress", "127.0.0.0/8", "--price", "0.5"},
		{"mcp", "list"},
		{"mcp", "test", "docs"},
		{"mcp", "tools", "docs"},
		{"mcp", "pin", "docs"},
		{"mcp", "price", "docs", "2", "--tool", "search"},
		{"mcp", "show", "docs"},
		{"mcp", "unpin", "docs"},
		{"mcp", "remove", "docs", "--yes"},
		{"mcp", "config", "codex"},
		{"mcp", "import", file(t, "client.json", `{"mcpServers": {"files": {"command": "server-filesystem"}, "old": {"type": "sse", "url": "https://mcp.example.com/sse"}}}`)},
		{"mcp", "apply", file(t, "mcp.yaml", "servers: {web: {url: 'https://mcp.example.com/mcp', oauth: true}}")},
		{"mcp", "connect", "web", "--user", "anna"},
		{"knowledge", "add", "testdata/handbook", "--shared", "--collection", "handbook"},
		{"knowledge", "list", "--shared"},
		{"knowledge", "show", "testdata/handbook/heating.md", "--shared", "--collection", "handbook"},
		{"knowledge", "stats", "--shared"},
		{"knowledge", "remove", "testdata/handbook/heating.md", "--shared", "--collection", "handbook", "--yes"},
		{"knowledge", "clear", "handbook", "--shared", "--yes"},
		{"model", "list"},
		{"model", "try", "small", "Say hello."},
		{"audit"},
		{"ptc", "explain", "--uid", "u-1", "--toolsets", "demo"},
		{"user", "create", "ben", "--email", "ben@example.com"},
		{"user", "delete", "ben", "--yes"},
		{"user", "erase", "carl", "--yes"},
		{"retention", "show"},
		{"storage", "verify"},
		{"node", "list"},
		{"node", "key"},
		{"node", "drain", "proc-1"},
		{"migrate", "up"},
		{"migrate", "status"},
		{"migrate", "down"},
	}
}

// mcpServer is the address of an MCP server with one tool.
func mcpServer(t *testing.T) string {
	t.Helper()
	docs := mcp.NewServer(&mcp.Implementation{Name: "docs", Version: "1"}, nil)
	docs.AddTool(&mcp.Tool{Name: "search", Description: "Searches the documents.", InputSchema: json.RawMessage(`{"type":"object","properties":{"query":{"type":"string"}}}`)},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{}, nil
		})
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return docs }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true}))
	t.Cleanup(web.Close)
	return web.URL
}

// file is a file of the test's.
func file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// models is a file of two models, which follow a script.
func models(t *testing.T) string {
	t.Helper()
	script, err := scripted.Parse([]byte("name: small\nturns: [{output: [{text: Hello.}]}]"))
	require.NoError(t, err)
	web := httptest.NewServer(scripted.New(script))
	t.Cleanup(web.Close)
	return file(t, "models.yaml", fmt.Sprintf(`models:
  - {name: small, protocol: chat, baseUrl: "%[1]s/v1", model: qwen, context: 32000, prices: {input: 2, cached: 0.2, output: 8}, fallbacks: [large]}
  - {name: large, protocol: messages, baseUrl: "%[1]s/v1", maxOutput: 16000, prices: {input: 30, output: 150}}
`, web.URL))
}

// keyIDs are the ids of the keys of a user.
func keyIDs(t *testing.T, env []string, user string) []string {
	t.Helper()
	var keys []struct{ ID string }
	require.NoError(t, json.Unmarshal([]byte(good(t, env, "key", "list", "--user", user, "--json")), &keys))
	var ids []string
	for _, k := range keys {
		ids = append(ids, k.ID)
	}
	return ids
}

// What a script reads with --json keeps its shape: docs/cli.md shows it.
func TestAnswersForScriptsKeepTheirShape(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	env := apptest.Environ(t, databasetest.EmptyURL(t, database.SQLite), "TOOLSET_PETS_API_KEY=pet-key", "SIGNUP=invite", "MODEL_FILE="+models(t))
	s := serving(t, env)
	var done struct {
		Data struct{ ToolCalls []struct{ CallID string } }
	}
	require.NoError(t, json.Unmarshal([]byte(s.execute("get_weather(city='Oslo')\nprint(1)")), &done))
	require.Len(t, done.Data.ToolCalls, 1)
	s.stop()
	nodetest.Live(t, databasetest.OpenURL(t, apptest.Values(env)["DATABASE_URL"], nil), "proc-1", time.Now().Add(time.Hour))
	var runs []struct{ ResultID, Status string }
	require.NoError(t, json.Unmarshal([]byte(good(t, env, "run", "list", "--user", "admin", "--json")), &runs))
	require.Len(t, runs, 1)
	good(t, env, "user", "create", "anna", "--email", "anna@example.com")
	good(t, env, "user", "create", "carl")
	compare := func(args []string, out string) {
		t.Helper()
		require.True(t, json.Valid([]byte(out)), "%v: %s", args, out)
		golden(t, filepath.Join("testdata", "json", nameOf(args)+".json"), stable(out))
	}
	created := []string{"key", "create", "--user", "anna", "--days", "30", "--json"}
	compare(created, good(t, env, created...))
	for _, args := range scriptable(t, env, runs[0].ResultID, done.Data.ToolCalls[0].CallID) {
		code, out, errs := portico(t, env, append(args, "--json")...)
		require.Zero(t, code, "%v: %s", args, errs)
		compare(args, out)
	}
}

// The answers of these are as long as the configuration and the machine make
// them; the document shows a part.
func TestLongAnswersForScriptsKeepTheirShape(t *testing.T) {
	t.Parallel()
	env := apptest.Environ(t, databasetest.EmptyURL(t, database.SQLite))
	indent := func(v any) string {
		text, err := json.MarshalIndent(v, "", "  ")
		require.NoError(t, err)
		return string(text) + "\n"
	}
	var config map[string]any
	require.NoError(t, json.Unmarshal([]byte(good(t, env, "config", "--json")), &config))
	require.Contains(t, config, "server")
	golden(t, "testdata/json/config.json", indent(map[string]any{"log": config["log"], "toolsets": config["toolsets"]}))

	code, out, errs := portico(t, append(env, "SANDBOX_ROOT=/nowhere"), "doctor", "--json")
	require.Equal(t, 1, code, "a check fails, and the answer is whole all the same")
	require.Contains(t, errs, "checks failed")
	var checks []struct {
		Check string `json:"check"`
		OK    bool   `json:"ok"`
		Text  string `json:"text"`
	}
	require.NoError(t, json.Unmarshal([]byte(out), &checks))
	require.Greater(t, len(checks), 3)
	require.Contains(t, out, `"ok": false`)
	golden(t, "testdata/json/doctor.json", stable(indent(checks[1:3])))
}

// nameOf is the command of a line, without what it is given.
func nameOf(args []string) string {
	groups := "key user node toolset run credit migrate ptc demo tools mcp knowledge model retention storage"
	if strings.Contains(groups, args[0]) {
		return args[0] + "-" + args[1]
	}
	return args[0]
}

// A list of nothing is a list, and not null.
func TestEmptyListsAreLists(t *testing.T) {
	t.Parallel()
	env := apptest.Environ(t, databasetest.EmptyURL(t, database.SQLite))
	require.Equal(t, "[]\n", good(t, env, "user", "list", "--json"))
	require.Equal(t, "[]\n", good(t, env, "key", "list", "--json"))
	require.Equal(t, "[]\n", good(t, env, "audit", "--json"))
	good(t, env, "user", "create", "anna")
	require.Equal(t, "[]\n", good(t, env, "run", "list", "--user", "anna", "--json"))
	require.Contains(t, good(t, env, "user", "show", "anna", "--json"), `"has": []`)
}
