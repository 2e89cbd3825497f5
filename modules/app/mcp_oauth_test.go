package app_test

import (
	"encoding/json"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/connector/mcp/describe"
	"github.com/portico-run/portico/modules/connector/mcp/server"
	"github.com/portico-run/portico/modules/connector/oauth/oauthtest"
)

// authorize has a user authorize the server at the MCP server docs, in a browser
// that keeps its cookie.
func authorize(t *testing.T, s *instance, upstream *oauthtest.Server, key, user string) {
	t.Helper()
	comesBack(t, s, upstream, key, user, "/v1/mcp/servers/docs/connect", "/v1/mcp/oauth/callback")
}

// comesBack has a user begin an authorization at a route, agree, and come back to one
// address after the other: the last one is right.
func comesBack(t *testing.T, s *instance, upstream *oauthtest.Server, key, user, begin string, back ...string) {
	t.Helper()
	a := s.send(key, "POST", begin, nil)
	require.Equal(t, 200, a.status, a.raw)
	var begun struct{ URL string }
	require.NoError(t, json.Unmarshal(a.body.Data, &begun))
	given := upstream.Agree(t, user, begun.URL)
	cookie, _, _ := strings.Cut(a.header.Get("Set-Cookie"), ";")
	for i, address := range back {
		a = s.send("", "GET", address+"?"+given.Encode(), nil, "Cookie", cookie)
		if i < len(back)-1 {
			require.Equal(t, 404, a.status, a.raw)
		}
	}
	require.Equal(t, 200, a.status, a.raw)
	require.Contains(t, a.raw, "Connected")
}

// A server that was never listed, because a person must authorize Portico first,
// has code call it all the same: the exception says where that is done, as does
// the event of the call. After it, the same program works.
func TestCodeIsToldWhereToAuthorize(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		upstream := oauthtest.Start(t, oauthtest.Settings{})
		require.NoError(t, s.app.Servers.Operators().Add(t.Context(), "", server.Spec{
			Name: "docs", Transport: server.HTTP, URL: upstream.URL, OAuth: true, Egress: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		}))
		const code = `
for call in (lambda: docs.whoami(), lambda: docs__whoami(), lambda: docs.whoami("by position", more=1)):
    try:
        print(call())
    except ToolExecutionError as e:
        print(e.code, e.url)
    except TypeError:
        print("takes nothing")
`
		connect := s.app.Authorizations.ConnectURL("docs")
		o := s.run(map[string]any{"toolsets": []string{"docs"}, "code": code})
		require.Equal(t, strings.Repeat("AUTH_NEEDED "+connect+"\n", 3), o.Stdout, o.Stderr)
		require.Len(t, o.Warnings, 1, "%v", o.Warnings)
		require.Contains(t, o.Warnings[0], "The tools of MCP server docs are not known: Toolset docs cannot be used at the moment")
		events := s.send(s.key, "GET", "/v1/action/"+o.ResultID+"/events", nil).raw
		var told int
		for line := range strings.Lines(events) {
			if strings.Contains(line, `"event":"tool_call_error"`) && strings.Contains(line, connect) {
				told++
			}
		}
		require.Equal(t, 3, told, events)
		js := s.send(s.key, "POST", "/v1/sandbox/execute", map[string]any{
			"toolsets": []string{"docs"}, "language": "javascript", "code": "try { await docs.whoami() } catch (e) { console.log(e.code, e.url) }",
		}).raw
		require.Contains(t, js, `"stdout":"AUTH_NEEDED `+connect+`\n"`)

		authorize(t, s, upstream, s.key, "anna")
		o = s.run(map[string]any{"toolsets": []string{"docs"}, "code": code})
		require.Equal(t, "anna\nanna\ntakes nothing\n", o.Stdout, o.Stderr)
		require.Empty(t, o.Warnings)
	})
}

