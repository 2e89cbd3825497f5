package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/app"
	"github.com/portico-run/portico/modules/program/flat"
	"github.com/portico-run/portico/modules/tool/function"
	"github.com/portico-run/portico/modules/toolset/mark"
)

// knowing are functions of a server: one that searches, one that fetches, and
// one that no code may call.
func knowing() []function.Function {
	return []function.Function{
		{
			Name: "search_knowledge", Description: "Search the indexed documents.", ReadOnly: true, SandboxCallable: true,
			Input: json.RawMessage(`{"type":"object","required":["query"],"properties":{"query":{"type":"string","minLength":1},"top_k":{"type":"integer","minimum":1,"default":10}},"additionalProperties":false}`),
			Run: func(_ context.Context, c function.Caller, arguments json.RawMessage) (json.RawMessage, error) {
				return json.Marshal(fmt.Sprintf("%s by %t in %t", arguments, c.Actor.UID != "" && c.CallID != "", c.ProgramID != ""))
			},
		},
		{
			Name: "fetch_url", Description: "Fetch a page as Markdown.", ReadOnly: true, SandboxCallable: true,
			Input: json.RawMessage(`{"type":"object","required":["url"],"properties":{"url":{"type":"string"}},"additionalProperties":false}`),
			Run: func(_ context.Context, _ function.Caller, arguments json.RawMessage) (json.RawMessage, error) {
				if strings.Contains(string(arguments), "gone") {
					return nil, errs.New(errs.NotFound, "There is no such page.")
				}
				return json.RawMessage(`"# Title"`), nil
			},
		},
		{
			Name: "rebuild", Description: "Build the index again.", Idempotent: true, Input: json.RawMessage(`{"type":"object"}`),
			Run: func(context.Context, function.Caller, json.RawMessage) (json.RawMessage, error) {
				return json.RawMessage(`"built"`), nil
			},
		},
	}
}

// answering is a model that answers what it is asked, for 10 tokens in and 5 out.
func answering(t *testing.T) (env []string) {
	t.Helper()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var sent struct {
			Model     string `json:"model"`
			MaxOutput int    `json:"max_output_tokens"`
			Input     []struct{ Role, Content string }
			Tools     []any
		}
		if err := json.NewDecoder(r.Body).Decode(&sent); err != nil || len(sent.Input) != 1 || sent.Model != "asked" || len(sent.Tools) > 0 {
			http.Error(w, "not a question", http.StatusBadRequest)
			return
		}
		prompt, rest := sent.Input[0].Content, `"status":"completed"`
		if prompt == "long" {
			rest = `"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}`
		}
		said, _ := json.Marshal("to " + prompt)
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"model\":\"asked\",%s,\"output\":"+
			"[{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":%s}]}],\"usage\":{\"input_tokens\":10,\"output_tokens\":5}}}\n\n", rest, said)
	}))
	t.Cleanup(web.Close)
	return []string{"LLM_QUERY_MODEL=asked", "LLM_QUERY_MAX_PER_PROGRAM=6", "MODEL_BASE_URL=" + web.URL, "MODEL_API_KEY=sk-test", "MODEL_INPUT_PRICE=100000", "MODEL_OUTPUT_PRICE=200000"}
}

// withFunctions runs a test on a server of its own over each database.
func withFunctions(t *testing.T, test func(t *testing.T, s *instance), more ...string) {
	t.Helper()
	for _, d := range databasetest.Of(t) {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			s := serveOptions(t, environ(t, databasetest.URL(t, d), append(answering(t), more...)...), app.Options{Functions: knowing()})
			_, err := s.app.Flat.Service.Mark(t.Context(), mark.Mark{Toolset: "demo", Tool: "get_weather"})
			require.NoError(t, err)
			test(t, s)
		})
	}
}

