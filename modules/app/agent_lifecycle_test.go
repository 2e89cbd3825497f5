package app_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/testenv"
)

// lifecycleEnding is a run that the model ended with a tool.
type lifecycleEnding struct {
	name, call, status, answer string
	handoff                    string // as the result has it
}

// A model ends its run with complete, fail or onboarding_handoff. Calls beside
// it are executed before; nothing is asked of the model afterwards; the text is
// the answer, in the stream and as the last message.
func TestLifecycleTools(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	endings := []lifecycleEnding{
		{"complete", `{call: {name: complete, arguments: {result: "It is **done**."}}}`, "finish", "It is **done**.", ""},
		{"fail", `{call: {name: fail, arguments: {reason: "Nobody knows."}}}`, "error", "Nobody knows.", ""},
		{"handoff", `{call: {name: onboarding_handoff, arguments: {agent: "mechanic", summary: "The car is broken."}}}`, "finish", "The car is broken.", `{"agent":"mechanic","summary":"The car is broken."}`},
	}
	var turns strings.Builder
	for _, e := range endings {
		fmt.Fprintf(&turns, "- on: %s\n  expect: [\"call complete with the whole answer\"]\n  output: [{text: \"Wait. \"}, %s, {call: {name: get_time, arguments: {zone: null}}}]\n", e.name, e.call)
	}
	model, env := script(t, turns.String())
	asked := func(query string) (n int) {
		for _, raw := range model.Requests() {
			n += strings.Count(string(raw), `"content":"`+query+`"`)
		}
		return n
	}
	each(t, func(t *testing.T, s *instance) {
		for _, e := range endings {
			query := e.name + " on " + t.Name()
			_, body := s.stream(t, s.key, map[string]any{"query": query, "resultId": "ar-" + e.name})
			events := eventsOf(t, body)
			require.Equal(t, 1, asked(query), "nothing is asked afterwards")
			var order []string
			var last string
			for _, event := range events {
				if event["event"] == "tool_call_end" {
					order = append(order, fmt.Sprint(event["toolCallMeta"].(map[string]any)["toolName"]))
				}
				if event["event"] == "stream" {
					last = fmt.Sprint(event["content"])
				}
			}
			require.Len(t, order, 2)
			require.Equal(t, "get_time", order[0], "calls beside it come first")
			require.Equal(t, e.answer, last)
			a := s.send(s.key, "GET", "/v1/action/result?resultId=ar-"+e.name, nil)
			var r struct {
				result
				Handoff json.RawMessage
			}
			require.NoError(t, json.Unmarshal(a.body.Data, &r))
			require.Equal(t, e.status, r.Status, a.raw)
			require.Equal(t, "ai", r.Messages[len(r.Messages)-1].Type)
			require.Equal(t, e.answer, r.Messages[len(r.Messages)-1].Content)
			if e.handoff != "" {
				require.JSONEq(t, e.handoff, string(r.Handoff))
			} else {
				require.Empty(t, r.Handoff)
			}
			if e.status == "error" {
				require.Equal(t, []string{e.answer}, r.Errors)
			}
		}
	}, append(env, "AGENT_LIFECYCLE_TOOLS=true")...)
}

// What ends a run is never called from code, and a call that does not work does
// not end it. Without the setting the tools are not there.
func TestLifecycleToolsAreRefused(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	_, env := script(t, `
- expect: [onboarding_handoff]
  output: [{call: {name: complete, arguments: {result: " "}}}, {call: {name: complete, arguments: {}}}, `+programCall(t, "execute_code", `
print("complete" in globals(), "fail" in globals()) # the demo has a method fail, which is another
import json, socket
for key in ("portico", "builtin", "complete"):
    s = socket.socket(socket.AF_UNIX); s.connect("/run/portico/tool.sock")
    body = json.dumps({"toolsetKey": key, "toolName": "complete", "arguments": {"result": "stolen"}})
    s.sendall(("POST /v1/tool/execute HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)).encode())
    text = b""
    while part := s.recv(65536): text += part
    print(key, json.loads(text.decode().split("\r\n\r\n")[1])["data"]["status"])
`)+`]
- expect: ["a text is empty", "result: is required", "False True", "portico error", "builtin error", "complete error"]
  output: [{call: {name: complete, arguments: {result: "First."}}}, {call: {name: fail, arguments: {reason: "Second."}}}]
`)
	each(t, func(t *testing.T, s *instance) {
		r := s.invoke(t, map[string]any{"query": "Go", "toolsets": []string{"demo"}})
		require.Equal(t, "finish", r.Status, "%v", r.Errors)
		require.Equal(t, "First.", r.Messages[len(r.Messages)-1].Content)
	}, append(env, "AGENT_LIFECYCLE_TOOLS=true")...)
}

// Without a setting, the last message ends the run and there is no other way.
func TestLifecycleToolsAreOffByDefault(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	_, env := script(t, `
- reject: ["\"name\":\"complete\"", onboarding_handoff, "call complete"]
  output: [{call: {name: complete, arguments: {result: x}}}]
- expect: ["there is no tool \"complete\""]
  output: [{text: "Done."}]
`)
	each(t, func(t *testing.T, s *instance) {
		r := s.invoke(t, map[string]any{"query": "Go"})
		require.Equal(t, "finish", r.Status, "%v", r.Errors)
		require.Equal(t, "Done.", r.Messages[len(r.Messages)-1].Content)
	}, env...)
}

// A toolset that does not work, or stops working during a run, is told to the
// user: in the stream and in the record of the run.
func TestMissingToolsetsAreToldToTheUser(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	_, env := script(t, `
- expect: ["do not work at the moment: nothing"]
  output: [`+programCall(t, "execute_code", "import time\nprint('ready', flush=True)\ntime.sleep(4)")+`]
- expect: ["do not work at the moment: nothing, breaks"]
  output: [{text: "Done."}]
`)
	each(t, func(t *testing.T, s *instance) {
		s.apply(t, map[string]string{"breaks.yaml": toolsetFile("breaks", 1, "")})
		answer, body := s.stream(t, s.key, map[string]any{"query": "Go", "toolsets": []string{"demo", "nothing", "breaks"}, "resultId": "ar-missing"})
		require.Equal(t, http.StatusOK, answer.StatusCode)
		var logs strings.Builder
		scan(body, func(line string) bool {
			logs.WriteString(line + "\n")
			return strings.Contains(line, `"content":"ready"`)
		})
		require.Contains(t, logs.String(), `"content":"Toolset nothing does not work and is left out: `)
		s.exec("UPDATE toolsets SET enabled = false WHERE key = 'breaks'")
		scan(body, func(line string) bool {
			logs.WriteString(line + "\n")
			return false
		})
		require.Contains(t, logs.String(), `"content":"Toolset breaks does not work and is left out: `)
		require.Equal(t, 1, strings.Count(logs.String(), `"content":"Toolset nothing`), "it is told once: %s", logs.String())
		var r struct{ Warnings []string }
		require.NoError(t, json.Unmarshal(s.send(s.key, "GET", "/v1/action/result?resultId=ar-missing", nil).body.Data, &r))
		require.Len(t, r.Warnings, 2)
	}, env...)
}

// scan reads lines until one is enough.
func scan(body *bufio.Scanner, enough func(line string) bool) {
	for body.Scan() {
		if enough(body.Text()) {
			return
		}
	}
}
