package agent_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/agenttest"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/modules/agent"
	"github.com/portico-run/portico/modules/agent/running"
	"github.com/portico-run/portico/modules/run"
)

// weather is a toolset of so many tools on the bundled upstream.
func weather(key string, tools int, more string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "key: %s\nname: %s\ndomain: ${PORTICO_DEMO_URL}\ncredential: {type: header, name: X-Demo-Key, value: \"${PORTICO_DEMO_KEY}\"}\n"+
		"egress: {allow: [127.0.0.0/8]}\nbilling: 0\nmethods:\n", key, key)
	for n := range tools {
		fmt.Fprintf(&b, "  - name: tool_%d\n    description: Lists the cities, in way number %d of many ways to do so.\n    endpoint: /cities\n    method: GET\n"+
			"    request: {type: object, additionalProperties: false, properties: {min_population: {type: integer, description: \"Only cities with at least so many people\"}}}\n", n, n)
	}
	return b.String() + more
}

// shown joins what the events of a run say to its user.
func shown(events []agenttest.Event) (answer, notes string) {
	var words, told strings.Builder
	for _, e := range events {
		switch e.Event {
		case "stream":
			words.WriteString(e.Content)
		case "log":
			fmt.Fprintf(&told, "%s: %s\n", e.Log.Level, e.Log.Content)
		}
	}
	return words.String(), told.String()
}

// A run is answered in words, continues earlier ones, and keeps how it ended.
func TestAnAgentAnswers(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, `
- expect: ["Red?"]
  output: [{text: "Red "}, {text: "it is."}]
  usage: {input: 900, output: 40}
- on: Blue
  expect: ["Red?", "Red it is.", "Blue?"]
  output: [{text: "Blue it is."}]
- on: again
  expect: ["Red?", "Red it is."]
  output: [{text: "As before."}]
- on: broken
  fail: [{status: 400, code: model_not_found, message: no such model}]
- on: cut
  incomplete: max_output_tokens
  output: [{text: "Half"}]
`, "MODEL_INPUT_PRICE=100", "MODEL_OUTPUT_PRICE=100")
	r, events := s.Ask(map[string]any{"query": "Red?", "resultId": "ar-red"})
	require.Equal(t, run.Done, r.Status, "%v", r.Errors)
	answer, _ := shown(events)
	require.Equal(t, "Red it is.", answer)
	require.Equal(t, "Red?", r.Title)
	require.Equal(t, "scripted:test", r.Model)
	_, usage := s.Send("GET", "/v1/credit/usage", nil)
	require.Contains(t, usage, `"amount":0.094`)

	r, _ = s.Ask(map[string]any{"query": "Blue?", "resultHistory": []any{map[string]any{"resultId": "ar-red"}}})
	require.Equal(t, run.Done, r.Status, "%v", r.Errors)
	r, _ = s.Ask(map[string]any{"query": "again?", "resultId": "ar-red", "history": []string{"ar-red"}})
	require.Equal(t, run.Done, r.Status, "%v", r.Errors)
	require.Equal(t, 1, r.Version)

	r, events = s.Ask(map[string]any{"query": "broken?"})
	require.Equal(t, run.Failed, r.Status)
	require.Contains(t, r.Errors[0], "status 400 (model_not_found): no such model")
	require.Equal(t, "error", events[1].Event)
	require.Equal(t, r.Errors[0], events[1].OriginError)
	r, _ = s.Ask(map[string]any{"query": "cut?"})
	require.Equal(t, run.Failed, r.Status)
	require.Contains(t, r.Errors[0], "was cut: max_output_tokens")
}

