package describe_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/internal/secretbox"
	"github.com/portico-run/portico/modules/connector/mcp/describe"
	"github.com/portico-run/portico/modules/connector/mcp/server"
	"github.com/portico-run/portico/modules/toolset/mark"
)

func write(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

const good = `
servers:
  docs:
    url: https://mcp.example.com/mcp
    headers: {Authorization: "Bearer ${TOOLSET_DOCS}", X-User: "{{USER_TOKEN}}"}
    scopes: [tools]
    price: 0.5
    prices: {search: 2}
    refresh: 5m
  files:
    command: npx
    args: [-y, server, "a b"]
    env: {KEY: "${TOOLSET_DOCS}"}
    sandbox: true
  internal:
    url: http://10.1.2.3/mcp
    egress: [10.1.2.3/16]
    oauth: true
    clientId: by-hand
    enabled: false
`

// A file is in force as it is: what it adds is added, what it changes is changed,
// what it leaves out goes; what is as it was is not touched.
func TestServersAreWhatTheirFileSays(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		box, err := secretbox.New(strings.Repeat("0a", 32))
		require.NoError(t, err)
		s := server.New(server.Deps{DB: db, Box: box})
		o := s.Operators()
		path := filepath.Join(t.TempDir(), "mcp.yaml")
		vars := map[string]string{"TOOLSET_DOCS": "s3cret"}
		load := func(content string) (describe.Applied, []describe.Problem) {
			t.Helper()
			write(t, path, content)
			applied, problems, err := describe.Load(t.Context(), describe.Into{Servers: o, Marks: mark.New(mark.Deps{DB: db})}, path, vars)
			require.NoError(t, err)
			return applied, problems
		}
		applied, problems := load(good)
		require.Empty(t, problems)
		require.Equal(t, []string{"docs", "files", "internal"}, applied.Created)
		docs, err := o.Show(t.Context(), "", "docs")
		require.NoError(t, err)
		require.Equal(t, money.Credit/2, docs.Price)
		require.Equal(t, map[string]money.Amount{"search": 2 * money.Credit}, docs.Prices)
		require.Equal(t, "USER_TOKEN", docs.Values[0].Name)
		files, err := o.Show(t.Context(), "", "files")
		require.NoError(t, err)
		require.Equal(t, []string{"-y", "server", "a b"}, files.Args)
		found, err := s.Find(t.Context(), actor.Actor{UID: "anybody"}, "files")
		require.NoError(t, err)
		require.Equal(t, "s3cret", found.Env["KEY"])
		internal, err := o.Show(t.Context(), "", "internal")
		require.NoError(t, err)
		require.False(t, internal.Enabled)
		require.Equal(t, []string{"10.1.0.0/16"}, internal.Egress)

		applied, problems = load(good)
		require.Empty(t, problems)
		require.Equal(t, []string{"docs", "files", "internal"}, applied.Unchanged)
		again, err := s.Find(t.Context(), actor.Actor{UID: "anybody"}, "files")
		require.NoError(t, err)
		require.Equal(t, found.Version, again.Version, "connections stay")

		applied, problems = load(strings.ReplaceAll(good, `"a b"`, `a, b`))
		require.Empty(t, problems)
		require.Equal(t, []string{"files"}, applied.Updated)
		require.ErrorContains(t, o.Remove(t.Context(), "", "files"), "E0022", "it would come back")

		applied, problems = load("servers: {docs: {url: 'https://mcp.example.com/mcp'}}")
		require.Empty(t, problems)
		require.Equal(t, []string{"docs"}, applied.Updated)
		require.Equal(t, []string{"files", "internal"}, applied.Removed)
	})
}

