package app_test

import (
	"encoding/base64"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
)

// Clients are answered by what they send with their program. A key alone, which
// a proxy may have added, makes nobody an older client. Continuations bring a
// token and no more, so that a program remembers how its caller is answered.
func TestGenerationsAreKnownByWhatTheySend(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite), "CODEAPI_AUTH=false", "CODEAPI_MAX_ROUNDS=1")
	up := s.upload("/upload", map[string]string{"in.txt": "x"}).uploaded(t)
	const agent, client = "User-Agent", "LibreChat/1.0"
	file := map[string]any{"id": up.Files[0].FileID, "name": "in.txt"}
	with := func(more map[string]any) []any {
		f := maps.Clone(file)
		maps.Copy(f, more)
		return []any{f}
	}
	keyed := map[string][]string{"X-API-Key": {"X-API-Key", s.key}, "ApiKey": {"Authorization", "ApiKey " + s.key}}
	others := map[string][]string{
		"Bearer": {"Authorization", "Bearer " + s.key}, "Basic": {"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(s.key+":"))}, "none": {},
	}
	all := maps.Clone(keyed)
	maps.Copy(all, others)
	for name, c := range map[string]struct {
		body    map[string]any
		headers []string
		with    map[string][]string // credentials
		phrases bool
	}{
		// The four published clients.
		"3.0":                 {map[string]any{"timeout": 60000, "files": with(map[string]any{"session_id": up.SessionID})}, []string{agent, client}, keyed, false},
		"3.0 through a proxy": {map[string]any{"timeout": 60000}, []string{agent, client}, others, true},
		"3.1":                 {map[string]any{"timeout": 60000, "files": with(map[string]any{"session_id": up.SessionID})}, []string{agent, client}, others, true},
		"3.1 with its files":  {map[string]any{"timeout": 60000, "files": with(map[string]any{"storage_session_id": up.SessionID, "kind": "user", "resource_id": "u"})}, []string{agent, client}, all, true},
		"3.3":                 {map[string]any{"timeout": 15000}, []string{agent, client}, all, true},
		"3.3 in a hurry":      {map[string]any{"timeout": 1000}, []string{agent, client}, all, true},
		"3.9":                 {map[string]any{"timeout": 15000}, []string{agent, client, "X-LibreChat-Code-Request-ID", "r"}, all, true},
		// Hosts whose operator raised the limit.
		"a profile":        {map[string]any{"timeout": 300000}, []string{agent, client, "X-CodeAPI-Expected-Profile", "default"}, all, true},
		"a request id":     {map[string]any{"timeout": 300000}, []string{agent, client, "X-LibreChat-Code-Request-ID", "r"}, all, true},
		"a runtime's hint": {map[string]any{"timeout": 300000, "runtime_session_hint": "c:1"}, []string{agent, client}, all, true},
		"bash":             {map[string]any{"timeout": 60000, "lang": "bash"}, []string{agent, client}, all, true},
		// Whoever is no LibreChat reads statuses.
		"curl":            {map[string]any{"timeout": 5000}, []string{agent, "curl/8.5.0"}, all, false},
		"no name":         {map[string]any{}, []string{agent, ""}, all, false},
		"the first words": {map[string]any{}, []string{agent, client}, keyed, false},
	} {
		for credential, header := range c.with {
			body := map[string]any{"code": "await ask()\nawait ask()", "tools": tools("ask")}
			if c.body["lang"] == "bash" {
				body["code"] = "ask; ask"
			}
			maps.Copy(body, c.body)
			headers := append(append([]string{}, c.headers...), header...)
			paused := s.codeAs("", "/exec/programmatic", body, headers...)
			require.Equal(t, "tool_call_required", paused.Status, "%s with %s: %+v", name, credential, paused)
			// The credential and the name of the client, and nothing else that tells.
			e := s.codeAs("", "/exec/programmatic", map[string]any{"continuation_token": paused.ContinuationToken, "tool_results": results(paused)}, append([]string{agent, client}, header...)...)
			require.Equal(t, "error", e.Status)
			require.Equal(t, "Exceeded maximum round trips (1)", e.Error)
			want := map[bool]int{true: 200, false: 400}[c.phrases]
			require.Equal(t, want, e.code, "%s with %s", name, credential)

			body["code"] = map[bool]string{true: "exit 3", false: "import sys; sys.exit('sorry')"}[c.body["lang"] == "bash"]
			e = s.codeAs("", "/exec/programmatic", body, headers...)
			require.Equal(t, c.phrases, strings.HasPrefix(e.Error, "Sandbox exited with code"), "%s with %s: %s", name, credential, e.Error)
		}
	}
}