// What programs call as plain functions, in one of them: the functions of the
// server, a marked tool and a model, by position and by name, awaited or not.
const flatProgram = `
import inspect, json, urllib.error, urllib.request

print(search_knowledge("auth patterns"))
print(search_knowledge("auth", 5), await search_knowledge(query="x", top_k=2))
print(fetch_url("https://example.com"))
print(get_weather("Oslo", 1)["city"], get_weather(city="Rome")["city"])
print(inspect.signature(search_knowledge), inspect.signature(get_weather).parameters["days"], search_knowledge.__doc__.splitlines()[0])
print(llm_query("prompt"), await llm_query(prompt="again"))
print(llm_query_batch(["a", "b", "c"]))

for call in (lambda: fetch_url("gone"), lambda: search_knowledge(""), lambda: search_knowledge("a", top_k="x")):
    try:
        call()
    except ToolExecutionError as error:
        print(error.code, str(error).replace("\n", " "))
for name in ("rebuild", "convert_currency", "rlm_exec"):
    print(name, name in globals())

def post(path, body, method="POST"):
    request = urllib.request.Request("http://127.0.0.1:5800" + path, body.encode(), {"Content-Type": "application/json"}, method=method)
    try:
        return json.load(urllib.request.urlopen(request))
    except urllib.error.HTTPError as error:
        said = json.load(error)
        return error.code, said["errMsg"], said["errDetail"]

print(post("/tool_call", '{"tool":"search_knowledge","input":{"query":"by hand"}}'))
print(post("/tool_call", '{"tool_name":"get_weather","input":{"city":"Oslo","days":1}}')["result"]["city"])
print(post("/llm_query", '{"prompt":"by hand"}'))
for name in ("rebuild", "convert_currency", "rlm_exec", "serch_knowledge"):
    print(post("/tool_call", json.dumps({"tool": name})))
print(post("/tool_call", '{"tool":"get_weather","input":{"town":"Oslo"}}'))
print(post("/tool_call", "{"), post("/tool_call", "{}")[0], post("/tool_call", "", "PUT")[0])
`

const flatOutput = `{"query":"auth patterns","top_k":10} by true in true
{"query":"auth","top_k":5} by true in true {"query":"x","top_k":2} by true in true
# Title
Oslo Rome
(query: str, top_k: int = 10) -> str days: int = 3 Search the indexed documents.
to prompt to again
['to a', 'to b', 'to c']
NOT_FOUND There is no such page.
INVALID_ARGUMENTS Invalid arguments: query: must have at least 1 characters, has 0
INVALID_ARGUMENTS Invalid arguments: top_k: must be integer
rebuild False
convert_currency False
rlm_exec False
{'result': '{"query":"by hand","top_k":10} by true in true'}
Oslo
{'result': 'to by hand'}
(403, 'Tool rebuild is not one that code may call.', '')
(404, 'There is no tool "convert_currency" that may be called here.', 'There are: apple_search, ask_knowledge, fetch_url, get_weather, llm_query, load_file, search_knowledge.')
(403, 'Tool rlm_exec cannot be called: it runs code, starts agents, or changes what is kept for everybody: a tool of this name is never called from code.', '')
(404, 'There is no tool "serch_knowledge" that may be called here.', 'Did you mean search_knowledge or ask_knowledge? There are: apple_search, ask_knowledge, fetch_url, get_weather, llm_query, load_file, search_knowledge.')
`

