package responses_test

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/agenttest"
	"github.com/portico-run/portico/internal/actor"
)

const weather = `
- output: [{call: {name: run_code, arguments: {code: "try:\n    print(get_weather(city=get_order(id=1)['city'])['city'])\nexcept ToolExecutionError as e:\n    print('failed:', e)"}}}]
- output: [{text: "Done."}]
`

func demo(approval any) object {
	return object{"type": "mcp", "server_label": "demo", "allowed_callers": []string{"programmatic"}, "allowed_tools": []string{"get_weather"}, "require_approval": approval}
}

// One program calls a function of the client's and a tool of the user's that a person
// has to allow.
func TestCallsThatWaitForAPerson(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		answer  object
		printed string
	}{
		"allowed": {object{"approve": true}, "Oslo\n"},
		"refused": {object{"approve": false, "reason": "not today"}, "not today"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := agenttest.Serve(t, weather)
			tools := []object{{"type": "programmatic_tool_calling"}, order(), demo("always")}
			g := ask(t, s, 200, object{"input": "Weather?", "tools": tools})
			require.Equal(t, "program function_call", g.types())
			g = ask(t, s, 200, object{"previous_response_id": g.ID, "tools": tools, "input": []any{outputOf(g.Output[1], `{"city":"Oslo"}`)}})
			require.Equal(t, "mcp_approval_request", g.types())
			require.Equal(t, "completed", g.Status)
			request := g.Output[0]
			require.Equal(t, "demo", request["server_label"])
			require.Equal(t, "get_weather", request["name"])
			require.Regexp(t, "^mcpr_", request["id"])
			one.answer["type"], one.answer["approval_request_id"] = "mcp_approval_response", request["id"]
			g = ask(t, s, 200, object{"previous_response_id": g.ID, "tools": tools, "input": []any{one.answer}})
			require.Equal(t, "program_output message", g.types())
			require.Contains(t, g.Output[0]["result"], one.printed)
		})
	}
}

// A response that asked the model as often as it may is not complete, and a client that
// sends it back goes on with it.
func TestAResponseThatReachedItsBound(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, `
- output: [{call: {name: run_code, arguments: {code: "print('half')"}}}]
- expect: ["half", "Go on."]
  output: [{text: "Done."}]
`, "AGENT_MAX_REQUESTS=1")
	tools := []object{{"type": "programmatic_tool_calling"}}
	g := ask(t, s, 200, object{"input": "Begin.", "tools": tools})
	require.Equal(t, "program program_output", g.types())
	require.Equal(t, "incomplete", g.Status)
	require.Equal(t, "max_output_tokens", g.Incomplete.Reason)
	g = ask(t, s, 200, object{"previous_response_id": g.ID, "input": "Go on.", "tools": tools})
	require.Equal(t, "completed", g.Status)
	require.Equal(t, "message", g.types())
}

// Clients keep different things of a conversation in which a person is asked: the id
// of what waits is enough, and who answers nothing is asked the same again.
func TestWhatClientsKeepOfAnApproval(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, `
- output: [{call: {name: run_code, arguments: {code: "print(get_weather(city='Oslo')['city'])"}}}]
- output: [{text: "Done."}]
- on: "Thanks"
  output: [{text: "Bye."}]
`)
	declared := object{"type": "mcp", "server_label": "demo", "server_url": "https://demo.invalid/mcp", "require_approval": "always"}
	tools := []object{{"type": "programmatic_tool_calling"}, declared}
	user := object{"role": "user", "content": "Weather?"}
	g := ask(t, s, 200, object{"store": false, "input": []any{user}, "tools": tools})
	require.Equal(t, "program mcp_approval_request", g.types())
	request := g.Output[1]
	again := ask(t, s, 200, object{"store": false, "input": []any{user, g.Output[0]}, "tools": tools})
	require.Equal(t, []object{request}, again.Output)
	require.Zero(t, again.Usage.Total)
	answer := object{"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": true}
	other := object{"type": "mcp_approval_response", "approval_request_id": "mcpr_none", "approve": true}
	wrong := ask(t, s, 400, object{"store": false, "input": []any{user, request, answer, other}, "tools": tools})
	require.Equal(t, "No approval request found for mcp_approval_response with approval_request_id mcpr_none.", wrong.Error.Message)
	done := ask(t, s, 200, object{"store": false, "input": []any{user, request, answer}, "tools": tools})
	require.Equal(t, "program_output message", done.types())
	require.Equal(t, g.Output[0]["call_id"], done.Output[0]["call_id"])
	g = ask(t, s, 200, object{"input": []any{user, request, answer, done.Output[0], object{"role": "assistant", "content": "Done."}, object{"role": "user", "content": "Thanks"}}, "tools": tools})
	require.Equal(t, "message", g.types())
	g = ask(t, s, 404, object{"input": []any{user, object{"type": "mcp_approval_response", "approval_request_id": "mcpr_none", "approve": true}}, "tools": tools})
	require.Contains(t, g.Error.Message, "Nothing waits")
}

