package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/app"
	"github.com/portico-run/portico/modules/connector/mcp/hubtest"
	"github.com/portico-run/portico/modules/connector/mcp/server"
)

// Servers that die, hang, flood their standard error or answer 20 MiB fail the
// calls that this concerns, in words, and no others of the same program: not those
// of another server, and not the next ones of their own. States and metrics say
// how the servers do.
func TestServersInTroubleFailTheirOwnCallsOnly(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	eachServers(t, func(t *testing.T, s *instance, d *hubtest.Directory) {
		d.Put(hubtest.Process(t, "child", hubtest.Good))
		d.Put(hubtest.Listen(t, "shop", hubtest.New().Handler()))
		d.Put(hubtest.Process(t, "broken", hubtest.Dead))
		o := s.run(map[string]any{"toolsets": []string{"child", "shop", "broken"}, "timeout": 250_000, "code": `
def told(call):
    try:
        return call()
    except ToolExecutionError as e:
        return e.code + " " + str(e)

print(told(lambda: child.flood()))
print(told(lambda: child.big()))
print(told(lambda: shop.big()))
print(told(lambda: child.echo(zeta="alive")))
print(told(lambda: child.hang()))
print(told(lambda: child.echo(zeta="alive")))
print(told(lambda: child.die()))
print(told(lambda: shop.echo(zeta="alive")))
print(told(lambda: broken.echo(zeta="never")))
`})
		lines := strings.Split(o.Stdout, "\n")
		require.Len(t, lines, 10, o.Stdout+o.Stderr)
		for i, want := range []string{
			"flooded", "RESPONSE_TOO_LARGE ", "RESPONSE_TOO_LARGE ", "{'zeta': 'alive'}", "TIMEOUT MCP server child did not answer within 1m0s.", "{'zeta': 'alive'}",
			"CONNECTION_BROKEN MCP server child ended the connection", "{'zeta': 'alive'}", "CONNECTION_BROKEN MCP server broken ended the connection",
		} {
			require.Contains(t, lines[i], want, o.Stdout)
		}
		require.Equal(t, "completed", o.Status, o.Stderr)
		require.Len(t, o.Warnings, 1, "%v", o.Warnings)
		require.Contains(t, o.Warnings[0], "The tools of MCP server broken are not known")

		child := server.Server{Name: "child", Version: "1"}
		require.Contains(t, s.app.MCP.Health(s.first(), child).Stderr, "last words")
		require.LessOrEqual(t, len(s.app.MCP.Health(s.first(), child).Stderr), 64<<10+len("[…]\n"))
		require.Eventually(t, func() bool { // a new attempt may be on its way
			ready := s.send(s.key, "GET", "/readyz?verbose", nil)
			return ready.status == 200 && strings.Contains(ready.raw, `"mcpServers":{"degraded":2,"ready":1}`)
		}, time.Minute, 200*time.Millisecond, "servers of others do not make this one unready")
		metrics := s.send(s.key, "GET", "/metrics", nil).raw
		require.Contains(t, metrics, "portico_mcp_servers_degraded 2")
		require.Contains(t, metrics, "portico_mcp_servers_ready 1")
		// The dead process is started again, after its pause.
		require.Eventually(t, func() bool {
			o := s.run(map[string]any{"toolsets": []string{"child"}, "code": "print(child.echo(zeta='again'))"})
			return o.Stdout == "{'zeta': 'again'}\n"
		}, time.Minute, 200*time.Millisecond)
	})
}

// A program that runs keeps the tools that it had when its server changes its list;
// the next program has the new ones. A change is in the audit log.
func TestListsChangeDuringAProgram(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	const anything = `{"type":"object","properties":{"zeta":{"type":"string"}}}`
	each(t, func(t *testing.T, s *instance) {
		of := hubtest.New()
		answer := func(text string) mcp.ToolHandler {
			return func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return hubtest.Words(text), nil
			}
		}
		of.Add("swap", anything, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			of.Add("fresh", anything, answer("new"))
			of.RemoveTools("text")
			of.Add("fail", `{"type":"object","properties":{"why":{"type":"string"}}}`, answer("changed"))
			return hubtest.Words("swapped"), nil
		})
		at := hubtest.Listen(t, "shop", of.Handler())
		require.NoError(t, s.app.Servers.Operators().Add(t.Context(), "", server.Spec{Name: "shop", Transport: server.HTTP, URL: at.URL, Egress: at.Egress}))
		code := `
print("shop__fresh" in globals(), "shop__text" in globals())
print(shop.swap())
print("shop__fresh" in globals(), "shop__text" in globals())
print(shop.echo(zeta="still here"))
`
		o := s.run(map[string]any{"toolsets": []string{"shop"}, "code": code})
		require.Equal(t, "False True\nswapped\nFalse True\n{'zeta': 'still here'}\n", o.Stdout, o.Stderr)
		require.Eventually(t, func() bool {
			o := s.run(map[string]any{"toolsets": []string{"shop"}, "code": `print("shop__fresh" in globals(), "shop__text" in globals())`})
			return o.Stdout == "True False\n"
		}, time.Minute, 200*time.Millisecond)
		o = s.run(map[string]any{"toolsets": []string{"shop"}, "code": "print(shop.fresh())"})
		require.Equal(t, "new\n", o.Stdout, o.Stderr)
		require.Equal(t, 1, s.count(`SELECT count(*) FROM audit_events WHERE action = 'mcp.tools' AND subject = 'shop'`))

		// What was pinned is all that can be called.
		shop, err := s.app.Servers.Find(t.Context(), s.first(), "shop")
		require.NoError(t, err)
		list, err := s.app.MCP.Tools(t.Context(), s.first(), shop)
		require.NoError(t, err)
		require.NoError(t, s.app.Servers.Operators().Pin(t.Context(), "", "shop", list))
		of.Add("fresh", `{"type":"object","properties":{"other":{"type":"string"}}}`, answer("newer"))
		require.Eventually(t, func() bool {
			o = s.run(map[string]any{"toolsets": []string{"shop"}, "code": "try:\n    print(shop.fresh())\nexcept Exception as e:\n    print(type(e).__name__, e)"})
			return strings.HasPrefix(o.Stdout, "AttributeError")
		}, time.Minute, 200*time.Millisecond)
		require.Equal(t, "{'zeta': 'x'}\n", s.run(map[string]any{"toolsets": []string{"shop"}, "code": "print(shop.echo(zeta='x'))"}).Stdout)
	})
}

