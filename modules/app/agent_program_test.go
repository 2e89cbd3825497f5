package app_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/scripted"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
)

// outputs are what the model was given back, in order; nothing that it wrote
// itself is in them.
func outputs(t *testing.T, model *scripted.Server) []string {
	t.Helper()
	requests := model.Requests()
	var sent struct {
		Input []struct{ Type, Output string }
	}
	require.NoError(t, json.Unmarshal(requests[len(requests)-1], &sent))
	var list []string
	for _, item := range sent.Input {
		if item.Type == "function_call_output" {
			list = append(list, item.Output)
		}
	}
	return list
}

// A program that fails gives the model what it had printed, its traceback with
// the lines of the code, and how many calls it had made.
func TestAFailedProgramGivesItsOutputAndTraceback(t *testing.T) {
	t.Parallel()
	model, env := script(t, `
- output: [`+programCall(t, "execute_code", "get_weather(city='Oslo', file_name_title='x')\nprint(6 * 7)\n1 / 0")+`]
- output: [{text: "Done."}]
`)
	s := serve(t, databasetest.URL(t, database.SQLite), env...)
	r := s.invoke(t, map[string]any{"query": "Go", "toolsets": []string{"demo"}})
	require.Equal(t, "finish", r.Status, "%v", r.Errors)
	got := outputs(t, model)
	require.Len(t, got, 1)
	require.Contains(t, got[0], "42\n", "what it had printed")
	require.Contains(t, got[0], "ZeroDivisionError: division by zero")
	require.Contains(t, got[0], "line 3")
	require.Regexp(t, `\b(1|one) tool calls?`, got[0])
	require.Equal(t, "execute_code", r.Messages[2].ToolCallMeta["toolName"])
	require.Contains(t, r.Messages[2].Content, "42\n", "the user can read it as well")
	require.Contains(t, r.Messages[2].Content, "ZeroDivisionError")
}

// A program ends at its time limit, the usual one or its own, with everything
// that it started; what it had printed comes back.
func TestAgentProgramsHaveATimeLimit(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	model, env := script(t, `
- output: [`+programCall(t, "execute_code", "import subprocess, sys, time\nsubprocess.Popen(['sleep', '100'])\nprint('be' + 'gun', flush=True)\nprint('care' + 'ful', file=sys.stderr, flush=True)\ntime.sleep(100)")+`]
- output: [{call: {name: execute_code, arguments: {code: "import time; time.sleep(2.5); print('long' + 'er')", timeout: 10}}}]
- output: [{call: {name: execute_code, arguments: {code: "pass", timeout: 100000}}}]
- output: [{text: "Done."}]
`)
	s := serve(t, databasetest.URL(t, database.SQLite), append(env, "PTC_TIMEOUT=2")...)
	r := s.invoke(t, map[string]any{"query": "Go"})
	require.Equal(t, "finish", r.Status, "%v", r.Errors)
	got := outputs(t, model)
	require.Len(t, got, 3)
	require.Contains(t, got[0], "begun", "what it had printed")
	require.Contains(t, got[0], "careful", "and what it had written to the other stream")
	require.Contains(t, got[0], "ended with timeout")
	require.Equal(t, "longer\n", got[1])
	require.Contains(t, got[2], "timeout must not be longer than")
}

// Two programs of one answer in a canvas run one after the other: each finds
// what the one before left. Without a canvas they run at once.
func TestProgramsOfOneCanvasDoNotOverwriteEachOther(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	add := programCall(t, "execute_code", "import os, time\nold = open('n.txt').read() if os.path.exists('n.txt') else ''\ntime.sleep(1)\nopen('n.txt', 'w').write(old + 'x')\nprint(len(old) + 1, time.time())")
	model, env := script(t, `
- output: [`+strings.Join([]string{add, add, add}, ", ")+`]
- output: [{text: "Done."}]
`)
	s := serve(t, databasetest.URL(t, database.SQLite), env...)
	r := s.invoke(t, map[string]any{"query": "Go", "canvasId": s.canvas("count")})
	require.Equal(t, "finish", r.Status, "%v", r.Errors)
	got := outputs(t, model)
	require.Len(t, got, 3)
	for n, want := range []string{"1 ", "2 ", "3 "} {
		require.True(t, strings.HasPrefix(got[n], want), "%v", got)
	}
}

