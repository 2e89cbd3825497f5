package app_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/connector/oauth/oauthtest"
)

// notebook is a server with a toolset that was imported from the document of an API that
// wants tokens of its users.
func notebook(t *testing.T, d database.Dialect, upstream *oauthtest.Server) (s *instance, env []string) {
	t.Helper()
	url := databasetest.URL(t, d)
	vars := []string{"TOOLSET_NOTES_CLIENT_ID=portico", "TOOLSET_NOTES_CLIENT_SECRET=secret-of-the-client"}
	s, env = serve(t, url, vars...), environ(t, url, vars...)
	document := filepath.Join(t.TempDir(), "notes.yaml")
	require.NoError(t, os.WriteFile(document, []byte(upstream.Document()), 0o600))
	code, out, errs := portico(t, env, "toolset", "import", "--openapi", document, "--name", "notes", "--price", "1", "--egress", "127.0.0.0/8")
	require.Equal(t, 0, code, errs)
	require.Equal(t, "toolset notes: 2 methods\n", out)
	upstream.Know(t, "portico", "secret-of-the-client", s.app.Config.Server.Endpoint+"/v1/tool/oauth/callback/notes")
	return s, env
}

// agree has a user authorize the server for the toolset. An answer that comes to the
// address of another toolset is not taken, and does no harm.
func agree(t *testing.T, s *instance, upstream *oauthtest.Server, key, user string) {
	t.Helper()
	comesBack(t, s, upstream, key, user, "/v1/tool/authorizations/notes/connect", "/v1/tool/oauth/callback/other", "/v1/tool/oauth/callback/notes")
}