// Programs call plain functions as they are written, results are values, and what
// is not marked is refused however it is asked for. Each call is recorded, and a
// model is billed once for each of its answers.
func TestPlainFunctionsInPrograms(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	withFunctions(t, func(t *testing.T, s *instance) {
		o := s.run(map[string]any{"code": flatProgram})
		require.Equal(t, "completed", o.Status, o.Stderr)
		require.True(t, strings.HasPrefix(o.Stdout, flatOutput), o.Stdout)
		rest := strings.Split(strings.TrimPrefix(o.Stdout, flatOutput), "\n")
		require.Regexp(t, `^\(400, 'get_weather failed: Invalid arguments: .*city.*town`, rest[0])
		require.Regexp(t, `^\(400, .* 400 405$`, rest[1])
		require.Equal(t, 6, s.count("SELECT count(*) FROM tool_call_results WHERE ptc_call_id = ? AND toolset_id = 'portico' AND tool_name = 'llm_query' AND status = 'completed'", o.CallID))
		require.Equal(t, 6, s.count("SELECT count(*) FROM credit_usages WHERE usage_type = 'model_call' AND action_result_id = ? AND amount = 2", o.ResultID))
		require.Equal(t, 3, s.count("SELECT count(*) FROM tool_call_results WHERE ptc_call_id = ? AND toolset_id = 'demo' AND tool_name = 'get_weather' AND status = 'completed'", o.CallID))
		require.Equal(t, 6, s.count("SELECT count(*) FROM run_events e JOIN tool_call_results c ON c.call_id = e.call_id WHERE c.ptc_call_id = ? AND c.tool_name = 'llm_query' AND e.type = 'tool_call_start'", o.CallID))

		again := s.run(map[string]any{"code": "def search_knowledge(q): return 'mine'\nprint(search_knowledge('x'))\nprint(*llm_query_batch(['p'] * 6))\nllm_query('p')"})
		require.Equal(t, "mine\n"+strings.TrimSpace(strings.Repeat("to p ", 6))+"\n", again.Stdout, "a function of one's own comes first, and each program may ask as often")
		require.Contains(t, again.Stderr, "has asked the model 6 times")
		cut := s.run(map[string]any{"code": "try: llm_query('long')\nexcept ToolExecutionError as e: print(e.code)"})
		require.Equal(t, "LLM_QUERY_CUT\n", cut.Stdout, "nobody takes a part for the whole")

		other := s.run(map[string]any{"code": "print('get_weather' in globals(), search_knowledge('x')[:9])", "toolsets": []string{"other"}})
		require.Equal(t, "False {\"query\":\n", other.Stdout, "a program that is given toolsets has the functions of these")
		both := s.run(map[string]any{"code": "print(get_weather('Oslo', 1)['city'], list_cities() is not None)", "toolsets": []string{"demo"}})
		require.Equal(t, "Oslo True\n", both.Stdout, both.Stderr)
	})
}

