package app_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/toolset/mark"
)

var update = flag.Bool("update", false, "write the golden files anew")

// document is the OpenAPI document of a server.
func document(t *testing.T, s *instance) *openapi3.T {
	t.Helper()
	a := s.send("", "GET", "/openapi.json", nil)
	require.Equal(t, 200, a.status)
	doc, err := openapi3.NewLoader().LoadFromData([]byte(a.raw))
	require.NoError(t, err)
	return doc
}

// A browser sends what an operation reads only if it may: without it, the page
// sees no more than "Failed to fetch".
func TestPagesMaySendEveryHeaderThatIsRead(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite), "ORIGIN=https://app.test")
	a := s.send("", "OPTIONS", "/v1/tool/execute", nil, "Origin", "https://app.test", "Access-Control-Request-Method", "POST")
	require.Equal(t, 204, a.status)
	allowed := strings.Split(strings.ToLower(a.header.Get("Access-Control-Allow-Headers")), ", ")
	methods := strings.Split(a.header.Get("Access-Control-Allow-Methods"), ", ")
	read := []string{"authorization", "x-api-key", "content-type", "last-event-id"}
	for path, item := range document(t, s).Paths.Map() {
		for method, op := range item.Operations() {
			require.Contains(t, methods, method, path)
			for _, p := range op.Parameters {
				if p.Value.In == "header" {
					read = append(read, strings.ToLower(p.Value.Name))
				}
			}
		}
	}
	require.Contains(t, read, "x-ptc-call-id")
	require.Contains(t, read, "x-refly-result-id")
	require.Contains(t, read, "idempotency-key")
	for _, name := range read {
		require.Contains(t, allowed, name)
	}
}

func TestOpenAPIDocument(t *testing.T) {
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite), "ENDPOINT=https://portico.test")
	a := s.send("", "GET", "/openapi.json", nil)
	var pretty bytes.Buffer
	require.NoError(t, json.Indent(&pretty, []byte(a.raw), "", "  "))
	pretty.WriteByte('\n')
	const golden = "testdata/openapi.json"
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(golden, pretty.Bytes(), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), pretty.String(), "the API changed; review the difference and run with -update")
}

// operation is one route of the document.
type operation struct {
	method, path string
	*openapi3.Operation
}

func operations(doc *openapi3.T) []operation {
	var list []operation
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			list = append(list, operation{method, strings.NewReplacer("{app}", "gmail", "{keyId}", "ak-none", "{resultId}", "ar-none", "{callId}", "ptc:none", "{fileId}", "df-none", "{name}", "x", "{canvasId}", "c-none", "{key}", "nothing", "{uid}", "u-none", "{session}", strings.Repeat("s", 21), "{file}", strings.Repeat("f", 21)).Replace(path), op})
		}
	}
	slices.SortFunc(list, func(a, b operation) int { return strings.Compare(a.path+a.method, b.path+b.method) })
	return list
}

// rows counts what every table holds.
func rows(s *instance) map[string]int {
	counts := map[string]int{}
	for _, table := range []string{
		"users", "user_api_keys", "action_results", "action_messages", "tool_call_results", "run_events", "canvases", "credit_usages",
		"credit_recharges", "credit_debts", "toolsets", "toolset_inventory", "tool_methods", "code_sessions", "code_files", "code_executions", "drive_files", "composio_connections", "audit_events", "credit_holds", "mcp_servers", "mcp_credentials", "mcp_authorizations", "toolset_grants", "toolset_authorizations",
	} {
		counts[table] = s.count("SELECT count(*) FROM " + table)
	}
	counts["audit_events"] -= s.count("SELECT count(*) FROM audit_events WHERE action LIKE 'ask.%'") // whatever becomes of them
	return counts
}