// A bad entry costs only itself; what it described before stays.
func TestABadEntryCostsOnlyItself(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		box, err := secretbox.New(strings.Repeat("0a", 32))
		require.NoError(t, err)
		o := server.New(server.Deps{DB: db, Box: box}).Operators()
		dir := t.TempDir()
		load := func() (describe.Applied, string) {
			t.Helper()
			applied, problems, err := describe.Load(t.Context(), describe.Into{Servers: o, Marks: mark.New(mark.Deps{DB: db})}, dir, nil)
			require.NoError(t, err)
			var lines []string
			for _, p := range problems {
				lines = append(lines, strings.TrimPrefix(p.Error(), dir+"/"))
			}
			return applied, strings.Join(lines, "\n")
		}
		write(t, filepath.Join(dir, "a.yaml"), "servers: {one: {url: 'https://a.example.com'}, two: {url: 'https://b.example.com'}}")
		applied, problems := load()
		require.Empty(t, problems)
		require.Len(t, applied.Created, 2)
		require.NoError(t, o.Add(t.Context(), "", server.Spec{Name: "mine", Transport: server.HTTP, URL: "https://mine.example.com"}))
		write(t, filepath.Join(dir, "a.yaml"), `servers:
  one: {url: "https://a.example.com", headers: {X: "${NOWHERE}"}}
  two: {url: "https://c.example.com"}
  three: {urll: "https://c.example.com"}
  four: {url: "https://c.example.com", command: sh}
  two: {url: "https://d.example.com"}
  Five: {url: "https://c.example.com"}
  six: {url: "https://c.example.com", price: free}
  seven: {url: "https://c.example.com", egress: [everything]}
  eight: [1]
  nine: {url: "https://c.example.com"}
  mine: {url: "https://c.example.com"}
`)
		applied, problems = load()
		require.Equal(t, []string{"two"}, applied.Updated)
		require.Equal(t, []string{"nine"}, applied.Created)
		require.Empty(t, applied.Removed, "one stays as it was")
		for _, line := range []string{
			"a.yaml:2: server one: these variables are not set: NOWHERE", `a.yaml:4: server three: unknown key "urll"; known are url, headers`,
			"server four: E0003: A server with a command has no URL", "a.yaml:6: server two: it is also in", "server Five: E0003: name has",
			"a.yaml:8: server six: price is no number", `a.yaml:9: server seven: egress "everything" is no network`, "a.yaml:10: server eight: it is a mapping",
			"server mine: E0022: There is an MCP server mine that a command added.",
		} {
			require.Contains(t, problems, line)
		}
		write(t, filepath.Join(dir, "a.yaml"), "servers: [")
		write(t, filepath.Join(dir, "b.yaml"), "servers: {ten: {url: 'https://a.example.com'}}")
		applied, problems = load()
		require.Contains(t, problems, "a.yaml:1: it has the key servers")
		require.Equal(t, []string{"ten"}, applied.Created)
		require.Empty(t, applied.Removed, "nobody knows what the broken file has")
	})
}

func TestConfigurationsOfDesktopClientsAreRead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.json")
	write(t, path, `{"globalShortcut": "x", "mcpServers": {
		"filesystem": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "${HOME}"], "env": {"KEY": "${env:TOKEN}"}},
		"My Server": {"type": "streamable-http", "url": "https://mcp.example.com/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}, "alwaysAllow": ["x"]},
		"my-server": {"url": "https://other.example.com"},
		"off": {"url": "https://off.example.com", "disabled": true},
		"old": {"type": "sse", "url": "https://old.example.com/sse"},
		"asks": {"command": "x", "env": {"KEY": "${input:key}"}},
		"both": {"command": "x", "url": "https://x"}, "none": {}, "list": [], "strange": {"url": "https://x.example.com", "cwd": "/x"}
	}}`)
	specs, left, err := describe.Desktop(path, map[string]string{"HOME": "/home/anna", "TOKEN": "t0ken"})
	require.NoError(t, err)
	names := map[string]server.Spec{}
	for _, s := range specs {
		names[s.Name] = s
	}
	require.Len(t, specs, 4)
	require.Equal(t, server.Spec{
		Name: "filesystem", Transport: server.Stdio, Command: "npx", Args: []string{"-y", "@modelcontextprotocol/server-filesystem", "/home/anna"}, Env: map[string]string{"KEY": "t0ken"},
	}, names["filesystem"])
	require.Equal(t, "Bearer t0ken", names["my-server"].Headers["Authorization"])
	require.True(t, names["off"].Off)
	reasons := map[string]string{}
	for _, l := range left {
		reasons[l.Server] += l.Reason
	}
	require.Len(t, reasons, 7)
	for name, reason := range map[string]string{
		"my-server": `its name becomes my-server, as that of "My Server"`, "old": "its transport sse is not supported", "asks": "these have no value here: ${input:key}",
		"both": "both a command and a URL", "none": "neither a command nor a URL", "list": "not an object", "strange": "cwd is not taken",
	} {
		require.Contains(t, reasons[name], reason)
	}
	write(t, path, `{"servers": {"vs": {"type": "http", "url": "https://mcp.example.com"}}, "inputs": []}`)
	specs, left, err = describe.Desktop(path, nil)
	require.NoError(t, err)
	require.Empty(t, left)
	require.Equal(t, "vs", specs[0].Name)
	write(t, path, `{}`)
	_, _, err = describe.Desktop(path, nil)
	require.ErrorContains(t, err, "neither mcpServers nor servers")
	_, _, err = describe.Desktop(path+"x", nil)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// docs/mcp.md has every key of an entry.
func TestTheKeysAreDocumented(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../../../../docs/mcp.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(document), "| Key | Means |")
	require.True(t, found)
	for _, key := range describe.Keys() {
		require.Contains(t, table, "\n| `"+key+"` | ")
	}
}