// Requests that cannot be begun are refused with what to do, and leave nothing.
func TestRequestsAreRefused(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, "- output: [{text: Fine.}]", "PTC_MODE=off")
	long := make([]string, 101)
	for i := range long {
		long[i] = fmt.Sprint("ar-", i)
	}
	for want, body := range map[string]map[string]any{
		"query is empty":                       {"query": " "},
		"UTF-8 without NUL":                    {"query": "a\x00b"},
		"toolChoice is not understood":         {"query": "x", "toolChoice": "maybe"},
		"There is no such canvas":              {"query": "x", "canvasId": "c-none"},
		"two canvases":                         {"query": "x", "canvasId": "c-a", "target": map[string]string{"entityId": "c-b"}},
		"target is a folder":                   {"query": "x", "target": map[string]string{"entityId": "c-b", "entityType": "folder"}},
		"history names a run without resultId": {"query": "x", "history": []any{map[string]any{}}},
		"history must not have more than 100":  {"query": "x", "history": long[:60], "resultHistory": long[:60]},
		"toolsets[0] has no key":               {"query": "x", "toolsets": []any{map[string]any{"type": "regular"}}},
		"a name of more than 128 bytes":        {"query": "x", "toolsets": []any{map[string]any{"id": "demo", "selectedTools": []string{strings.Repeat("n", 129)}}}},
		"is off for this request":              {"query": "x", "ptc": "on"},
		"There is no such run":                 {"query": "x", "history": []string{"ar-none"}},
	} {
		status, answer := s.Send("POST", "/v1/skill/streamInvoke", body)
		require.GreaterOrEqual(t, status, 400, want)
		require.Less(t, status, 500, want)
		require.Contains(t, answer, want)
	}
	require.Empty(t, s.Model.Requests())
	none := agenttest.Serve(t, "", "MODEL_NAME=")
	status, answer := none.Send("POST", "/v1/skill/invoke", map[string]any{"query": "x"})
	require.Equal(t, 503, status)
	require.Contains(t, answer, "sets MODEL_NAME or MODEL_FILE.")
}

// A process works on so many runs at once and no more; an abort, and the end of
// the server, end what it works on.
func TestRunsAreBoundedAndEnd(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, "- delay: 10m\n  output: [{text: Late.}]\n", "AGENT_MAX_RUNS=2")
	agents := s.Agents.Service
	first, err := agents.Invoke(t.Context(), s.User, agent.Request{Query: "One"})
	require.NoError(t, err)
	second, err := agents.Invoke(t.Context(), s.User, agent.Request{Query: "Two"})
	require.NoError(t, err)
	_, err = agents.Invoke(t.Context(), s.User, agent.Request{Query: "Three"})
	require.ErrorIs(t, err, running.ErrBusy)

	aborted, err := agents.Abort(t.Context(), s.User, first.ResultID, nil)
	require.NoError(t, err)
	require.True(t, aborted)
	status, answer := s.Send("GET", "/v1/action/"+first.ResultID+"/events", nil) // to its end
	require.Equal(t, 200, status, answer)
	require.Equal(t, run.Aborted, s.Run(first.ResultID).Status)
	status, answer = s.Send("POST", "/v1/action/abort", map[string]any{"resultId": first.ResultID})
	require.Equal(t, 200, status, answer)
	require.Contains(t, answer, `"aborted":false`, "it had ended")
	_, err = agents.Abort(t.Context(), s.User, "ar-none", nil)
	require.ErrorIs(t, err, run.ErrMissing)

	// One that another server works on is ended in the database.
	elsewhere, err := s.Runs.Service.Create(t.Context(), s.User, run.CreateParams{Title: "Elsewhere", Type: "skill"})
	require.NoError(t, err)
	aborted, err = agents.Abort(t.Context(), s.User, elsewhere.ResultID, nil)
	require.NoError(t, err)
	require.True(t, aborted)
	require.Equal(t, run.Aborted, s.Run(elsewhere.ResultID).Status)

	require.NoError(t, s.Agents.Stop(t.Context()))
	stopped := s.Run(second.ResultID)
	require.Equal(t, run.Running, stopped.Status, "another process goes on with it, or this one when it is back")
	status, answer = s.Send("POST", "/v1/skill/invoke", map[string]any{"query": "Four"})
	require.Equal(t, 503, status)
	require.Contains(t, answer, "The server is stopping.")
}