// Every operation that takes a body refuses what is not one, before it writes
// anything.
func TestBadBodiesAtEveryOperation(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		before := rows(s)
		tried := 0
		for _, op := range operations(document(t, s)) {
			if op.RequestBody == nil || op.RequestBody.Value.Content["application/json"] == nil {
				continue
			}
			tried++
			for name, c := range map[string]struct {
				body   string
				status []int
			}{
				"not JSON":      {`{"a":`, []int{400}},
				"text":          {`hello`, []int{400}},
				"a list":        {`[]`, []int{400}},
				"a number":      {`1`, []int{400}},
				"null":          {`null`, []int{400}},
				"nothing":       {``, []int{400}},
				"no fields":     {`{}`, []int{400}},
				"two values":    {`{} {}`, []int{400}},
				"wrong types":   {`{"code":1,"language":2,"toolsetKey":3,"toolName":[],"name":{},"title":7,"apiKey":[]}`, []int{400}},
				"unknown keys":  {`{"no-such-key":true}`, []int{400}},
				"deep":          {strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000), []int{400}},
				"20 MB":         {`{"name":"` + strings.Repeat("x", 20<<20) + `"}`, []int{413}},
				"invalid UTF-8": {"{\"toolsetKey\":\"\xff\",\"toolName\":\"\xff\",\"code\":\"\xff\",\"language\":\"python\",\"name\":\"\xff\",\"title\":\"\xff\",\"apiKey\":\"\xff\"}", []int{400}},
				"NUL":           {`{"toolsetKey":"\u0000","toolName":"\u0000","code":"\u0000","language":"python","name":"\u0000","title":"\u0000"}`, []int{400}},
			} {
				if op.path == "/v1/auth/cli/api-key/validate" && slices.Contains([]string{"invalid UTF-8"}, name) {
					c.status = []int{200, 400} // any text may be asked about
				}
				if op.path == "/v1/admin/limits/u-none" && len(c.body) < 1000 {
					c.status = []int{400, 404} // every field is optional, and there is no such user
				}
				if slices.Contains([]string{"/v1/canvas/create", "/v1/action/register"}, op.path) && slices.Contains([]string{"no fields", "unknown keys"}, name) {
					continue // every field is optional
				}
				if slices.Contains([]string{"/v1/sandbox/execute", "/v1/action/register", "/v1/exec", "/v1/exec/programmatic", "/v1/messages", "/v1/messages/count_tokens"}, op.path) && name == "20 MB" {
					c.status = []int{400, 413} // takes long programs
				}
				openAI := slices.Contains([]string{"/v1/responses", "/v1/chat/completions"}, op.path) // which have errors of their own form
				if openAI && name == "20 MB" {
					c.status = []int{400} // takes images
				}
				a := s.send(s.key, op.method, op.path, c.body)
				require.Contains(t, c.status, a.status, "%s %s: %s: %.300s", op.method, op.path, name, a.raw)
				if a.status != 200 && op.path == "/oauth/register" { // which has the errors of OAuth
					require.Contains(t, a.raw, `"error_description":"`)
					require.Less(t, len(a.raw), 5000)
				} else if openAI {
					require.Contains(t, a.raw, `{"error":{"message":"`)
					require.Less(t, len(a.raw), 5000)
				} else if a.status != 200 {
					require.False(t, a.body.Success)
					require.NotEmpty(t, a.body.ErrCode)
					require.NotEmpty(t, a.body.ErrMsg)
					require.Less(t, len(a.raw), 5000, "the answer repeats the request")
				}
			}
			a := s.send(s.key, op.method, op.path, `{}`, "Content-Type", "text/xml")
			require.Equal(t, 415, a.status, op.path)
		}
		require.GreaterOrEqual(t, tried, 5)
		require.Equal(t, before, rows(s), "a refused request wrote something")
	})
}

func TestCredentialsAtEveryOperation(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite))
	public := []string{
		"/", "/healthz", "/readyz", "/metrics", "/docs", "/v1/health", "/v1/auth/cli/api-key/validate", "/v1/auth/session", "/v1/auth/signup", "/v1/auth/ways", "/v1/auth/oidc/start", "/v1/auth/oidc/callback", "/v1/drive/file/shared", "/v1/mcp/connect/x", "/v1/mcp/oauth/callback", "/v1/mcp/oauth/client.json", "/v1/tool/connect/x", "/v1/tool/oauth/callback/x",
		"/.well-known/oauth-protected-resource/mcp/oauth", "/.well-known/oauth-authorization-server/oauth", "/oauth/register", "/oauth/token", "/oauth/revoke",
	}
	for _, op := range operations(document(t, s)) {
		if slices.Contains(public, op.path) {
			continue
		}
		for name, headers := range map[string][]string{
			"none":             nil,
			"unknown key":      {"X-API-Key", "rf_" + strings.Repeat("0", 32)},
			"empty bearer":     {"Authorization", "Bearer "},
			"not a token":      {"Authorization", "Bearer abc"},
			"basic":            {"Authorization", "Basic YTpi"},
			"a bad key first":  {"X-API-Key", "rf_x", "Authorization", "Bearer " + s.key},
			"a token of none":  {"Authorization", "Bearer eyJhbGciOiJub25lIn0.eyJ1aWQiOiJ1LWFkbWluIn0."},
			"key in the query": {"X-Nothing", "x"},
		} {
			a := s.send("", op.method, op.path+"?api_key="+s.key, `{}`, headers...)
			require.Equal(t, 401, a.status, "%s %s with %s: %s", op.method, op.path, name, a.raw)
			if slices.Contains(op.Tags, "openai") || op.OperationID == "get-model" {
				require.Contains(t, a.raw, `{"error":{"message":"`)
				continue
			}
			require.Equal(t, "E0012", a.body.ErrCode)
		}
	}
}

