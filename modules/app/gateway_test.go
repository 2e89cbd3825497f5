package app_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/connector/composio/composiotest"
	"github.com/portico-run/portico/modules/connector/vendors/vendorstest"
)

// gateway is a server with a toolset of every type and their upstreams.
type gateway struct {
	*instance
	composio                        *composiotest.Server
	perplexity, jina, notion, apify *vendorstest.Server
}

func openGateway(t *testing.T, d database.Dialect, more ...string) *gateway {
	t.Helper()
	g := &gateway{
		composio: composiotest.Start(t), perplexity: vendorstest.Perplexity(t), jina: vendorstest.Jina(t), notion: vendorstest.Notion(t), apify: vendorstest.Apify(t),
	}
	g.composio.Run = func(slug string, arguments map[string]any) (map[string]any, string) {
		if slug == "GMAIL_GET_ATTACHMENT" {
			return map[string]any{"file": map[string]any{"s3url": g.composio.Store("report", []byte("%PDF-1.4 report")), "mimetype": "application/pdf", "name": "report.pdf"}}, ""
		}
		if arguments["to"] == "nobody" {
			return map[string]any{"status": 550}, "Invalid To header"
		}
		return map[string]any{"slug": slug, "arguments": arguments}, ""
	}
	legacy := func(key, config string) string {
		return fmt.Sprintf("{key: %s, name: %s, authType: credentials, egress: {allow: [127.0.0.0/8]}, credential: {value: %s}, config: {%s}}\n", key, key, vendorstest.Token, config)
	}
	dir := t.TempDir()
	demo, err := os.ReadFile("../../configs/toolsets/demo.yaml")
	require.NoError(t, err)
	for name, content := range map[string]string{
		"demo.yaml":       string(demo),
		"gmail.yaml":      "{key: gmail, name: Gmail, labels: {en: Gmail}, type: external_oauth, egress: {allow: [127.0.0.0/8]}}\n",
		"alpha.yaml":      "{key: alpha_vantage, name: Alpha Vantage, type: external_apikey, billing: 2.5, credential: {value: shared-vantage-key}}\n",
		"perplexity.yaml": legacy("perplexity", "baseUrl: '"+g.perplexity.URL+"'"),
		"jina.yaml":       legacy("jina", "readerUrl: '"+g.jina.URL+"/reader', searchUrl: '"+g.jina.URL+"/search'"),
		"notion.yaml":     legacy("notion", "baseUrl: '"+g.notion.URL+"'"),
		"apify.yaml":      legacy("apify-13f", "baseUrl: '"+g.apify.URL+"'"),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	g.instance = serve(t, databasetest.URL(t, d), append([]string{
		"TOOLSETS_DIR=" + dir, "COMPOSIO_API_KEY=" + composiotest.Key, "COMPOSIO_BASE_URL=" + g.composio.URL, "COMPOSIO_EGRESS=127.0.0.0/8",
	}, more...)...)
	return g
}

// connect is the first user, who connects a mail account.
func (g *gateway) connect() {
	g.t.Helper()
	users, err := g.app.Accounts.Service.Users(g.t.Context())
	require.NoError(g.t, err)
	uid := users[0].UID
	// listed is how the two lists of the frontend show the mail service.
	listed := func(path string) (found []string) {
		var tools []struct {
			Key, Type  string
			Authorized bool
		}
		require.NoError(g.t, json.Unmarshal(g.send(g.key, "GET", path, nil).body.Data, &tools))
		for _, one := range tools {
			switch {
			case one.Type == "external_oauth":
				found = append(found, one.Type)
			case one.Key == "gmail":
				found = append(found, map[bool]string{true: "authorized", false: "not authorized"}[one.Authorized])
			}
		}
		return found
	}
	require.Empty(g.t, listed("/v1/tool/list"))
	require.Equal(g.t, []string{"external_oauth"}, listed("/v1/tool/list?includeUnauthorized=true"))
	require.Equal(g.t, []string{"not authorized"}, listed("/v1/tool/user/list"))
	a := g.send(g.key, "POST", "/v1/tool/composio/gmail/authorize", nil)
	require.Equal(g.t, 200, a.status, a.raw)
	require.Contains(g.t, a.raw, `"redirectUrl":"`+g.composio.URL+`/link/`)
	require.JSONEq(g.t, `{"status":"revoked","integrationId":"gmail"}`, g.send(g.key, "GET", "/v1/tool/composio/gmail/status", nil).raw)
	account := g.composio.Agree(uid, "gmail")
	require.JSONEq(g.t, `{"status":"active","connectedAccountId":"`+account+`","integrationId":"gmail"}`, g.send(g.key, "GET", "/v1/tool/composio/gmail/status", nil).raw)
	require.Equal(g.t, []string{"external_oauth"}, listed("/v1/tool/list"))
	require.Equal(g.t, []string{"external_oauth"}, listed("/v1/tool/list?includeUnauthorized=true"))
	require.Equal(g.t, []string{"authorized"}, listed("/v1/tool/user/list"))
}

// everyTool is a call of every tool of every toolset, and what it costs.
// Names in upper case are ids of the upstream's; {x} is from a result before.
var everyTool = []struct{ module, class, tool, arguments, cost string }{
	{"demo", "Demo", "list_cities", `file_name_title="x"`, "1"},
	{"demo", "Demo", "get_weather", `city="Rome", file_name_title="x"`, "2"},
	{"demo", "Demo", "convert_currency", `amount=3, from_="USD", to="EUR", file_name_title="x"`, "0.5"},
	{"demo", "Demo", "save_note", `title="a", text="b" * 1500, file_name_title="x"`, "2"},
	{"demo", "Demo", "wait", `ms=1, file_name_title="x"`, ""},
	{"gmail", "Gmail", "GMAIL_SEND_EMAIL", `to="a@b.c", body="hi", attachment=drawn["fileId"], file_name_title="x"`, "3"},
	{"gmail", "Gmail", "GMAIL_FETCH_EMAILS", `file_name_title="x"`, "3"},
	{"gmail", "Gmail", "GMAIL_GET_ATTACHMENT", `id="1", file_name_title="Report"`, "3"},
	{"alpha_vantage", "AlphaVantage", "ALPHA_VANTAGE_SYMBOL_SEARCH", `keywords="ibm", file_name_title="x"`, "2.5"},
	{"perplexity", "Perplexity", "chat_completions", `messages=[{"role": "user", "content": "tea"}]`, "2"},
	{"perplexity", "Perplexity", "search", `query=["a", "b"]`, "1"},
	{"jina", "Jina", "read", `url="https://example.com/a"`, "1"},
	{"jina", "Jina", "serp", `query="tea"`, "1"},
	{"apify_13f", "Apify13f", "run13FActor", `manager_name="Berkshire", quarter_year="Q2 2024", file_name="holdings"`, "4"},
	{"notion", "Notion", "create_page", `parentId=PAGE, title="Plan", content="# One"`, ""},
	{"notion", "Notion", "retrieve_page", `pageId=PAGE`, ""},
	{"notion", "Notion", "update_page", `pageId=ROW, title="New"`, ""},
	{"notion", "Notion", "search_pages", `query="x"`, ""},
	{"notion", "Notion", "create_database", `parentId=PAGE, title="Books", properties={"Name": {"title": {}}}`, ""},
	{"notion", "Notion", "query_database", `databaseId=DATABASE`, ""},
	{"notion", "Notion", "retrieve_database", `databaseId=DATABASE`, ""},
	{"notion", "Notion", "append_block", `parentId=PAGE, content="- a"`, ""},
	{"notion", "Notion", "retrieve_block", `blockId=block()`, ""},
	{"notion", "Notion", "update_block", `blockId=block(), content="b"`, ""},
	{"notion", "Notion", "delete_block", `blockId=block()`, ""},
	{"notion", "Notion", "list_users", ``, ""},
	{"notion", "Notion", "get_database_properties", `databaseId=DATABASE`, ""},
	{"notion", "Notion", "create_comment", `pageId=PAGE, comment="Nice"`, ""},
	{"notion", "Notion", "create_file_upload", `filename="a.txt"`, ""},
	{"notion", "Notion", "send_file_upload", `fileUploadId=results["create_file_upload"]["fileUploadId"], fileData=drawn["fileId"], filename="a.txt"`, ""},
	{"notion", "Notion", "complete_file_upload", `fileUploadId=results["create_file_upload"]["fileUploadId"]`, ""},
	{"notion", "Notion", "retrieve_file_upload", `fileUploadId=results["create_file_upload"]["fileUploadId"]`, ""},
	{"notion", "Notion", "list_file_uploads", ``, ""},
	{"notion", "Notion", "retrieve_user", `userId=USER`, ""},
	{"notion", "Notion", "retrieve_page_property_item", `pageId=ROW, propertyId="title"`, ""},
	{"notion", "Notion", "update_database", `databaseId=DATABASE, title="Chores"`, ""},
	{"notion", "Notion", "retrieve_database_content", `databaseId=DATABASE`, ""},
	{"notion", "Notion", "duplicate_page", `pageId=PAGE, parentId=PAGE`, ""},
	{"notion", "Notion", "create_page_from_database", `parentDatabaseId=DATABASE, title="Row"`, ""},
}

// Every tool of every type, from Python in the sandbox, with the generated SDK:
// what the program sees is what is recorded, told and billed.
func TestEveryToolOfEveryType(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	for _, d := range databasetest.Of(t) {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			testEveryTool(t, openGateway(t, d))
		})
	}
}