// Over HTTP, with the key of a user, or with that of a program that executes.
func TestPlainFunctionsOverHTTP(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	withFunctions(t, func(t *testing.T, s *instance) {
		for _, c := range []struct {
			key, method, path, body string
			status                  int
			says                    string
		}{
			{s.key, "POST", "/tool_call", `{"tool":"search_knowledge","input":{"query":"a","top_k":3}}`, 200, `{"result":"{\"query\":\"a\",\"top_k\":3} by true in false"}`},
			{s.key, "POST", "/tool_call", `{"tool":"get_weather","tool_name":"get_weather","input":{"city":"Oslo","days":1}}`, 200, `"city":"Oslo"`},
			{s.key, "POST", "/llm_query", `{"prompt":"q"}`, 200, `{"result":"to q"}`},
			{s.key, "POST", "/tool_call", `{"tool":"get_weather","tool_name":"fetch_url"}`, 400, "differ"},
			{s.key, "POST", "/tool_call", `{"tool":"get_weather","input":[1]}`, 400, "not a JSON object"},
			{s.key, "POST", "/tool_call", `{"tool":"get_weather"}`, 400, "city: is required"},
			{s.key, "POST", "/tool_call", `{"tool":"weather"}`, 404, "Did you mean get_weather?"},
			{s.key, "POST", "/tool_call", `{"tool":"fetch_url","input":{"url":"gone"}}`, 404, "There is no such page."},
			{s.key, "POST", "/tool_call", `nonsense`, 400, "errMsg"},
			{s.key, "POST", "/llm_query", `{}`, 400, "prompt is missing"},
			{s.key, "POST", "/llm_query", `{"prompt":"long"}`, 502, "E0029"},
			{s.key, "GET", "/tool_call", ``, 405, "E0025"},
			{s.key, "DELETE", "/llm_query", ``, 405, "E0025"},
			{"", "POST", "/tool_call", `{"tool":"get_weather"}`, 401, "E0012"},
			{"rf_foreign", "POST", "/llm_query", `{"prompt":"q"}`, 401, "E0012"},
			{s.key, "POST", "/tool_call", `{"tool":"` + strings.Repeat("x", 200) + `"}`, 400, "tool is too long"},
			{s.key, "POST", "/tool_call", `{"tool":"fetch_url","input":{"url":"` + strings.Repeat("x", 1<<20) + `"}}`, 413, "E0023"},
		} {
			got := s.send(c.key, c.method, c.path, c.body)
			require.Equal(t, c.status, got.status, "%s %s %.80s: %s", c.method, c.path, c.body, got.raw)
			require.Contains(t, got.raw, c.says, c.body)
		}
		require.Equal(t, 2, s.count("SELECT count(*) FROM credit_usages WHERE usage_type = 'model_call'"), "an answer that was cut is paid for, too")

		var outside struct{ ToolCallID, APIKey string }
		require.NoError(t, json.Unmarshal(s.send(s.key, "POST", "/v1/action/register", map[string]any{"code": "x", "withKey": true}).body.Data, &outside))
		body := `{"tool":"search_knowledge","input":{"query":"a"}}`
		require.Equal(t, 403, s.send(outside.APIKey, "POST", "/tool_call", body).status, "a program's key counts with the program")
		got := s.send(outside.APIKey, "POST", "/tool_call", body, "x-ptc-call-id", outside.ToolCallID)
		require.Equal(t, 200, got.status, got.raw)
		require.Contains(t, got.raw, "in true")
	}, "PORTICO_BODY_LIMIT=512KiB")
}

// Where plain functions are switched off, and where no model is named, llm_query
// and its text are what they were, and the rest is refused.
func TestPlainFunctionsSwitchedOff(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	on := serveOptions(t, environ(t, databasetest.URL(t, database.SQLite), answering(t)...), app.Options{Functions: knowing()})
	off := serveOptions(t, environ(t, databasetest.URL(t, database.SQLite), append(answering(t), "FLAT_TOOLS=false")...), app.Options{Functions: knowing()})
	o := off.run(map[string]any{"code": "print(llm_query('p'), 'search_knowledge' in globals())"})
	require.Equal(t, "to p False\n", o.Stdout, o.Stderr)
	refused := off.send(off.key, "POST", "/tool_call", `{"tool":"search_knowledge","input":{"query":"a"}}`)
	require.Equal(t, 403, refused.status)
	require.Contains(t, refused.raw, "FLAT_TOOLS=true")
	whole := on.send(on.key, "GET", "/v1/sandbox/stubs?callbackUrl=http://x:1", nil).raw
	alone := off.send(off.key, "GET", "/v1/sandbox/stubs?callbackUrl=http://x:1", nil).raw
	require.True(t, strings.HasPrefix(whole, alone), "llm_query comes first and is the same byte for byte")
	require.NotContains(t, alone, "llm_query_batch")
	require.Contains(t, whole, "def search_knowledge(query: str, top_k: int = 10) -> str:")

	none := serve(t, databasetest.URL(t, database.SQLite))
	got := none.send(none.key, "POST", "/llm_query", `{"prompt":"q"}`)
	require.Equal(t, 403, got.status)
	require.Contains(t, got.raw, "LLM_QUERY_MODEL")
	require.Equal(t, "False\n", none.run(map[string]any{"code": "print('llm_query' in globals())"}).Stdout)
	nothing := serveOptions(t, environ(t, databasetest.URL(t, database.SQLite), "FLAT_TOOLS=false"), app.Options{})
	require.Equal(t, 404, nothing.send(nothing.key, "GET", "/v1/sandbox/stubs", nil).status)
}