// What the server answers is what its document says.
func TestAnswersAreAsDocumented(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	_, env := script(t, "- output: [{text: Hello.}]")
	s := serve(t, databasetest.URL(t, database.SQLite), env...)
	_, err := s.app.Flat.Service.Mark(t.Context(), mark.Mark{Toolset: "demo", Tool: "get_weather"})
	require.NoError(t, err)
	doc := document(t, s)
	require.NoError(t, doc.Validate(t.Context()))
	doc.Servers = nil
	router, err := gorillamux.NewRouter(doc)
	require.NoError(t, err)
	o := s.run(map[string]any{"code": "from refly_tools.demo import Demo\nprint(Demo.fail(file_name_title='x'), Demo.wait(file_name_title='x', ms=1))"})
	call := o.ToolCalls[0].CallID
	up := s.upload("/upload", map[string]string{"a.txt": "a"}).uploaded(t)
	session, file := up.SessionID, up.Files[0].FileID
	canvas := s.canvas("files")
	stored := s.store(canvas, "t.csv", "a\n1\n")
	seen := map[string]bool{}
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"GET", "/healthz", "", 200},
		{"POST", "/tool_call", `{"tool":"get_weather","input":{"city":"Oslo"}}`, 200},
		{"POST", "/tool_call", `{"tool":"nothing"}`, 404},
		{"POST", "/tool_call", `{"tool":"get_weather","input":{}}`, 400},
		{"POST", "/v1/knowledge/documents", `{"source":"a.md","text":"# A\nThe lantern is red."}`, 200},
		{"POST", "/v1/knowledge/documents", `{"source":"a.md"}`, 400},
		{"POST", "/v1/knowledge/documents/file", `{"fileId":"` + s.store(canvas, "n.md", "# N\nA note.").FileID + `"}`, 200},
		{"POST", "/v1/knowledge/documents/file", `{"fileId":"df-none"}`, 404},
		{"POST", "/v1/knowledge/documents/upload", "--x\r\nContent-Disposition: form-data; name=file; filename=b.md\r\n\r\nThe lamp.\r\n--x--\r\n", 200},
		{"POST", "/v1/knowledge/documents/upload", "--x\r\nContent-Disposition: form-data; name=title\r\n\r\n" + strings.Repeat("t", 501) + "\r\n--x\r\nContent-Disposition: form-data; name=file; filename=b.md\r\n\r\nThe lamp.\r\n--x--\r\n", 400},
		{"GET", "/v1/knowledge/documents", "", 200},
		{"GET", "/v1/knowledge/collections", "", 200},
		{"POST", "/v1/knowledge/search", `{"query":"lantern"}`, 200},
		{"POST", "/v1/knowledge/search", `{"query":"lantern","collection":"none"}`, 404},
		{"POST", "/v1/knowledge/ask", `{"question":"What colour is the lantern?"}`, 200},
		{"DELETE", "/v1/knowledge/documents?source=a.md", "", 200},
		{"DELETE", "/v1/knowledge/documents?source=a.md", "", 404},
		{"DELETE", "/v1/knowledge/collections/documents", "", 200},
		{"DELETE", "/v1/knowledge/collections/documents", "", 404},
		{"GET", "/readyz", "", 200},
		{"GET", "/metrics", "", 200},
		{"GET", "/docs", "", 200},
		{"GET", "/", "", 200},
		{"POST", "/v1/auth/cli/api-key", `{"name":"x","expiresInDays":1}`, 200},
		{"POST", "/v1/auth/cli/api-key", `{"name":""}`, 400},
		{"GET", "/v1/auth/cli/api-key", "", 200},
		{"PATCH", "/v1/auth/cli/api-key/none", `{"name":"y"}`, 404},
		{"PUT", "/v1/auth/cli/api-key/none/model", `{"model":""}`, 404},
		{"PUT", "/v1/auth/cli/api-key/none/model", `{"model":"none"}`, 400},
		{"DELETE", "/v1/auth/cli/api-key/none", "", 404},
		{"POST", "/v1/auth/cli/api-key/validate", `{"apiKey":"rf_x"}`, 200},
		{"GET", "/v1/auth/audit", "", 200},
		{"POST", "/v1/auth/cli/api-key", `{"name":"x","scopes":["write"]}`, 400},
		{"GET", "/v1/auth/me", "", 200},
		{"POST", "/v1/auth/session", `{"apiKey":"` + s.key + `"}`, 200},
		{"POST", "/v1/auth/session", `{"code":"none"}`, 401},
		{"POST", "/v1/auth/session", `{"code":"none","apiKey":"none"}`, 400},
		{"DELETE", "/v1/auth/session", "", 200},
		{"GET", "/v1/auth/sessions", "", 200},
		{"GET", "/v1/auth/ways", "", 200},
		{"GET", "/.well-known/oauth-protected-resource/mcp/oauth", "", 200},
		{"GET", "/.well-known/oauth-authorization-server/oauth", "", 200},
		{"POST", "/oauth/register", `{"redirect_uris":["https://app.example.com/back"]}`, 201},
		{"POST", "/oauth/register", `{"redirect_uris":["http://app.example.com/back"]}`, 400},
		{"POST", "/oauth/token", "grant_type=refresh_token&refresh_token=none&client_id=none", 400},
		{"POST", "/oauth/revoke", "token=none", 200},
		{"POST", "/oauth/revoke", "token=", 400},
		{"POST", "/mcp/oauth", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, 200},
		{"GET", "/v1/auth/apps", "", 200},
		{"DELETE", "/v1/auth/apps/none", "", 404},
		{"GET", "/v1/auth/apps/request?responseType=code&clientId=none&redirectUri=x&codeChallengeMethod=S256&codeChallenge=" + challenge(), "", 404},
		{"POST", "/v1/auth/apps/request", `{"responseType":"code","clientId":"none","redirectUri":"x","codeChallengeMethod":"S256","codeChallenge":"` + challenge() + `","allow":true}`, 404},
		{"GET", "/v1/auth/oidc/start", "", 404},
		{"GET", "/v1/auth/oidc/callback", "", 404},
		{"POST", "/v1/auth/signup", `{"name":"x","password":"correct horse"}`, 403},
		{"POST", "/v1/auth/password", `{"password":"short"}`, 400},
		{"POST", "/v1/auth/password", `{"password":"correct horse"}`, 200},
		{"POST", "/v1/auth/password", `{"old":"wrong horse","password":"correct horse"}`, 403},
		{"POST", "/v1/admin/invites", "", 409},
		{"GET", "/v1/admin/users?q=adm", "", 200},
		{"POST", "/v1/admin/users", `{"name":"zoe"}`, 200},
		{"POST", "/v1/admin/users", `{"name":"zoe"}`, 409},
		{"GET", "/v1/admin/users/u-none", "", 404},
		{"PATCH", "/v1/admin/users/u-none", `{"disabled":true}`, 404},
		{"PATCH", "/v1/admin/users/u-none", `{}`, 400},
		{"POST", "/v1/admin/users/u-none/credits", `{"amount":1}`, 404},
		{"DELETE", "/v1/admin/users/u-none", "", 404},
		{"DELETE", "/v1/auth/sessions/none", "", 404},
		{"POST", "/v1/action/" + o.ResultID + "/ticket", "", 200},
		{"POST", "/v1/action/none/ticket", "", 404},
		{"POST", "/v1/tool/composio/gmail/authorize", "", 503},
		{"POST", "/v1/tool/authorizations/demo/connect", "", 400},
		{"POST", "/v1/tool/authorizations/none/connect", "", 404},
		{"POST", "/v1/tool/authorizations/demo/confirm", `{"code":"BCDF-GHJK"}`, 404},
		{"POST", "/v1/tool/authorizations/demo/disconnect", "", 404},
		{"GET", "/v1/tool/connect/demo", "", 200},
		{"POST", "/v1/tool/connect/demo", "", 401},
		{"GET", "/v1/tool/oauth/callback/demo?state=none", "", 404},
		{"GET", "/v1/tool/composio/gmail/status", "", 503},
		{"POST", "/v1/tool/composio/gmail/revoke", "", 404},
		{"GET", "/v1/credit/balance", "", 200},
		{"GET", "/v1/credit/usage", "", 200},
		{"GET", "/v1/credit/result?resultId=" + o.ResultID, "", 200},
		{"GET", "/v1/credit/recharge", "", 200},
		{"GET", "/v1/credit/canvas?canvasId=" + canvas, "", 200},
		{"GET", "/v1/credit/commission?canvasId=" + canvas, "", 200},
		{"GET", "/v1/credit/execution?executionId=we-none", "", 404},
		{"GET", "/v1/cli/tool-call?resultId=" + o.ResultID, "", 200},
		{"GET", "/v1/action/" + o.ResultID + "/programs", "", 200},
		{"GET", "/v1/action/ar-none/programs", "", 404},
		{"GET", "/v1/cli/tool-call/" + call + "?sanitizeForDisplay=true", "", 200},
		{"GET", "/v1/cli/tool-call/none", "", 404},
		{"GET", "/v1/credit/report?from=2026-01-01T00:00:00Z", "", 200},
		{"GET", "/v1/ptc/decision?toolsets=demo", "", 200},
		{"GET", "/v1/ptc/context", "", 200},
		{"GET", "/v1/models", "", 200},
		{"GET", "/v1/models/none", "", 404},
		{"POST", "/v1/responses", `{"input":"Hi"}`, 200},
		{"POST", "/v1/responses", `{"input":[]}`, 400},
		{"GET", "/v1/responses/resp_none", "", 404},
		{"GET", "/v1/responses/resp_none/input_items", "", 404},
		{"DELETE", "/v1/responses/resp_none", "", 404},
		{"POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"Hi"}]}`, 200},
		{"POST", "/v1/chat/completions", `{"messages":[]}`, 400},
		{"POST", "/v1/messages", `{"max_tokens":9,"messages":[{"role":"user","content":"Hello"}]}`, 200},
		{"POST", "/v1/messages", `{"max_tokens":9,"stream":true,"messages":[{"role":"user","content":"Hello"}]}`, 200},
		{"POST", "/v1/messages", `{"max_tokens":9,"messages":[]}`, 400},
		{"POST", "/v1/messages", `{"max_tokens":9,"model":"none","messages":[{"role":"user","content":"Hello"}]}`, 404},
		{"POST", "/v1/messages/count_tokens", `{"messages":[{"role":"user","content":"Hello"}]}`, 200},
		{"GET", "/anthropic/v1/models", "", 200},
		{"GET", "/anthropic/v1/models/scripted", "", 200},
		{"GET", "/anthropic/v1/models/none", "", 404},
		{"POST", "/anthropic/v1/files", "--x\r\nContent-Disposition: form-data; name=file; filename=b.md\r\n\r\nThe lamp.\r\n--x--\r\n", 200},
		{"GET", "/anthropic/v1/files?limit=1", "", 200},
		{"GET", "/anthropic/v1/files/file_" + session + file, "", 200},
		{"GET", "/anthropic/v1/files/file_" + session + file + "/content", "", 200},
		{"GET", "/anthropic/v1/files/none", "", 404},
		{"DELETE", "/anthropic/v1/files/none", "", 404},
		{"GET", "/v1/tool/toolset/exportDefinitions", "", 200},
		{"GET", "/v1/tool/toolset/exportDefinitions?toolsetKey=demo,nothing&partial=true", "", 200},
		{"GET", "/v1/tool/toolset/exportDefinitions?toolsetKeys=nothing", "", 404},
		{"GET", "/v1/tool/toolset/exportDefinitions?toolsetKeys=,", "", 400},
		{"GET", "/v1/tool/toolset/list", "", 200},
		{"GET", "/v1/tool/inventory/list", "", 200},
		{"GET", "/v1/tool/list", "", 200},
		{"GET", "/v1/tool/list?includeUnauthorized=true", "", 200},
		{"GET", "/v1/tool/list?isGlobal=maybe", "", 400},
		{"GET", "/v1/tool/user/list", "", 200},
		{"POST", "/v1/mcp/servers", `{"name":"docs","url":"https://127.0.0.1.invalid/mcp","headers":{"Authorization":"Bearer {{TOKEN}}"}}`, 200},
		{"POST", "/v1/mcp/servers", `{"name":"docs","url":"https://127.0.0.1.invalid/mcp"}`, 409},
		{"POST", "/v1/mcp/servers", `{"name":"near","url":"https://127.0.0.1/mcp"}`, 403},
		{"POST", "/v1/mcp/servers", `{"name":"Docs","url":"https://127.0.0.1.invalid/mcp"}`, 400},
		{"GET", "/v1/mcp/servers", "", 200},
		{"GET", "/v1/mcp/servers/docs", "", 200},
		{"GET", "/v1/mcp/servers/docs/tools", "", 403},
		{"PUT", "/v1/mcp/servers/docs/values", `{"values":{"TOKEN":"x"}}`, 200},
		{"PUT", "/v1/mcp/servers/docs/values", `{"values":{"NOTHING":"x"}}`, 400},
		{"GET", "/v1/mcp/servers/docs/tools", "", 503},
		{"POST", "/v1/mcp/servers/docs/test", "", 200},
		{"POST", "/v1/mcp/servers/docs/connect", "", 400},
		{"PATCH", "/v1/mcp/servers/docs", `{"oauth":true,"headers":{}}`, 200},
		{"POST", "/v1/mcp/servers/docs/connect", "", 503},
		{"POST", "/v1/mcp/servers/docs/confirm", `{"code":"BCDF-GHJK"}`, 404},
		{"POST", "/v1/mcp/servers/docs/disconnect", "", 404},
		{"GET", "/v1/mcp/connect/docs", "", 200},
		{"POST", "/v1/mcp/connect/docs", "", 401},
		{"PATCH", "/v1/mcp/servers/docs", `{}`, 400},
		{"PUT", "/v1/mcp/servers/docs", `{"url":"https://127.0.0.2.invalid/mcp"}`, 200},
		{"PUT", "/v1/mcp/servers/docs", `{}`, 400},
		{"PUT", "/v1/mcp/servers/none", `{"url":"https://127.0.0.2.invalid/mcp"}`, 404},
		{"GET", "/v1/mcp/oauth/client.json", "", 200},
		{"GET", "/v1/mcp/oauth/callback?state=none", "", 404},
		{"DELETE", "/v1/mcp/servers/docs", "", 200},
		{"DELETE", "/v1/mcp/servers/docs", "", 404},
		{"POST", "/v1/tool/toolset/create", `{"name":"Demo","key":"demo"}`, 200},
		{"POST", "/v1/tool/toolset/create", `{"name":"Demo","key":"demo"}`, 409},
		{"POST", "/v1/tool/toolset/create", `{"name":"x","key":"nothing"}`, 404},
		{"POST", "/v1/tool/toolset/update", `{"toolsetId":"ts-none","name":"x"}`, 404},
		{"POST", "/v1/tool/toolset/delete", `{"toolsetId":"ts-none"}`, 404},
		{"POST", "/v1/canvas/create", `{"title":"x"}`, 200},
		{"GET", "/v1/canvas/list", "", 200},
		{"GET", "/v1/canvas/" + canvas, "", 200},
		{"GET", "/v1/canvas/none", "", 404},
		{"PATCH", "/v1/canvas/" + canvas, `{"title":"y"}`, 200},
		{"PATCH", "/v1/canvas/none", `{"title":"y"}`, 404},
		{"DELETE", "/v1/canvas/" + canvas, "", 409},
		{"DELETE", "/v1/canvas/none", "", 404},
		{"GET", "/v1/drive/file/preview/" + stored.FileID, "", 200},
		{"GET", "/v1/drive/file/preview/none", "", 404},
		{"GET", "/v1/limits", "", 200},
		{"GET", "/v1/credit/report?by=day&tz=Europe/Berlin", "", 200},
		{"GET", "/v1/credit/report?by=tool", "", 200},
		{"GET", "/v1/credit/report?by=year", "", 400},
		{"GET", "/v1/tool/toolset/demo", "", 200},
		{"GET", "/v1/tool/toolset/nothing", "", 404},
		{"GET", "/v1/admin/ptc/decision?uid=u-none&toolsets=demo", "", 200},
		{"GET", "/v1/admin/ptc/decision", "", 400},
		{"GET", "/v1/admin/ptc/policy", "", 200},
		{"GET", "/v1/admin/toolsets", "", 200},
		{"GET", "/v1/admin/limits", "", 200},
		{"GET", "/v1/admin/limits/usual", "", 200},
		{"PUT", "/v1/admin/limits/u-none", `{"day":5}`, 404},
		{"GET", "/v1/admin/limits/u-none", "", 200},
		{"GET", "/v1/admin/plans", "", 200},
		{"GET", "/v1/admin/audit?asked=true", "", 200},
		{"GET", "/v1/admin/sandbox?probe=true", "", 200},
		{"GET", "/v1/admin/runs", "", 200},
		{"GET", "/v1/admin/status", "", 200},
		{"GET", "/v1/action/result?resultId=" + o.ResultID, "", 200},
		{"GET", "/v1/action/result?resultId=none", "", 404},
		{"GET", "/v1/action/list", "", 200},
		{"GET", "/v1/action/none/events", "", 404},
		{"POST", "/v1/tool/execute", `{"toolsetKey":"demo","toolName":"wait","arguments":{"ms":0,"file_name_title":"x"}}`, 200},
		{"POST", "/v1/tool/execute", `{"toolsetKey":"demo","toolName":"nothing"}`, 200},
		{"POST", "/llm_query", `{"prompt":"Hi"}`, 403},
		{"GET", "/v1/sandbox/stubs?callbackUrl=http://127.0.0.1:5800", "", 200},
		{"GET", "/v1/sandbox/stubs?callbackUrl=x", "", 400},
		{"GET", "/v1/tool/call/result?toolCallId=" + call, "", 200},
		{"GET", "/v1/tool/call/result?toolCallId=none", "", 404},
		{"GET", "/v1/tool/call/output?toolCallId=" + call, "", 200},
		{"GET", "/v1/tool/call/file?toolCallId=" + call + "&name=x", "", 404},
		{"GET", "/v1/tool/calls?limit=3", "", 200},
		{"POST", "/v1/sandbox/execute", `{"code":"print(1)","language":"python"}`, 200},
		{"POST", "/v1/exec", `{"code":"open('x.txt','w').write('x')","lang":"py"}`, 200},
		{"POST", "/v1/exec", `{"code":"x","lang":"fortran"}`, 400},
		{"POST", "/v1/exec/programmatic", `{"code":"print(await ask(q=1))","tools":[{"name":"ask"}]}`, 200},
		{"POST", "/v1/exec/programmatic", `{"code":"print(1)"}`, 200},
		{"POST", "/v1/exec/programmatic", `{"code":"while True: pass","timeout":1000}`, 408},
		{"POST", "/v1/exec/programmatic", `{"continuation_token":"x"}`, 400},
		{"POST", "/v1/exec/programmatic/cancel", `{"request_id":"none"}`, 200},
		{"POST", "/v1/upload", "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\nhi\r\n--x--\r\n", 200},
		{"POST", "/v1/upload/batch", "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\nhi\r\n--x--\r\n", 200},
		{"GET", "/v1/files/" + session, "", 200},
		{"GET", "/v1/files/" + session + "?detail=simple", "", 200},
		{"GET", "/v1/files/" + session + "?detail=summary", "", 200},
		{"GET", "/v1/files/" + session + "?detail=normalized", "", 200},
		{"GET", "/v1/files/" + session + "?detail=other", "", 400},
		{"GET", "/v1/files/short", "", 400},
		{"GET", "/v1/sessions/" + session + "/objects/" + file, "", 200},
		{"GET", "/v1/download/" + session + "/" + file, "", 200},
		{"DELETE", "/v1/files/" + session + "/" + file, "", 200},
		{"DELETE", "/v1/files/" + session + "/" + file, "", 404},
		{"DELETE", "/v1/sessions/" + session + "/objects/" + file, "", 404},
		{"GET", "/v1/health", "", 200},
		{"POST", "/v1/drive/file/upload", driveForm(canvas, "x.csv", "a,b\r\n1,2\r\n3\r\n"), 200},
		{"POST", "/v1/drive/file/upload", driveForm("c-none", "x.txt", "x"), 404},
		{"POST", "/v1/drive/file/upload", driveForm("", "x.txt", "x"), 400},
		{"POST", "/v1/drive/file/upload", driveForm(canvas, "x.csv", ""), 400},
		{"GET", "/v1/drive/file/list?canvasId=" + canvas, "", 200},
		{"GET", "/v1/drive/file/content/" + stored.FileID, "", 200},
		{"GET", "/v1/drive/file/content/" + stored.FileID + "/t.parquet", "", 200},
		{"GET", "/v1/drive/file/content/df-none", "", 404},
		{"POST", "/v1/drive/file/presign", `{"fileId":"` + stored.FileID + `"}`, 200},
		{"POST", "/v1/drive/file/presign", `{"fileId":"df-none"}`, 404},
		{"GET", "/v1/drive/file/shared?token=x", "", 401},
		{"POST", "/v1/drive/file/delete", `{"fileId":"` + stored.FileID + `"}`, 200},
		{"POST", "/v1/drive/file/delete", `{"fileId":"` + stored.FileID + `"}`, 404},
		{"POST", "/v1/skill/invoke", `{"query":"Hi"}`, 200},
		{"POST", "/v1/skill/invoke", `{"query":""}`, 400},
		{"POST", "/v1/skill/streamInvoke", `{"query":"Hi"}`, 200},
		{"POST", "/v1/skill/streamInvoke", `{"query":""}`, 400},
		{"POST", "/v1/action/register", `{"resultId":"ar-outside","toolCallId":"outside-1","withKey":true}`, 200},
		{"POST", "/v1/action/register", `{"resultId":"` + o.ResultID + `"}`, 409},
		{"POST", "/v1/action/finish", `{"resultId":"ar-outside","toolCallId":"outside-1","status":"finish","output":{"stdout":""}}`, 200},
		{"POST", "/v1/action/finish", `{"resultId":"ar-outside","status":"error","error":"x"}`, 200},
		{"POST", "/v1/action/finish", `{"resultId":"ar-outside","status":"finish"}`, 409},
		{"POST", "/v1/action/abort", `{"resultId":"` + o.ResultID + `"}`, 200},
		{"POST", "/v1/action/abort", `{"resultId":"none"}`, 404},
		{"GET", "/v1/tool/approvals", "", 200},
		{"GET", "/v1/tool/approvals/none", "", 404},
		{"POST", "/v1/tool/call/decide", `{"callId":"none","decision":"allow"}`, 404},
		{"POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, 200},
		{"POST", "/mcp", `{"jsonrpc":"1.0","id":1,"method":"tools/list"}`, 400},
		{"POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, 202},
		{"DELETE", "/mcp", "", 404},
		{"DELETE", "/mcp/oauth", "", 404},
		{"GET", "/v1/tool/approvals/permissions", "", 200},
		{"DELETE", "/v1/tool/approvals/permissions/none", "", 404},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, s.url+c.path, strings.NewReader(c.body))
		require.NoError(t, err)
		r.Header.Set("X-API-Key", s.key)
		if c.body != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		if strings.HasPrefix(c.path, "/oauth/") && !strings.HasPrefix(c.body, "{") {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		if c.method == http.MethodDelete && strings.HasPrefix(c.path, "/mcp") {
			r.Header.Set("Mcp-Session-Id", "none")
		}
		if strings.HasPrefix(c.body, "--x") {
			r.Header.Set("Content-Type", "multipart/form-data; boundary=x")
		}
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, c.status, resp.StatusCode, "%s: %s", c.path, body)
		seen[check(t, router, r, resp, body)] = true
	}
	for _, op := range operations(doc) {
		require.True(t, seen[op.OperationID], "%s is not tried", op.OperationID)
	}
}