// A request may narrow the policy, and may insist on it; it never widens it.
func TestRequestsNarrowThePolicy(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	_, env := script(t, `
- expect: [server_github__list]
  reject: [execute_code]
  output: [{text: "Plain."}]
- on: insist
  expect: [execute_code]
  reject: [few_tool_0]
  output: [{text: "Code."}]
`)
	s := serve(t, databasetest.URL(t, database.SQLite), append(env, "AGENT_BREAK_EVEN=true", "PTC_TOOLSET_BLOCKLIST=blocked")...)
	s.apply(t, map[string]string{"few.yaml": toolsetFile("few", 1, ""), "blocked.yaml": toolsetFile("blocked", 1, ""), "server.yaml": strings.ReplaceAll(toolsetFile("server", 1, ""), "tool_0", "github__list")})
	r := s.invoke(t, map[string]any{"query": "plainly", "toolsets": []string{"server"}, "ptc": "off"})
	require.Equal(t, "finish", r.Status, "%v", r.Errors)
	require.False(t, r.PTCEnabled)
	r = s.invoke(t, map[string]any{"query": "insist", "toolsets": []string{"few"}, "ptc": "on"})
	require.Equal(t, "finish", r.Status, "%v", r.Errors)
	require.True(t, r.PTCEnabled)
	a := s.send(s.key, "POST", "/v1/skill/invoke", map[string]any{"query": "x", "toolsets": []string{"blocked"}, "ptc": "on"})
	require.Equal(t, 403, a.status, a.raw)
	require.Contains(t, a.raw, "PTC_TOOLSET_BLOCKLIST")
	for _, path := range []string{"/v1/skill/invoke", "/v1/skill/streamInvoke"} {
		require.GreaterOrEqual(t, s.send(s.key, "POST", path, map[string]any{"query": "x", "ptc": "maybe"}).status, 400)
	}
}

// What a model writes and what tools return is in no line of the log; where the
// operator asks for the model's output, it is there without credentials.
func TestLogsHoldNoSecrets(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	const canary = "c4n4ry"
	_, env := script(t, `
- output:
    - text: "I use Authorization: Bearer `+canary+`-bearer-1 and sk-`+canary+`000000000000. "
    - call: {name: help, arguments: {name: "nothing `+canary+`-argument"}}
    - `+programCall(t, "execute_code", `import sys
config = {"password": "`+canary+`-password", "api_key": "`+canary+`-key"}
print(config, file=sys.stderr)
print("`+canary+`-printed")
raise ValueError("token=`+canary+`-token")`)+`
    - call: {name: demo_convert_currency, arguments: {amount: 1, from: EUR, to: USD, password: `+canary+`-wrong, file_name_title: x}}
- output: [{text: "{\"password\": \"`+canary+`-answer\"}"}]
`)
	for _, logged := range []string{"false", "true"} {
		s := serve(t, databasetest.URL(t, database.SQLite), append(env, "MODEL_LOG_OUTPUT="+logged)...)
		r := s.invoke(t, map[string]any{"query": "Go " + logged + " " + canary + "-question", "toolsets": []string{"demo"}})
		require.Equal(t, "finish", r.Status, "%v", r.Errors)
		log := s.log.String()
		if logged == "false" {
			require.NotContains(t, log, canary, "nothing of what is said, called or returned")
			continue
		}
		require.Contains(t, log, "model output")
		require.Contains(t, log, "[redacted]")
		for _, secret := range []string{"-bearer-1", "000000000000", "-password", "-key", "-token", "-wrong", "-answer"} {
			require.NotContains(t, log, canary+secret)
		}
		require.NotContains(t, log, canary+"-question")
	}
}