// One user has so many runs at once, and no more.
func TestRunsOfAUserAreBounded(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, "- delay: 10m\n  output: [{text: Late.}]\n", "AGENT_MAX_RUNS=3", "AGENT_MAX_RUNS_PER_USER=1")
	agents := s.Agents.Service
	first, err := agents.Invoke(t.Context(), s.User, agent.Request{Query: "One"})
	require.NoError(t, err)
	_, err = agents.Invoke(t.Context(), s.User, agent.Request{Query: "Two"})
	require.ErrorIs(t, err, running.ErrUserBusy)
	_, err = agents.Abort(t.Context(), s.User, first.ResultID, nil)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err = agents.Invoke(t.Context(), s.User, agent.Request{Query: "Three"})
		return err == nil
	}, time.Minute, 10*time.Millisecond)
}

// A run that another server ended in the database ends here, too.
func TestAnAbortElsewhereEndsTheRunHere(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, "- delay: 10m\n  output: [{text: Late.}]\n", "AGENT_MAX_RUNS=1")
	r, err := s.Agents.Service.Invoke(t.Context(), s.User, agent.Request{Query: "Wait"})
	require.NoError(t, err)
	err = s.DB.InTx(t.Context(), func(tx database.Tx) error {
		if err := s.Runs.Service.Finish(t.Context(), tx, r.Ref(), run.Finish{Status: run.Aborted}); err != nil {
			return err
		}
		return tx.Notify("abort:" + r.ResultID)
	})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err := s.Agents.Service.Invoke(t.Context(), s.User, agent.Request{Query: "Next"})
		return err == nil // there is room again
	}, time.Minute, 10*time.Millisecond)
	require.Equal(t, run.Aborted, s.Run(r.ResultID).Status)
}

// Tools that cost less as plain calls are called plainly where the administrator
// wants that, and code is kept where it is cheaper, insisted on, or the only way.
func TestWhatAModelGets(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, `
- on: few
  expect: [few_tool_0]
  reject: [execute_code]
  output: [{call: {name: few_tool_0, arguments: {}}}, {call: {name: few_tool_0, arguments: {min_population: 100000000}}}]
- expect: [Oslo]
  output: [{text: Plain.}]
- on: insists
  expect: [execute_code, "tool_0("]
  output: [{text: Code.}]
- on: many
  expect: [execute_code, "tool_39("]
  reject: [many_tool_39]
  output: [{text: Code.}]
- on: only
  expect: [execute_code]
  output: [{text: Code.}]
- on: first
  expect: [execute_code, "github__list("]
  output: [{text: Code.}]
- on: left
  expect: ["These toolsets do not work at the moment: nothing."]
  output: [{text: Left.}]
- on: selected
  expect: ["tool_1("]
  reject: ["tool_0("]
  output: [{text: Selected.}]
`, "AGENT_BREAK_EVEN=true")
	s.Apply(map[string]string{
		"few.yaml": weather("few", 2, ""), "many.yaml": weather("many", 40, ""), "only.yaml": weather("only", 1, "    allowedCallers: [code]\n"),
		"first.yaml": strings.ReplaceAll(weather("first", 1, ""), "tool_0", "github__list"),
	})
	for query, want := range map[string]struct {
		body map[string]any
		code bool
		told string
	}{
		"few?":      {map[string]any{"toolsets": []string{"few"}}, false, "Tools are called plainly: describing them takes "},
		"insists?":  {map[string]any{"toolsets": []string{"few"}, "ptc": "on"}, true, ""},
		"many?":     {map[string]any{"toolsets": []string{"many"}}, true, ""},
		"only?":     {map[string]any{"toolsets": []any{map[string]any{"toolset": map[string]string{"key": "only"}}}}, true, ""},
		"first?":    {map[string]any{"toolsets": []string{"first"}}, true, ""},
		"left?":     {map[string]any{"toolsets": []string{"nothing"}}, true, "warn: Toolset nothing does not work and is left out: "},
		"selected?": {map[string]any{"ptc": "on", "toolsets": []any{map[string]any{"id": "few", "selectedTools": []string{"tool_1", "gone"}}}}, true, "warn: Toolset few has no tool gone, which the request selects."},
	} {
		body := map[string]any{"query": query}
		maps.Copy(body, want.body)
		r, events := s.Ask(body)
		require.Equal(t, run.Done, r.Status, "%s %v", query, r.Errors)
		require.Equal(t, want.code, r.PTCEnabled, query)
		_, notes := shown(events)
		require.Contains(t, notes, want.told, query)
	}
}