// The document of an API whose tokens need the consent of a person becomes a toolset
// for which each user connects an account: code is told where, calls carry the token
// of the user who calls, and what the API asks for besides is asked for, too.
func TestUsersConnectTheirAccountsOfToolsets(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	for _, d := range databasetest.Of(t) {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			upstream := oauthtest.Start(t, oauthtest.Settings{API: true, NoIssuer: true, Methods: []string{"client_secret_post"}})
			s, env := notebook(t, d, upstream)
			const code = `
try:
    print(me())
    print(note())
except ToolExecutionError as e:
    print(e.code, e.url)
`
			program := func(key string) string {
				t.Helper()
				a := s.send(key, "POST", "/v1/sandbox/execute", map[string]any{"language": "python", "toolsets": []string{"notes"}, "code": code})
				require.Equal(t, 200, a.status, a.raw)
				var o outcome
				require.NoError(t, json.Unmarshal(a.body.Data, &o))
				require.Empty(t, o.Stderr)
				return o.Stdout
			}
			one := func(key string) (said struct{ State, Problem, ConnectURL, Type string }) {
				t.Helper()
				require.NoError(t, json.Unmarshal(s.send(key, "GET", "/v1/tool/toolset/notes", nil).body.Data, &said))
				return said
			}
			connect := s.app.Grants.ConnectURL("notes")
			require.Equal(t, s.app.Config.Server.Endpoint+"/v1/tool/connect/notes", connect)
			needed := "AUTH_NEEDED " + connect + "\n"
			require.Equal(t, needed, program(s.key))
			require.Equal(t, "needs_account", one(s.key).State)
			require.Equal(t, connect, one(s.key).ConnectURL)
			require.Contains(t, one(s.key).Problem, connect)
			installed := s.send(s.key, "POST", "/v1/tool/toolset/create", map[string]any{"key": "notes", "name": "Mine"})
			require.Equal(t, 400, installed.status, installed.raw)
			require.Contains(t, installed.raw, "is everybody's and is not installed")
			require.Contains(t, s.send(s.key, "GET", connect[len(s.app.Config.Server.Endpoint):], nil).raw, "your authorization for the toolset notes")

			ben := s.another("ben")
			agree(t, s, upstream, s.key, "anna")
			agree(t, s, upstream, ben, "ben")
			require.Equal(t, "ready", one(s.key).State)
			asked := upstream.Forms()
			require.Equal(t, "portico", asked[len(asked)-1].Get("client_id"), "the client shows its secret as the server takes it")
			// It may read only: for the note, the API asks for more.
			require.Equal(t, "{'scopes': ['offline_access', 'tools'], 'user': 'anna'}\n"+needed, program(s.key))
			agree(t, s, upstream, s.key, "anna")
			all := "{'scopes': ['offline_access', 'tools', 'write'], 'user': 'anna'}\n"
			require.Equal(t, all+all, program(s.key))
			require.Equal(t, "{'scopes': ['offline_access', 'tools'], 'user': 'ben'}\n"+needed, program(ben))
			require.Equal(t, 4, s.count("SELECT count(*) FROM credit_usages WHERE amount = 1"), "what failed costs nothing")

			// A token that ends early is refreshed, and the call that it was refused for sent
			// again.
			upstream.EndTokens(t)
			require.Equal(t, all+all, program(s.key))
			require.Equal(t, 1, upstream.Count("refresh"), "once for both calls")

			require.Zero(t, s.count(`SELECT count(*) FROM toolset_inventory WHERE api_key LIKE '%secret-of%'`)+s.count(`SELECT count(*) FROM toolset_grants WHERE tokens LIKE '%ory_%' OR tokens LIKE '%secret%'`), "they are sealed")
			require.Equal(t, 200, s.send(s.key, "POST", "/v1/tool/authorizations/notes/disconnect", nil).status)
			require.Equal(t, needed, program(s.key))
			require.Equal(t, "{'scopes': ['offline_access', 'tools'], 'user': 'ben'}\n"+needed, program(ben))
			upstream.RevokeAll(t)
			require.Equal(t, needed, program(ben), "what was ended there is begun anew")

			agree(t, s, upstream, s.key, "anna")
			// The same on the pages of the console.
			cookie, _ := s.signIn(s.key)
			page := func(method, path string) answer {
				return s.send("", method, path, nil, "Cookie", cookie, "Content-Type", "application/x-www-form-urlencoded", "Accept", "text/html")
			}
			require.Contains(t, page("GET", "/console/toolsets/notes").raw, "Your account at Notes is connected.")
			require.Equal(t, 200, page("POST", "/console/toolsets/notes/disconnect").status)
			require.Contains(t, page("GET", "/console/toolsets/notes").raw, "Connect your account")
			require.Contains(t, page("POST", "/console/toolsets/notes/connect").raw, `href="`+connect+`"`)
			agree(t, s, upstream, s.key, "anna")
			shown, out, errs := portico(t, env, "toolset", "delete", "notes", "--yes")
			require.Equal(t, 0, shown, errs)
			require.Contains(t, out+errs, "notes")
			require.Zero(t, s.count("SELECT count(*) FROM toolset_grants"))
		})
	}
}

// 100 programs of two users at once: each call carries the token of its user, also
// where all tokens end in the middle.
func TestUsersOfOneToolsetAreKeptApart(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	upstream := oauthtest.Start(t, oauthtest.Settings{API: true})
	s, _ := notebook(t, database.Postgres, upstream)
	keys := map[string]string{"anna": s.key, "ben": s.another("ben")}
	for user, key := range keys {
		agree(t, s, upstream, key, user)
	}
	var wg sync.WaitGroup
	gate := make(chan struct{}, 8)
	for i := range 100 {
		if i == 50 {
			upstream.EndTokens(t)
		}
		user := []string{"anna", "ben"}[i%2]
		gate <- struct{}{}
		wg.Go(func() {
			defer func() { <-gate }()
			o := s.send(keys[user], "POST", "/v1/sandbox/execute", map[string]any{"language": "python", "toolsets": []string{"notes"}, "code": "print(me()['user'])"})
			if !strings.Contains(o.raw, `"stdout":"`+user+`\n"`) {
				t.Errorf("a program of %s: %s", user, o.raw)
			}
		})
	}
	wg.Wait()
	require.Equal(t, 2, upstream.Count("refresh"), "once for each user")
}
