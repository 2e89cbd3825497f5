package app_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/connector/composio/composiotest"
	"github.com/portico-run/portico/modules/connector/vendors/vendorstest"
)

// What nobody but the owner, or nobody at all, may see.
const (
	canaryKey      = "canary+credential/of=the$operator" // characters that are written in several ways
	canaryArgument = "canary-in-an-argument"
	canaryAddress  = "canary-in-an-address"
	canaryResult   = "canary-in-a-result"
	canaryLink     = "canary-in-the-signature-of-a-link"
)

// signedLink leads to a file that cannot be fetched.
const signedLink = "http://127.0.0.1:1/picture.png?X-Amz-Signature=" + canaryLink

// parrot is an upstream that repeats all that it is sent: as a success, as an
// error, as a redirect, or as a task.
func parrot(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	plain, _ := url.QueryUnescape(r.URL.RequestURI())
	headers := map[string]string{}
	for name := range r.Header {
		headers[name] = r.Header.Get(name)
	}
	said := map[string]any{
		"headers": headers, "uri": r.URL.RequestURI(), "plain": plain, "body": string(body), "note": canaryResult,
		"id": "task-1", "status": "completed", "successful": true, "data": map[string]any{"headers": headers, "uri": plain, "body": string(body), "note": canaryResult},
	}
	w.Header().Set("Content-Type", "application/json")
	if strings.Contains(r.URL.Path, "link") {
		said = map[string]any{"file": signedLink, "note": canaryResult}
	}
	w.Header().Set("X-Echo", plain)
	switch {
	case strings.Contains(r.URL.Path, "redirect"):
		w.Header().Set("Location", "http://169.254.169.254/"+r.URL.RequestURI())
		w.WriteHeader(http.StatusTemporaryRedirect)
	case strings.Contains(r.URL.Path, "fail"):
		said["message"] = fmt.Sprint("refused: ", headers, plain)
		w.WriteHeader(http.StatusBadRequest)
	}
	_ = json.NewEncoder(w).Encode(said)
}

// parrots are toolsets whose credential is in each of the places there are.
func parrots(domain string) map[string]string {
	files := map[string]string{}
	for name, credential := range map[string]string{
		"header": "type: header, name: X-Vendor-Key, ", "query": "type: query, name: key, ", "bearer": "type: bearer, ", "basic": "type: basic, username: me, ",
		"automatic": "", "signed": "type: volcengine, name: cn-north-1/cv, username: AKme, ",
	} {
		file := fmt.Sprintf("key: p_%s\nname: P\ndomain: %s\negress: {allow: [127.0.0.0/8]}\ncredential: {%svalue: '%s'}\nbilling: {ok: 1, fail: 1, redirect: 1, task: 1, link: 1}\nmethods:\n", name, domain, credential, canaryKey)
		for _, method := range []string{"ok", "fail", "redirect", "task"} {
			adapter := ""
			if method == "task" {
				adapter = ", adapter: {polling: {statusUrl: '/status/{id}', intervalSeconds: 1}}"
			}
			file += fmt.Sprintf("  - {name: %s, endpoint: '/%s/{where}', request: {type: object, properties: {where: {type: string}, password: {type: string}}}%s}\n", method, method, adapter)
		}
		file += "  - {name: link, endpoint: '/link', request: {type: object, properties: {image: {type: string, isResource: true, format: file}}}, " +
			"response: {type: object, properties: {file: {type: string, isResource: true}}}}\n"
		files[name+".yaml"] = file
	}
	return files
}