func testEveryTool(t *testing.T, g *gateway) {
	t.Helper()
	g.connect()
	canvas := g.canvas("everything")
	file := g.store(canvas, "note.txt", "hello")
	code := &strings.Builder{}
	fmt.Fprintf(code, "import json, importlib\nresults = {}\ndrawn = {'fileId': %q}\n", file.FileID)
	for name, id := range map[string]string{"PAGE": vendorstest.NotionPage, "DATABASE": vendorstest.NotionDatabase, "ROW": vendorstest.NotionRow, "USER": vendorstest.NotionUser} {
		fmt.Fprintf(code, "%s = %q\n", name, id)
	}
	code.WriteString("def block():\n    return '00000000-0000-4000-9000-000000000002'\n")
	for _, c := range everyTool {
		fmt.Fprintf(code, "r = getattr(importlib.import_module('refly_tools.%s'), '%s').%s(%s)\nresults[%q] = r.get('data')\nprint(json.dumps([%q, r]))\n", c.module, c.class, c.tool, c.arguments, c.tool, c.tool)
	}
	o := g.run(map[string]any{"canvasId": canvas, "code": code.String()})
	require.Equal(t, "completed", o.Status, o.Stderr)
	lines := strings.Split(strings.TrimSpace(o.Stdout), "\n")
	require.Len(t, lines, len(everyTool))
	require.Len(t, o.ToolCalls, len(everyTool))

	events := map[string]int{}
	shown := map[string]json.RawMessage{}
	told, _ := g.watch(t.Context(), g.key, o.ResultID, 0, 10_000)
	for _, e := range told {
		events[e.Name+" "+e.Meta.ToolCallID]++
		if e.Name == "tool_call_end" {
			shown[e.Meta.ToolCallID] = e.Result.Output
		}
	}
	called := map[string]bool{}
	for i, c := range everyTool {
		var line []json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(lines[i]), &line))
		var result struct{ Status, Error string }
		require.NoError(t, json.Unmarshal(line[1], &result))
		require.Equal(t, "success", result.Status, "%s: %s\n%s", c.tool, line[1], g.log)
		call := o.ToolCalls[i]
		require.Equal(t, c.tool, call.ToolName)
		called[call.ToolsetKey+"."+c.tool] = true

		// The record is what the program saw.
		record := g.send(g.key, "GET", "/v1/tool/call/result?toolCallId="+call.CallID, nil)
		var recorded struct {
			Result struct {
				Status, Error string
				Output        json.RawMessage
			}
		}
		require.NoError(t, json.Unmarshal(record.body.Data, &recorded))
		require.Equal(t, "completed", recorded.Result.Status)
		require.JSONEq(t, string(line[1]), string(recorded.Result.Output), c.tool)

		// It was told once that it began, and once that it ended.
		require.Equal(t, 1, events["tool_call_start "+call.CallID], c.tool)
		require.Equal(t, 1, events["tool_call_end "+call.CallID], c.tool)
		require.JSONEq(t, string(line[1]), string(shown[call.CallID]), c.tool)

		// And billed once, at its price.
		n := g.count("SELECT count(*) FROM credit_usages WHERE tool_call_id = ?", call.CallID)
		if c.cost == "" {
			require.Zero(t, n, c.tool)
			continue
		}
		require.Equal(t, 1, n, c.tool)
		require.Equal(t, 1, g.count("SELECT count(*) FROM credit_usages WHERE tool_call_id = ? AND amount = "+c.cost+" AND due_amount = "+c.cost, call.CallID), c.tool)
	}

	// No tool that is exported was left out; fail always fails.
	var sets []struct {
		Key   string
		Tools []struct{ Name string }
	}
	require.NoError(t, json.Unmarshal(g.send(g.key, "GET", "/v1/tool/toolset/exportDefinitions", nil).body.Data, &sets))
	require.Len(t, sets, 7)
	for _, set := range sets {
		for _, tool := range set.Tools {
			require.True(t, called[set.Key+"."+tool.Name] || tool.Name == "fail", "%s.%s is not called", set.Key, tool.Name)
		}
	}

	// Files came in by id, and went into the canvas.
	names := []string{}
	for _, f := range g.files(canvas) {
		names = append(names, f.Name)
	}
	slices.Sort(names)
	require.Equal(t, []string{"holdings.csv", "note.txt", "report.pdf"}, names)
	require.Contains(t, o.Stdout, `"s3key": "5d41402abc4b2a76b9719d911017c592-note.txt"`)
	require.Equal(t, "hello", string(g.composio.File("5d41402abc4b2a76b9719d911017c592-note.txt")))

	// A tool that failed inside a success is a failure, and free.
	a := g.send(g.key, "POST", "/v1/tool/execute", `{"toolsetKey":"gmail","toolName":"GMAIL_SEND_EMAIL","arguments":{"to":"nobody","body":"x","file_name_title":"x"}}`)
	require.Contains(t, a.raw, `"status":"error","data":{"status":550},"error":"Invalid To header","errorCode":"TOOL_FAILED"`)
	a = g.send(g.another("ben"), "POST", "/v1/tool/execute", `{"toolsetKey":"gmail","toolName":"GMAIL_SEND_EMAIL","arguments":{"to":"a","body":"x"}}`)
	require.Contains(t, a.raw, "OAuth connection not authorized for toolset: gmail.")
	// A file is the caller's own or public, never one of the server's, and never
	// what a private address answers.
	sent := g.composio.Requests("POST /api/v3/tools/execute")
	for value, says := range map[string]string{
		"/etc/passwd": "Provide a valid Drive fileId", "file:///etc/passwd": "Provide a valid Drive fileId", "df-none": "there is no file df-none of yours",
		"http://169.254.169.254/latest": "cannot be fetched",
	} {
		a := g.send(g.key, "POST", "/v1/tool/execute", `{"toolsetKey":"gmail","toolName":"GMAIL_SEND_EMAIL","arguments":{"to":"a@b.c","body":"x","attachment":"`+value+`"}}`)
		require.Contains(t, a.raw, "INVALID_ARGUMENTS", value)
		require.Contains(t, a.raw, says)
	}
	require.Equal(t, sent, g.composio.Requests("POST /api/v3/tools/execute"))
	a = g.send(g.key, "POST", "/v1/tool/execute", `{"toolsetKey":"gmail","toolName":"GMAIL_SEND_EMAIL","arguments":{"to":"a@b.c","body":"x","attachment":"`+g.composio.Store("public", []byte("public"))+`"}}`)
	require.Contains(t, a.raw, "4c9184f37cff01bcdc32dc486ec36961", "what a URL answers is uploaded")
	for _, secret := range []string{composiotest.Key, vendorstest.Token, "shared-vantage-key"} {
		require.NotContains(t, g.log.String()+o.Stdout, secret)
	}
}
