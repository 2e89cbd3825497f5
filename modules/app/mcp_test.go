package app_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/app"
	"github.com/portico-run/portico/modules/connector/mcp/hubtest"
)

// eachServers runs a test on a server of its own over each database, with a
// directory of MCP servers.
func eachServers(t *testing.T, test func(t *testing.T, s *instance, d *hubtest.Directory), more ...string) {
	t.Helper()
	for _, d := range databasetest.Of(t) {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			directory := &hubtest.Directory{}
			test(t, serveOptions(t, environ(t, databasetest.URL(t, d), more...), app.Options{Servers: directory}), directory)
		})
	}
}

// A tool of an MCP server is called from a program as every tool is: checked,
// recorded, billed once at the server's price. Files and failures are those of
// every tool.
func TestProgramsCallToolsOfMCPServers(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	eachServers(t, func(t *testing.T, s *instance, d *hubtest.Directory) {
		shared := hubtest.Listen(t, "shop", hubtest.New().Handler())
		shared.Price = 3 * money.Credit
		d.Put(shared)
		child := hubtest.Process(t, "local", hubtest.Good)
		d.Put(child)

		o := s.run(map[string]any{"toolsets": []string{"shop", "local"}, "code": `
print(shop__echo(zeta="ü", alpha=9007199254740993))
print(local__structured()["zeta"])
try:
    shop__fail()
except ToolExecutionError as e:
    print(e)
try:
    shop__echo(alpha="no number")
except ToolExecutionError as e:
    print("alpha" in str(e))
print([f["type"] for f in shop__files()["files"]])
`})
		require.Equal(t, "{'alpha': 9007199254740993, 'zeta': 'ü'}\n9007199254740993\nthe disk is full\nTrue\n['image/png', 'text/plain']\n", o.Stdout, o.Stderr)
		require.Equal(t, 5, s.count("SELECT count(*) FROM tool_call_results WHERE toolset_id IN ('shop', 'local') AND ptc_call_id = ?", o.CallID))
		require.Equal(t, 2, s.count("SELECT count(*) FROM credit_usages u JOIN tool_call_results c ON c.call_id = u.tool_call_id WHERE c.toolset_id = 'shop' AND c.tool_name LIKE 'shop\\_\\_%' ESCAPE '\\' AND u.amount = 3"))
		require.Contains(t, s.send(s.key, "GET", "/readyz?verbose", nil).raw, `"mcpServers":{"ready":2}`)
		require.Contains(t, s.send(s.key, "GET", "/metrics", nil).raw, "portico_mcp_servers_ready 2")
	})
}

// The route of SDKs refuses MCP servers, whatever a request claims, unless the
// operator opened it; programs reach them all the same.
func TestTheRouteOfSDKsRefusesMCPServers(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	const body = `{"toolsetKey":"shop","toolName":"shop__echo","arguments":{"zeta":"x"}}`
	eachServers(t, func(t *testing.T, s *instance, d *hubtest.Directory) {
		of := hubtest.New()
		d.Put(hubtest.Listen(t, "shop", of.Handler()))
		a := s.send(s.key, "POST", "/v1/tool/execute", body)
		require.Contains(t, a.raw, "Toolset shop not supported: MCP tool execution is not supported.")
		require.NotContains(t, s.send(s.key, "GET", "/v1/tool/toolset/exportDefinitions", nil).raw, "shop__echo")
		require.Contains(t, s.send(s.key, "GET", "/v1/tool/toolset/exportDefinitions?toolsetKeys=shop", nil).raw, "Toolset not found: shop")
		// A program with a key of its own that calls the route over the network is
		// not the program's own channel.
		o := s.run(map[string]any{"toolsets": []string{"shop"}, "code": "import os\nprint(os.environ['REFLY_TOOL_SERVICE_API_KEY'], os.environ['REFLY_PTC_CALL_ID'])\nprint(shop__echo(zeta='y'))"})
		require.Contains(t, o.Stdout, "{'zeta': 'y'}", o.Stderr)
		require.EqualValues(t, 1, of.Calls.Load())
		a = s.send(s.key, "POST", "/v1/tool/execute", body, "x-ptc-call-id", "", "Portico-Inside", "true")
		require.Contains(t, a.raw, "MCP tool execution is not supported.")
	})
	t.Run("opened", func(t *testing.T) {
		t.Parallel()
		d := &hubtest.Directory{}
		d.Put(hubtest.Listen(t, "shop", hubtest.New().Handler()))
		s := serveOptions(t, environ(t, databasetest.URL(t, database.SQLite), "TOOL_EXECUTE_MCP=true"), app.Options{Servers: d})
		a := s.send(s.key, "POST", "/v1/tool/execute", body)
		var said struct {
			Status string
			Data   json.RawMessage
		}
		require.NoError(t, json.Unmarshal(a.body.Data, &said), a.raw)
		require.Equal(t, "success", said.Status, a.raw)
		require.JSONEq(t, `{"zeta":"x"}`, string(said.Data))
		require.Contains(t, s.send(s.key, "GET", "/v1/tool/toolset/exportDefinitions?toolsetKeys=shop", nil).raw, "shop__echo")
	})
}

// first is the first user.
func (s *instance) first() actor.Actor {
	s.t.Helper()
	u, err := s.app.Accounts.Service.UserByName(s.t.Context(), app.FirstUser)
	require.NoError(s.t, err)
	return actor.Actor{UID: u.UID, Scope: actor.Full}
}