// The text for sandboxes of others needs Python alone, holds no key, and calls
// back to where it was told that the server is.
func TestStubsInAPlainPython(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	withFunctions(t, func(t *testing.T, s *instance) {
		got := s.send(s.key, "GET", "/v1/sandbox/stubs?callbackUrl="+s.url, nil)
		require.Equal(t, 200, got.status, got.raw)
		require.NotContains(t, got.raw, s.key)
		code := got.raw + `
print(search_knowledge("auth", 5))
print(get_weather(city="Oslo", days=1)["city"], get_weather("Rome")["city"])
print(llm_query("p"), llm_query_batch(str(n) for n in range(6)))
for call in (lambda: fetch_url("gone"), lambda: get_weather("")):
    try:
        call()
    except ToolExecutionError as error:
        print(error.status, error.code, error)
`
		python := exec.CommandContext(t.Context(), "python3", "-I", "-c", code)
		python.Env = []string{"PATH=" + os.Getenv("PATH"), "PORTICO_API_KEY=" + s.key, "http_proxy=http://127.0.0.1:1"}
		out, err := python.CombinedOutput()
		require.NoError(t, err, string(out))
		require.Equal(t, `{"query":"auth","top_k":5} by true in false
Oslo Rome
to p ['to 0', 'to 1', 'to 2', 'to 3', 'to 4', 'to 5']
404 E0021 fetch_url failed: There is no such page. (NOT_FOUND)
400 E0003 get_weather failed: Invalid arguments: city: must have at least 1 characters, has 0 (INVALID_ARGUMENTS)
`, string(out))
		for query, url := range map[string]string{"": "http://host.docker.internal:", "?local=true": "http://127.0.0.1:"} {
			text := s.send(s.key, "GET", "/v1/sandbox/stubs"+query, nil).raw
			require.Contains(t, text, `PORTICO_URL = "`+url)
		}
		for _, wrong := range []string{"ftp://x", "http://u:p@x", "x", "http://x?a=b", "http://x&local=true"} {
			require.Equal(t, 400, s.send(s.key, "GET", "/v1/sandbox/stubs?callbackUrl="+wrong, nil).status, wrong)
		}
	})
}

// Only tools that read or may be repeated are marked, and none of the refused
// names: neither by a command, nor in a registry.
func TestWhatCannotBeMarked(t *testing.T) {
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite))
	for want, m := range map[string]mark.Mark{
		"only if it only reads":              {Toolset: "demo", Tool: "save_note"},
		"never called from code":             {Toolset: "demo", Tool: "get_weather", Name: "rlm_exec"},
		"which every program has":            {Toolset: "demo", Tool: "get_weather", Name: "llm_query"},
		"cannot be a function named \"a-b\"": {Toolset: "demo", Tool: "get_weather", Name: "a-b"},
		"not found in toolset":               {Toolset: "demo", Tool: "nothing"},
		"toolset not found":                  {Toolset: "nothing", Tool: "x"},
	} {
		_, err := s.app.Flat.Service.Mark(t.Context(), m)
		require.Error(t, err, want)
		require.Contains(t, strings.ToLower(errs.Message(err)), strings.ToLower(want))
	}
	_, err := s.app.Flat.Service.Mark(t.Context(), mark.Mark{Toolset: "demo", Tool: "save_note", Name: "note", Idempotent: true})
	require.NoError(t, err)
	_, err = s.app.Flat.Service.Mark(t.Context(), mark.Mark{Toolset: "demo", Tool: "get_weather", Name: "note"})
	require.Equal(t, errs.Conflict, errs.CodeOf(err))
	list, err := s.app.Flat.Service.Marks(t.Context())
	require.NoError(t, err)
	require.Equal(t, []flat.Marked{{Mark: mark.Mark{Toolset: "demo", Tool: "save_note", Name: "note", Idempotent: true}}}, list)
	require.NoError(t, s.app.Flat.Service.Unmark(t.Context(), "demo", "save_note"))
	require.Equal(t, errs.NotFound, errs.CodeOf(s.app.Flat.Service.Unmark(t.Context(), "demo", "save_note")))
}