// check compares an answer with the document and returns the operation's id.
func check(t *testing.T, router routers.Router, r *http.Request, resp *http.Response, body []byte) string {
	t.Helper()
	asked := r.Clone(r.Context())
	asked.URL.Host, asked.URL.Scheme, asked.Host = "", "", ""
	route, params, err := router.FindRoute(asked)
	require.NoError(t, err, r.URL.Path)
	in := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: asked, PathParams: params, Route: route},
		Status:                 resp.StatusCode, Header: resp.Header,
		Options: &openapi3filter.Options{
			IncludeResponseStatus: true, MultiError: true,
			// The library knows how to look into JSON only.
			ExcludeResponseBody: !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json"),
		},
	}
	if in.Options.ExcludeResponseBody && len(body) > 0 {
		kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
		require.NotNil(t, route.Operation.Responses.Status(resp.StatusCode).Value.Content.Get(kind), "%s: %s", r.URL.Path, kind)
	}
	in.SetBodyBytes(body)
	require.NoError(t, openapi3filter.ValidateResponse(r.Context(), in), "%s: %s", r.URL.Path, body)
	return route.Operation.OperationID
}

func TestAnotherUserFindsNothing(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		ben := s.another("ben")
		o := s.run(map[string]any{"code": "from refly_tools.demo import Demo\nDemo.wait(file_name_title='x', ms=1)"})
		call := o.ToolCalls[0].CallID
		for _, path := range []string{
			"/v1/action/" + o.ResultID + "/events", "/v1/action/result?resultId=" + o.ResultID, "/v1/tool/calls?resultId=" + o.ResultID,
			"/v1/tool/call/result?toolCallId=" + call, "/v1/tool/call/result?toolCallId=" + o.CallID, "/v1/tool/call/output?toolCallId=" + call,
		} {
			a := s.send(ben, "GET", path, nil)
			require.Equal(t, 404, a.status, path)
			absent := s.send(ben, "GET", strings.NewReplacer(o.ResultID, "ar-none", call, "ptc:none", o.CallID, "agent:none").Replace(path), nil)
			require.Equal(t, absent.body.ErrMsg, a.body.ErrMsg, "the answer tells that it exists")
			require.Equal(t, absent.body.ErrCode, a.body.ErrCode)
		}
		require.JSONEq(t, `{"success":true,"data":{"items":[]}}`, s.send(ben, "GET", "/v1/tool/calls", nil).raw)
		for _, headers := range [][]string{{"x-ptc-call-id", o.CallID}, {"x-refly-result-id", o.ResultID}, {"x-refly-canvas-id", "c-none"}} {
			a := s.send(ben, "POST", "/v1/tool/execute", `{"toolsetKey":"demo","toolName":"wait","arguments":{"file_name_title":"x"}}`, headers...)
			require.Equal(t, 403, a.status, a.raw)
		}
		require.Zero(t, s.count(`SELECT count(*) FROM tool_call_results c JOIN users u ON u.uid = c.uid WHERE u.name = 'ben'`))
	})
}

func TestPagesForPeopleAndPrometheus(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite))
	s.run(map[string]any{"code": "pass"})
	a := s.send("", "GET", "/metrics", nil)
	for _, line := range []string{
		"portico_sandbox_programs_total 1", `portico_http_requests_total{method="POST",route="/v1/sandbox/execute",status="200"} 1`,
	} {
		require.Contains(t, a.raw, line)
	}
	require.NotContains(t, a.raw, "u-")
	a = s.send("", "GET", "/docs", nil)
	require.Equal(t, 200, a.status)
	for _, op := range operations(document(t, s)) {
		require.Contains(t, a.raw, `id="`+op.OperationID+`"`)
	}
	require.Contains(t, a.raw, `id="schema-Answer"`)
	require.Contains(t, a.raw, `<pre class="example" data-kind="application/json">{`)
	require.Contains(t, a.raw, "1 to 100 characters")
	require.NotContains(t, a.raw, "<script>", "scripts are files of this server")
	require.NotRegexp(t, `(src|href)="https?:`, a.raw)
	require.Contains(t, a.header.Get("Content-Security-Policy"), "default-src 'none'")
}