// A client that lost an answer gets the same one, to the byte: nothing runs twice.
func TestALostAnswerComesAgain(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, programmed)
	send := func(body object, count string) string {
		t.Helper()
		text, err := json.Marshal(body)
		require.NoError(t, err)
		url, key := s.Reach()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/responses", bytes.NewReader(text))
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+key)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Stainless-Retry-Count", count)
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode, string(raw))
		return string(raw)
	}
	tools := []object{{"type": "programmatic_tool_calling"}, order()}
	body := object{"input": "Total of orders 1 and 2?", "tools": tools}
	first := send(body, "0")
	require.Equal(t, first, send(body, "1"))
	require.Len(t, s.Model.Requests(), 1)
	var g got
	require.NoError(t, json.Unmarshal([]byte(first), &g))
	body = object{"previous_response_id": g.ID, "tools": tools, "input": []any{outputOf(g.Output[1], `{"total":1}`), outputOf(g.Output[2], `{"total":2}`)}}
	require.Equal(t, send(body, "0"), send(body, "1"))
}

// Without require_approval calls wait, as at the vendor; with never they do not.
func TestNoApproval(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, weather)
	for approval, want := range map[any]string{nil: "mcp_approval_request", "never": "program_output message"} {
		tools := []object{{"type": "programmatic_tool_calling"}, order(), demo(approval)}
		g := ask(t, s, 200, object{"input": "Weather?", "tools": tools})
		g = ask(t, s, 200, object{"previous_response_id": g.ID, "tools": tools, "input": []any{outputOf(g.Output[1], `{"city":"Oslo"}`)}})
		require.Equal(t, want, g.types())
	}
}

// What a client cannot do is an error that names the parameter, before any work.
func TestRefusals(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, `
- output: [{text: "Never."}]
`)
	programs := object{"type": "programmatic_tool_calling"}
	function := func(more object) object {
		f := order()
		maps.Copy(f, more)
		return f
	}
	server := func(more object) object {
		f := demo("never")
		maps.Copy(f, more)
		return f
	}
	with := func(tools ...object) object { return object{"input": "Hi", "tools": tools} }
	call := object{"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"}
	for _, one := range []struct {
		param, says string
		body        object
	}{
		{"input", "Missing required parameter", object{}},
		{"input", "an empty list", object{"input": []any{}}},
		{"input[0].type", "Missing required parameter", object{"input": []any{object{}}}},
		{"input[0].role", "Invalid value: 'wizard'", object{"input": []any{object{"role": "wizard", "content": "x"}}}},
		{"input[0].content", "file_id", object{"input": []any{object{"role": "user", "content": []any{object{"type": "input_image", "file_id": "f"}}}}}},
		{"input[0].content", "input_audio", object{"input": []any{object{"role": "user", "content": []any{object{"type": "input_audio"}}}}}},
		{"input", "No tool output found for function call call_1.", object{"input": []any{call}}},
		{"input", "No tool call found for function call output with call_id call_2.", object{"input": []any{call, object{"type": "function_call_output", "call_id": "call_2", "output": "1"}}}},
		{"input[0].id", "not found", object{"input": []any{object{"type": "item_reference", "id": "msg_1"}}}},
		{"input[0].fingerprint", "not that of this program", object{"input": []any{object{"type": "program", "id": "cm_1", "call_id": "call_1", "code": "x", "fingerprint": "00"}}}},
		{"input[0].type", "compaction", object{"input": []any{object{"type": "compaction"}}}},
		{"background", "not made in the background", object{"input": "Hi", "background": true}},
		{"conversation", "keeps no object", object{"input": "Hi", "conversation": "conv_1"}},
		{"temperature", "from 0 to 2", object{"input": "Hi", "temperature": 3}},
		{"truncation", "Supported values", object{"input": "Hi", "truncation": "some"}},
		{"top_logprobs", "not known here", object{"input": "Hi", "top_logprobs": 2}},
		{"text.format.schema", "Missing", object{"input": "Hi", "text": object{"format": object{"type": "json_schema", "name": "x"}}}},
		{"metadata", "may have", object{"input": "Hi", "metadata": object{strings.Repeat("k", 65): "v"}}},
		{"model", "no such model", object{"input": "Hi", "model": "other"}},
		{"tools[0].type", "web_search", with(object{"type": "web_search"})},
		{"tools[0].type", "custom", with(object{"type": "custom", "name": "x"})},
		{"tools[1]", "more than one", with(programs, programs)},
		{"tools", "Only programs may call get_order", with(order())},
		{"tools[0].name", "1 to 64", with(function(object{"name": "a b"}))},
		{"tools[1].tools[0].name", "would both be called", with(function(object{"name": "crm_f"}), object{"type": "namespace", "name": "crm", "tools": []object{function(object{"name": "f"})}})},
		{"tools[0].allowed_callers", "direct and programmatic", with(function(object{"allowed_callers": []string{"anybody"}}))},
		{"tools[0].allowed_callers", "nothing could call", with(function(object{"allowed_callers": []string{}}))},
		{"tools[0].parameters", "of type \"object\"", with(function(object{"parameters": object{"type": "string"}}))},
		{"tools[0].defer_loading", "no tool_search", with(function(object{"defer_loading": true}))},
		{"tools[0].async", "cannot come later", with(function(object{"async": true}))},
		{"tools", "may not be called run_code", with(programs, function(object{"name": "run_code"}))},
		{"tools[0].server_url", "cannot be brought with a request", with(server(object{"server_url": "https://example.com/mcp"}), programs)},
		{"tools[0].allowed_callers", "by programs only", with(server(object{"allowed_callers": []string{"direct"}}), programs)},
		{"tools[0].server_label", "no toolset and no MCP server", with(server(object{"server_label": "nobody"}), programs)},
		{"tools[0].allowed_tools.read_only", "cannot be chosen", with(server(object{"allowed_tools": object{"read_only": true}}), programs)},
		{"tools[0].require_approval", "cannot depend on the tool", with(server(object{"require_approval": object{"never": object{"tool_names": []string{"x"}}}}), programs)},
		{"tools[0]", "called by programs only", with(server(nil))},
		{"tool_choice", "not found in 'tools'", object{"input": "Hi", "tool_choice": object{"type": "programmatic_tool_calling"}}},
		{"tool_choice", "cannot be chosen", object{"input": "Hi", "tools": []object{programs, order()}, "tool_choice": object{"type": "function", "name": "get_order"}}},
		{"tool_choice", "not found in 'tools'", object{"input": "Hi", "tool_choice": object{"type": "function", "name": "nobody"}}},
		{"portico", "about programs", object{"input": "Hi", "portico": object{"timeout_ms": 5}}},
		{"portico.toolsets[0]", "no toolset", object{"input": "Hi", "tools": []object{programs}, "portico": object{"toolsets": []string{"nobody"}}}},
	} {
		want := 400
		if one.param == "model" {
			want = 404
		}
		g := ask(t, s, want, one.body)
		require.Equal(t, one.param, g.Error.Param, g.Error.Message)
		require.Contains(t, g.Error.Message, one.says)
		require.Equal(t, "invalid_request_error", g.Error.Type)
	}
}