// What a request says and the agent does not read is a warning, and what it
// asked is recorded.
func TestWhatIsNotReadIsTold(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, "- output: [{text: Fine.}]")
	canvas := s.Canvas(nil)
	r, events := s.Ask(map[string]any{
		"input": map[string]any{"query": "Do it", "originalQuery": "do it!", "images": []string{"a.png"}}, "title": "Mine",
		"context": map[string]any{"files": []any{"x"}}, "tplConfig": map[string]any{"empty": map[string]any{"value": ""}}, "runtimeConfig": map[string]any{"a": 1},
		"target": map[string]any{"entityId": canvas, "entityType": "canvas"}, "parallelToolCalls": false, "toolChoice": "none", "locale": "en", "mode": "ask", "modelName": "m",
		"toolsets": []any{map[string]any{"type": "mcp", "name": "far"}, map[string]any{"id": "none", "selectedTools": []string{}}, "demo", map[string]any{"id": "demo", "selectedTools": []string{"get_weather"}}},
	})
	require.Equal(t, run.Done, r.Status, "%v", r.Errors)
	require.Equal(t, canvas, r.CanvasID)
	require.Equal(t, []string{"far", "demo"}, r.Toolsets)
	_, notes := shown(events)
	require.Contains(t, notes, "warn: Toolset far does not work and is left out: Toolset not found: far", "an MCP server that is not there")
	require.Contains(t, notes, "warn: Toolset none is left out: its selectedTools is empty. Leave selectedTools out for all of its tools.\n"+
		"warn: The context of the request is recorded, but the agent does not read it.\n"+
		"warn: The images of the request are recorded, but the model is not shown them.\n")
	require.Len(t, r.Warnings, 4)
	require.JSONEq(t, `{"query":"Do it","originalQuery":"do it!","images":["a.png"],"mode":"ask","modelName":"m"}`, r.Input)
	var sent struct {
		Parallel bool   `json:"parallel_tool_calls"`
		Choice   string `json:"tool_choice"`
	}
	require.NoError(t, json.Unmarshal(s.Model.Requests()[0], &sent))
	require.False(t, sent.Parallel)
	require.Equal(t, "none", sent.Choice)
}

// A run that has spent what it may is over, with the reason.
func TestARunStopsAtItsSpendingLimit(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, strings.Repeat("- output: [{call: {name: get_time, arguments: {zone: null}}}]\n  usage: {input: 1000000, output: 0}\n", 3),
		"MODEL_INPUT_PRICE=10", "BILLING_RUN_LIMIT=5")
	r, _ := s.Ask(map[string]any{"query": "Spend"})
	require.Equal(t, run.Failed, r.Status)
	require.Contains(t, r.Errors[0], "the run was stopped: ")
	require.Len(t, s.Model.Requests(), 1)
}

// An answer in which the model refuses is paid for as any other.
func TestRefusalsArePaidFor(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, "- output: [{text: No.}]\n  incomplete: refusal\n  usage: {input: 1000000, output: 0}\n",
		"MODEL_PROTOCOL=messages", "MODEL_INPUT_PRICE=10", "PTC_MODE=off")
	r, _ := s.Ask(map[string]any{"query": "Go", "resultId": "ar-refused"})
	require.Equal(t, run.Failed, r.Status)
	require.Contains(t, r.Errors[0], "(refusal)")
	_, usage := s.Send("GET", "/v1/credit/usage", nil)
	require.Equal(t, 1, strings.Count(usage, "ar-refused"), usage)
	require.Contains(t, usage, `"amount":10`)
}