// Who calls a tool as a plain function over HTTP, or from a sandbox of their own,
// is told where to authorize, too.
func TestPlainFunctionsSayWhereToAuthorize(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		upstream := oauthtest.Start(t, oauthtest.Settings{})
		file := filepath.Join(t.TempDir(), "mcp.yaml")
		require.NoError(t, os.WriteFile(file, []byte("servers:\n  docs:\n    url: "+upstream.URL+"\n    oauth: true\n    egress: [127.0.0.0/8]\n    sandboxCallable: {whoami: {readOnly: true, as: whoami}}\n"), 0o600))
		_, problems, err := describe.Load(t.Context(), s.app.MCPFiles(), file, nil)
		require.NoError(t, err)
		require.Empty(t, problems)
		connect := s.app.Authorizations.ConnectURL("docs")
		refused := func() {
			t.Helper()
			got := s.send(s.key, "POST", "/tool_call", map[string]any{"tool": "whoami"})
			require.Equal(t, 502, got.status, got.raw)
			var said struct{ ErrCode, ErrMsg, URL string }
			require.NoError(t, json.Unmarshal([]byte(got.raw), &said))
			require.Equal(t, "E0029", said.ErrCode)
			require.Contains(t, said.ErrMsg, "whoami failed: MCP server docs needs your authorization")
			require.Equal(t, connect, said.URL)
		}
		refused()
		other := s.send(s.key, "POST", "/tool_call", map[string]any{"tool": "fetch_url", "input": map[string]any{"url": "nonsense"}})
		require.NotContains(t, other.raw, `"url"`, "another failure has none")

		authorize(t, s, upstream, s.key, "anna")
		require.Equal(t, "anna\n", s.run(map[string]any{"code": "print(whoami())"}).Stdout)
		require.JSONEq(t, `{"result":"anna"}`, s.send(s.key, "POST", "/tool_call", map[string]any{"tool": "whoami"}).raw)
		stubs := s.send(s.key, "GET", "/v1/sandbox/stubs?callbackUrl="+s.url, nil)
		require.Equal(t, 200, stubs.status, stubs.raw)
		call := func() string {
			t.Helper()
			python := exec.CommandContext(t.Context(), "python3", "-I", "-c", stubs.raw+"\ntry:\n    print(whoami())\nexcept ToolExecutionError as e:\n    print(e.status, e.url)\n")
			python.Env = []string{"PATH=" + os.Getenv("PATH"), "PORTICO_API_KEY=" + s.key}
			out, err := python.CombinedOutput()
			require.NoError(t, err, string(out))
			return string(out)
		}
		require.Equal(t, "anna\n", call())
		require.Equal(t, 200, s.send(s.key, "POST", "/v1/mcp/servers/docs/disconnect", nil).status)
		refused()
		require.Equal(t, "502 "+connect+"\n", call())
	})
}

// 100 programs of two users of one server at once: each sees the answers and the
// tools of its own user, who has authorized the server; before that, the user is
// told where.
func TestUsersOfOneMCPServerAreKeptApart(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		upstream := oauthtest.Start(t, oauthtest.Settings{})
		require.NoError(t, s.app.Servers.Operators().Add(t.Context(), "", server.Spec{
			Name: "docs", Transport: server.HTTP, URL: upstream.URL, OAuth: true, Egress: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		}))
		keys := map[string]string{"anna": s.key, "ben": s.another("ben")}
		a := s.send(s.key, "POST", "/v1/mcp/servers/docs/test", nil)
		var told struct{ State, ConnectURL string }
		require.NoError(t, json.Unmarshal(a.body.Data, &told))
		require.Equal(t, "auth_needed", told.State, a.raw)
		require.True(t, strings.HasSuffix(told.ConnectURL, "/v1/mcp/connect/docs"), told.ConnectURL)
		for user, key := range keys {
			authorize(t, s, upstream, key, user)
		}
		require.Contains(t, s.send(s.key, "GET", "/v1/tool/list", nil).raw, `"mcpServer":{"name":"docs"`)
		var wg sync.WaitGroup
		gate := make(chan struct{}, 8)
		for i := range 100 {
			user := []string{"anna", "ben"}[i%2]
			wg.Go(func() {
				gate <- struct{}{}
				defer func() { <-gate }()
				o := s.send(keys[user], "POST", "/v1/sandbox/execute", map[string]any{
					"language": "python", "toolsets": []string{"docs"}, "code": "print(docs__whoami(), 'docs__of_anna' in globals(), 'docs__of_ben' in globals())",
				})
				want := map[string]string{"anna": "anna True False", "ben": "ben False True"}[user]
				if !strings.Contains(o.raw, `"stdout":"`+want+`\n"`) {
					t.Errorf("a program of %s: %s", user, o.raw)
				}
			})
		}
		wg.Wait()
		require.Equal(t, 200, s.send(keys["ben"], "POST", "/v1/mcp/servers/docs/disconnect", nil).status)
		require.Contains(t, s.send(keys["ben"], "POST", "/v1/mcp/servers/docs/test", nil).raw, `"state":"auth_needed"`)
		require.Contains(t, s.send(s.key, "POST", "/v1/mcp/servers/docs/test", nil).raw, `"state":"ready"`)
	})
}
