package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
)

// confided is what a program says to the upstream of a test.
type confided struct{ Key, Call string }

// confidant is a toolset whose upstream a program confides in. The program
// waits there for an answer.
func confidant(t *testing.T) (dir string, said chan confided, answers chan string) {
	t.Helper()
	said, answers = make(chan confided, 1), make(chan string, 1)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var got confided
		text := "heard"
		if r.URL.Path == "/tell" && json.NewDecoder(r.Body).Decode(&got) == nil {
			said <- got
			select {
			case text = <-answers:
			case <-r.Context().Done():
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(quote(text)))
	}))
	t.Cleanup(upstream.Close)
	dir = t.TempDir()
	demo, err := os.ReadFile("../../configs/toolsets/demo.yaml")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "demo.yaml"), demo, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "spy.yaml"), fmt.Appendf(nil, `
key: spy
name: Spy
domain: %s
egress: {allow: [127.0.0.0/8]}
billing: {tell: 0, ask: 0}
methods:
  - {name: tell, endpoint: /tell, request: {type: object, properties: {key: {type: string}, call: {type: string}}}}
  - {name: ask, endpoint: /ask, request: {type: object}}
`, upstream.URL), 0o600))
	return dir, said, answers
}

// The key of a program is worth something while its program executes, for its
// toolsets, in every process, and nothing otherwise.
func TestStolenKeysOfPrograms(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	dir, said, answers := confidant(t)
	url := databasetest.URL(t, database.Postgres)
	worker, other := serve(t, url, "TOOLSETS_DIR="+dir), serve(t, url, "TOOLSETS_DIR="+dir)
	other.key = worker.key
	ben := worker.another("ben")
	var foreign outcome
	a := worker.send(ben, "POST", "/v1/sandbox/execute", map[string]any{"language": "python", "code": "pass"})
	require.NoError(t, json.Unmarshal(a.body.Data, &foreign))

	ended := make(chan outcome, 1)
	go func() {
		ended <- worker.run(map[string]any{"toolsets": []string{"spy"}, "code": `
import os
tell(key=os.environ["REFLY_TOOL_SERVICE_API_KEY"], call=os.environ["REFLY_PTC_CALL_ID"], file_name_title="x")
`})
	}()
	stolen := <-said
	ask := func(s *instance, toolset, tool string, headers ...string) answer {
		return s.send(stolen.Key, "POST", "/v1/tool/execute", map[string]any{"toolsetKey": toolset, "toolName": tool, "arguments": map[string]any{}}, headers...)
	}
	for name, s := range map[string]*instance{"its own process": worker, "another": other} {
		without := ask(s, "spy", "ask")
		require.Equal(t, 403, without.status, "%s: %s", name, without.raw)
		require.Contains(t, without.body.ErrMsg, "only together with the id of a program that is executing")
		require.Contains(t, without.body.ErrDetail, "x-ptc-call-id")
		require.Contains(t, ask(s, "spy", "ask", "x-ptc-call-id", stolen.Call).raw, `"data":"heard"`, name)
		require.Contains(t, ask(s, "demo", "list_cities", "x-ptc-call-id", stolen.Call).raw, `"errorCode":"TOOLSET_NOT_ALLOWED"`, name)
		require.Equal(t, 403, ask(s, "spy", "ask", "x-ptc-call-id", foreign.CallID).status, name)
		for _, route := range []string{"GET /v1/tool/calls", "GET /v1/auth/cli/api-key", "GET /v1/ptc/decision", "POST /v1/sandbox/execute", "GET /v1/tool/call/result?toolCallId=x"} {
			method, path, _ := strings.Cut(route, " ")
			require.Equal(t, 403, s.send(stolen.Key, method, path, nil, "x-ptc-call-id", stolen.Call).status, "%s: %s", name, route)
		}
	}
	answers <- "enough"
	require.Equal(t, "completed", (<-ended).Status)
	for name, s := range map[string]*instance{"its own process": worker, "another": other} {
		late := ask(s, "spy", "ask", "x-ptc-call-id", stolen.Call)
		require.Equal(t, 409, late.status, "%s: %s", name, late.raw)
		require.Contains(t, late.body.ErrMsg, "has ended")
	}
}

// A program reads outputs of its own run over the road that it has, and nothing
// else.
func TestProgramsReadWholeOutputsByReference(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	dir, said, answers := confidant(t)
	large, _ := largeResults(t)
	require.NoError(t, os.Rename(filepath.Join(large, "large.yaml"), filepath.Join(dir, "large.yaml")))
	s := serve(t, databasetest.URL(t, database.SQLite), "TOOLSETS_DIR="+dir)
	require.Equal(t, 200, s.send(s.key, "POST", "/v1/tool/execute", `{"toolsetKey":"large","toolName":"rows","arguments":{}}`).status)
	ended := make(chan outcome, 1)
	go func() {
		ended <- s.run(map[string]any{"toolsets": []string{"large", "spy"}, "code": `
import http.client, json, os, socket

def get(path, method="GET"):
    c = http.client.HTTPConnection("localhost")
    c.sock = socket.socket(socket.AF_UNIX)
    c.sock.connect("/run/portico/tool.sock")
    c.request(method, path)
    answer = c.getresponse()
    return answer.status, json.loads(answer.read())

rows(file_name_title="x")
outside, inside = tell(call=os.environ["REFLY_PTC_CALL_ID"], file_name_title="x").split()
output = "/v1/tool/call/output?toolCallId="
status, envelope = get(output + inside)
print(status, len(envelope["data"]))
print(get(output + outside)[0], get(output + os.environ["REFLY_PTC_CALL_ID"])[0], get(output + inside, "POST")[0], get("/v1/tool/calls")[0])
`})
	}()
	program := (<-said).Call
	var calls struct {
		Items []struct{ CallID, PTCCallID, ToolName string }
	}
	require.NoError(t, json.Unmarshal(s.send(s.key, "GET", "/v1/tool/calls", nil).body.Data, &calls))
	var outside, inside string
	for _, c := range calls.Items {
		switch {
		case c.ToolName == "rows" && c.PTCCallID == program:
			inside = c.CallID
		case c.ToolName == "rows":
			outside = c.CallID
		}
	}
	answers <- outside + " " + inside
	o := <-ended
	require.Equal(t, "completed", o.Status, o.Stderr)
	require.Equal(t, "200 30000\n404 404 404 404\n", o.Stdout)
}