// A model that writes code reads the lines of plain functions, and its programs
// have them as they are written there.
func TestAgentsAreToldOfPlainFunctions(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	model, env := script(t, `
- output: [`+programCall(t, "execute_code", "print(search_knowledge('auth', 5), get_weather('Oslo', 1)['city'])")+`]
- output: [{text: "Done."}]
`)
	s := serveOptions(t, environ(t, databasetest.URL(t, database.SQLite), env...), app.Options{Functions: knowing()})
	_, err := s.app.Flat.Service.Mark(t.Context(), mark.Mark{Toolset: "demo", Tool: "get_weather"})
	require.NoError(t, err)
	r := s.invoke(t, map[string]any{"query": "Go", "ptc": "on"})
	require.Equal(t, "finish", r.Status, "%v", r.Errors)
	told := strings.ReplaceAll(string(model.Requests()[0]), `\u003e`, ">")
	require.Contains(t, told, `search_knowledge(query: str, top_k?: int) -> str  # Search the indexed documents`)
	require.Contains(t, told, `get_weather(city: str, days?: int) -> {`)
	require.NotContains(t, told, "rebuild(")
	got := outputs(t, model)
	require.Len(t, got, 1)
	require.Contains(t, got[0], `{"query":"auth","top_k":5} by true in true Oslo`)
}

// A cell of a persistent interpreter keeps what an earlier one defined in place
// of a plain function.
func TestOwnFunctionsStayInInterpreters(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	model, env := script(t, `
- output: [{call: {name: python_repl, arguments: {code: "print(search_knowledge('a')[:9])\ndef fetch_url(u): return 'mine'", reset: null, timeout: null}}}]
- output: [{call: {name: python_repl, arguments: {code: "print(fetch_url('x'), search_knowledge('b')[:9])", reset: null, timeout: null}}}]
- output: [{text: "Done."}]
`)
	s := serveOptions(t, environ(t, databasetest.URL(t, database.SQLite), env...), app.Options{Functions: knowing()})
	r := s.invoke(t, map[string]any{"query": "Go", "ptc": "on", "canvasId": s.canvas("c")})
	require.Equal(t, "finish", r.Status, "%v", r.Errors)
	got := outputs(t, model)
	require.Len(t, got, 2)
	require.Contains(t, got[0], `{"query":`)
	require.Contains(t, got[1], `mine {"query":`)
}

// A function that code may not call is refused on the road of all tools, too.
// People and scripts call it there, as a tool of the server.
func TestUnmarkedFunctionsAreRefusedEverywhere(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	s := serveOptions(t, environ(t, databasetest.URL(t, database.SQLite)), app.Options{Functions: knowing()})
	o := s.run(map[string]any{"code": `
import json, urllib.request
body = json.dumps({"toolsetKey": "portico", "toolName": "rebuild", "arguments": {}}).encode()
print(json.load(urllib.request.urlopen(urllib.request.Request("http://127.0.0.1:5800/v1/tool/execute", body, {"Content-Type": "application/json"})))["data"]["errorCode"])`})
	require.Equal(t, "CALLER_NOT_ALLOWED\n", o.Stdout, o.Stderr)
	got := s.send(s.key, "POST", "/v1/tool/execute", `{"toolsetKey":"portico","toolName":"rebuild","arguments":{}}`)
	require.Contains(t, got.raw, `"data":"built"`)
	require.Equal(t, 1, s.count("SELECT count(*) FROM tool_call_results WHERE tool_name = 'rebuild' AND status = 'completed'"))
}