// An output must be JSON where its function declares a schema, and the program gets its
// value; otherwise it gets the text. An output that is incomplete is an error there.
func TestOutputs(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, `
- expect: ["described() -> dict", "plain() -> str"]
  output: [{call: {name: run_code, arguments: {code: "for f in (described, plain):\n    try:\n        print(repr(f()))\n    except ToolExecutionError as e:\n        print('failed:', e)"}}}]
- output: [{text: "Done."}]
`)
	function := func(name string, more object) object {
		f := object{"type": "function", "name": name, "allowed_callers": []string{"programmatic"}}
		maps.Copy(f, more)
		return f
	}
	tools := []object{{"type": "programmatic_tool_calling"}, function("described", object{"output_schema": object{"type": "object"}}), function("plain", nil)}
	g := ask(t, s, 200, object{"input": "Go", "tools": tools})
	refused := ask(t, s, 400, object{"previous_response_id": g.ID, "tools": tools, "input": []any{outputOf(g.Output[1], "not JSON")}})
	require.Equal(t, "invalid_value", refused.Error.Code)
	require.Contains(t, refused.Error.Message, "expected a JSON string because the function declares output_schema")
	refused = ask(t, s, 400, object{"previous_response_id": g.ID, "tools": tools, "input": "Never mind"})
	require.Contains(t, refused.Error.Message, "No tool output found for function call "+g.Output[1]["call_id"].(string))

	g = ask(t, s, 200, object{"previous_response_id": g.ID, "input": []any{outputOf(g.Output[1], `{"n": [1]}`)}})
	failed := outputOf(g.Output[0], "no such order")
	failed["status"] = "incomplete"
	again := g
	g = ask(t, s, 200, object{"previous_response_id": again.ID, "tools": tools, "input": []any{failed}})
	require.Equal(t, "{'n': [1]}\nfailed: no such order\n", g.Output[0]["result"])
	other := outputOf(again.Output[0], "another result")
	refused = ask(t, s, 409, object{"previous_response_id": again.ID, "tools": tools, "input": []any{other}})
	require.Contains(t, refused.Error.Message, "answered before, with other results")
}