// Credentials of upstreams are nowhere. What a user sends and gets is in their
// own records, and not in the log, in numbers, or with other users.
func TestSecretsStayWhereTheyBelong(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(parrot))
	t.Cleanup(upstream.Close)
	g := openGateway(t, database.SQLite, "TOOL_BREAKER_FAILURES=0")
	g.apply(t, parrots(upstream.URL))
	g.connect()
	repeat := func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost || strings.Contains(r.URL.Path, "reader") {
			parrot(w, r)
			return true
		}
		return false
	}
	require.Contains(t, g.send(g.key, "POST", "/v1/tool/execute", `{"toolsetKey":"gmail","toolName":"GMAIL_FETCH_EMAILS","arguments":{}}`).raw, "success")
	g.composio.Fail(repeat)
	for _, s := range []*vendorstest.Server{g.perplexity, g.jina, g.notion, g.apify} {
		s.Fail(repeat)
	}

	ben := g.another("ben")
	run := g.run(map[string]any{"code": "print('" + canaryArgument + "')"})
	seen := []string{}
	for _, one := range []string{"header", "query", "bearer", "basic", "automatic", "signed"} {
		for _, method := range []string{"ok", "fail", "redirect", "task"} {
			seen = append(seen, g.canary("p_"+one, method, map[string]any{"where": canaryAddress, "password": canaryArgument}))
		}
	}
	canvas := g.canvas("links")
	for _, arguments := range []string{`{}`, `{"image":"` + signedLink + `"}`} { // a file of a result, and one of the arguments
		a := g.send(g.key, "POST", "/v1/tool/execute", `{"toolsetKey":"p_header","toolName":"link","arguments":`+arguments+`}`, "x-refly-canvas-id", canvas)
		require.Equal(t, 200, a.status, a.raw)
		seen = append(seen, a.raw)
	}
	require.Contains(t, g.log.String(), "a file of a result was not kept")
	for _, c := range []struct{ toolset, tool, arguments string }{
		{"gmail", "GMAIL_SEND_EMAIL", `{"to":"CANARY","body":"CANARY"}`},
		{"perplexity", "chat_completions", `{"messages":[{"role":"user","content":"CANARY"}]}`},
		{"jina", "read", `{"url":"https://example.com/?sig=CANARY"}`},
		{"notion", "create_comment", `{"pageId":"` + vendorstest.NotionPage + `","comment":"CANARY"}`},
		{"apify-13f", "run13FActor", `{"manager_name":"CANARY","quarter_year":"Q2 2024","file_name":"x"}`},
	} {
		var arguments map[string]any
		require.NoError(t, json.Unmarshal([]byte(strings.ReplaceAll(c.arguments, "CANARY", canaryArgument)), &arguments))
		seen = append(seen, g.canary(c.toolset, c.tool, arguments))
	}
	seen = append(seen, g.send(g.key, "POST", "/v1/tool/execute", `{"toolsetKey":"none-`+canaryAddress+`","toolName":"x"}`).raw)
	g.nowhere(strings.Join(seen, "\n"), ben, run.ResultID)
}

// canary makes a call and returns what the caller sees of it.
func (g *gateway) canary(toolset, name string, arguments map[string]any) string {
	g.t.Helper()
	a := g.send(g.key, "POST", "/v1/tool/execute", map[string]any{"toolsetKey": toolset, "toolName": name, "arguments": arguments})
	require.Equal(g.t, 200, a.status, "%s %s: %s", toolset, name, a.raw)
	return a.raw
}

func (g *gateway) nowhere(answers, ben, resultID string) {
	g.t.Helper()
	basic := base64.StdEncoding.EncodeToString([]byte("me:" + canaryKey))
	credentials := []string{canaryKey, url.QueryEscape(canaryKey), url.PathEscape(canaryKey), basic, composiotest.Key, vendorstest.Token}
	users := []string{canaryArgument, canaryAddress, canaryResult, canaryLink}
	require.Contains(g.t, answers, canaryResult, "the upstream repeated nothing")
	require.Contains(g.t, answers, "[redacted]")

	records := g.send(g.key, "GET", "/v1/tool/calls?limit=200", nil).raw
	events, _ := g.watch(g.t.Context(), g.key, resultID, 0, 1<<20)
	told, err := json.Marshal(events)
	require.NoError(g.t, err)
	audit := g.send(g.key, "GET", "/v1/auth/audit", nil).raw
	metrics := g.send("", "GET", "/metrics", nil).raw
	others := audit + metrics + g.send(ben, "GET", "/v1/tool/calls?limit=200", nil).raw +
		g.send(ben, "GET", "/v1/action/"+resultID+"/events", nil).raw + g.send(ben, "GET", "/v1/tool/list", nil).raw + g.send(ben, "GET", "/v1/credit/usage", nil).raw
	for name, places := range map[string]struct {
		text  string
		users bool // may hold what the user sent and got
	}{
		"answers": {answers, true}, "records": {records, true}, "events": {string(told), true},
		"log": {g.log.String(), false}, "others, audit, metrics": {others, false},
	} {
		for _, secret := range credentials {
			require.NotContains(g.t, places.text, secret, name)
		}
		for _, secret := range users {
			require.True(g.t, places.users || !strings.Contains(places.text, secret), "%s: %s", name, secret)
		}
	}
	for _, secret := range credentials {
		require.Zero(g.t, g.count("SELECT count(*) FROM tool_call_results WHERE output LIKE ? OR error LIKE ?", "%"+secret+"%", "%"+secret+"%"))
	}
}