// An agent that selects MCP servers writes programs that call their tools. The
// objects of frontends and plain names select them alike.
func TestAgentCallsMCPServers(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	for name, selected := range map[string]any{
		"object": map[string]any{"type": "mcp", "id": "mcp-7", "name": "shop", "mcpServer": map[string]any{"name": "shop"}},
		"key":    "shop",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model, env := script(t, `
- expect: ["shop.echo(", "What is there"]
  output: [`+programCall(t, "execute_code", "print('got', shop.echo(zeta='a marker')['zeta'].upper())")+`]
- expect: ["got A MARKER"]
  output: [{text: "It is there."}]
`)
			d, of := &hubtest.Directory{}, hubtest.New()
			d.Put(hubtest.Listen(t, "shop", of.Handler()))
			s := serveOptions(t, environ(t, databasetest.URL(t, database.SQLite), env...), app.Options{Servers: d})
			answer, body := s.stream(t, s.key, map[string]any{"query": "What is there?", "toolsets": []any{selected}, "resultId": "ar-mcp"})
			require.Equal(t, 200, answer.StatusCode)
			events := eventsOf(t, body)
			r := s.result(t, s.key, "ar-mcp")
			require.Equal(t, "finish", r.Status, "%v", r.Errors)
			for _, e := range events {
				if said, ok := e["log"].(map[string]any); ok {
					require.NotEqual(t, "warn", said["level"], "nothing is left out: %v", e)
				}
			}
			require.EqualValues(t, 1, of.Calls.Load())
			require.Len(t, model.Requests(), 2)
			require.Equal(t, 1, s.count(`SELECT count(*) FROM tool_call_results WHERE toolset_id = 'shop' AND tool_name = 'shop__echo' AND ptc_call_id IS NOT NULL`))
		})
	}
}

// 400 tools of 20 servers are searched by code, not listed: the prompt names each
// server and stays short.
func TestManyServersInAPrompt(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	const servers, tools = 20, 20
	model, env := script(t, `
- output: [`+programCall(t, "execute_code", `print(search_tools("wombat of server seven number three"))`+"\nprint(server07.wombat_03(zeta='x'))")+`]
- expect: ["server07.wombat_03(", "found"]
  output: [{text: "Found."}]
`)
	d := &hubtest.Directory{}
	var keys []string
	for i := range servers {
		name := fmt.Sprintf("server%02d", i)
		of := mcp.NewServer(&mcp.Implementation{Name: name, Version: "1"}, nil)
		for n := range tools {
			of.AddTool(&mcp.Tool{
				Name: fmt.Sprintf("wombat_%02d", n), Description: fmt.Sprintf("Does what number %d of %s does, at some length: %s.", n, name, strings.Repeat("and so on, ", 20)),
				InputSchema: json.RawMessage(`{"type":"object","properties":{"zeta":{"type":"string","description":"What it is about"},"alpha":{"type":"integer"}}}`),
			}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return hubtest.Words("found"), nil
			})
		}
		d.Put(hubtest.Listen(t, name, (&hubtest.Server{Server: of}).Handler()))
		keys = append(keys, name)
	}
	s := serveOptions(t, environ(t, databasetest.URL(t, database.SQLite), env...), app.Options{Servers: d})
	answer, body := s.stream(t, s.key, map[string]any{"query": "Find it", "toolsets": keys, "resultId": "ar-many"})
	require.Equal(t, 200, answer.StatusCode)
	eventsOf(t, body)
	r := s.result(t, s.key, "ar-many")
	require.Equal(t, "finish", r.Status, "%v", r.Errors)
	first := string(model.Requests()[0])
	require.Less(t, len(first), 80<<10, "the whole request, in bytes")
	for _, key := range keys {
		require.Contains(t, first, "## "+key+" ")
	}
	require.Contains(t, first, "20 functions, not listed here; search_tools finds them")
}