// A program that was changed on its way, or is another user's, is refused.
func TestProgramsAreSealed(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, programmed)
	tools := []object{{"type": "programmatic_tool_calling"}, order()}
	first := []any{object{"role": "user", "content": "Total of orders 1 and 2?"}}
	g := ask(t, s, 200, object{"input": first, "tools": tools})
	results := []any{outputOf(g.Output[1], `{"total":10}`), outputOf(g.Output[2], `{"total":32}`)}
	program := g.Output[0]
	body := func(p object) object {
		return object{"tools": tools, "input": append(append([]any{first[0], p}, g.Output[1], g.Output[2]), results...)}
	}
	for member, value := range map[string]string{"code": "print(1)", "call_id": "call_other", "fingerprint": program["fingerprint"].(string)[1:] + "0"} {
		changed := object{}
		maps.Copy(changed, program)
		changed[member] = value
		require.Equal(t, "input[1].fingerprint", ask(t, s, 400, body(changed)).Error.Param)
	}
	u, err := s.Accounts.Service.CreateUser(t.Context(), "ben", "")
	require.NoError(t, err)
	_, key, err := s.Accounts.Service.CreateKey(t.Context(), actor.Actor{UID: u.UID, Scope: actor.Full}, "test", 0)
	require.NoError(t, err)
	send := func(method, path string, body any) (int, string) {
		t.Helper()
		text, err := json.Marshal(body)
		require.NoError(t, err)
		url, _ := s.Reach()
		r, err := http.NewRequestWithContext(t.Context(), method, url+path, bytes.NewReader(text))
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+key.Reveal())
		r.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(raw)
	}
	status, text := send(http.MethodPost, "/v1/responses", body(program))
	require.Equal(t, 400, status)
	require.Contains(t, text, "not that of this program")
	for _, one := range [][2]string{{http.MethodGet, ""}, {http.MethodGet, "/input_items"}, {http.MethodDelete, ""}} {
		status, text = send(one[0], "/v1/responses/"+g.ID+one[1], nil)
		require.Equal(t, 404, status)
		require.Contains(t, text, "not found")
	}
	status, text = send(http.MethodPost, "/v1/responses", object{"previous_response_id": g.ID, "input": results})
	require.Equal(t, 400, status)
	require.Contains(t, text, "previous_response_not_found")
	status, text = send(http.MethodPost, "/v1/responses", object{"input": []any{object{"type": "item_reference", "id": program["id"]}}})
	require.Equal(t, 400, status)
	require.Contains(t, text, "not found")
	require.Equal(t, "function_call", ask(t, s, 200, body(program)).types(), "its user goes on")
}

// References stand for items of stored responses; unknown items are kept as they came.
func TestReferencesAndUnknownItems(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, `
- output: [{text: "First words."}]
- expect: ["First words.", "More"]
  reject: ["novelty"]
  output: [{text: "Second."}]
`)
	g := ask(t, s, 200, object{"input": "Hi"})
	novelty := object{"type": "novelty", "id": "nv_1", "content": object{"x": []any{1.0, nil}}}
	g = ask(t, s, 200, object{"input": []any{object{"type": "item_reference", "id": g.Output[0]["id"]}, novelty, object{"role": "user", "content": "More"}}})
	status, text := s.Send(http.MethodGet, "/v1/responses/"+g.ID+"/input_items?order=asc", nil)
	require.Equal(t, 200, status)
	var list struct{ Data []object }
	require.NoError(t, json.Unmarshal([]byte(text), &list))
	require.Len(t, list.Data, 3)
	require.Equal(t, novelty, list.Data[1])
	require.Equal(t, "message", list.Data[0]["type"])
}

// tool_choice makes the model write a program first.
func TestAProgramIsDemanded(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, `
- output: [{call: {name: run_code, arguments: {code: "print(1)"}}}]
- output: [{text: "Done."}]
`)
	g := ask(t, s, 200, object{
		"input": "Go", "tools": []object{{"type": "programmatic_tool_calling"}}, "tool_choice": object{"type": "programmatic_tool_calling"},
		"temperature": 0.5, "max_output_tokens": 77, "text": object{"verbosity": "low"}, "parallel_tool_calls": false,
	})
	require.Equal(t, "program program_output message", g.types())
	require.Equal(t, "1\n", g.Output[1]["result"])
	sent := s.Model.Requests()
	require.Len(t, sent, 2)
	for _, member := range []string{`"tool_choice":{`, `"temperature":0.5`, `"max_output_tokens":77`, `"verbosity":"low"`, `"parallel_tool_calls":false`} {
		require.Contains(t, string(sent[0]), member)
	}
	require.Contains(t, string(sent[1]), `"tool_choice":"auto"`, "it is demanded once")
}
