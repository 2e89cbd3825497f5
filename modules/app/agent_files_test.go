package app_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
	toolsetfile "github.com/portico-run/portico/modules/toolset/file"
)

// invoke runs an agent to its end and returns what it was.
func (s *instance) invoke(t *testing.T, body map[string]any) result {
	t.Helper()
	a := s.send(s.key, "POST", "/v1/skill/invoke", body)
	require.Equal(t, 200, a.status, a.raw)
	var started struct{ ResultID string }
	require.NoError(t, json.Unmarshal(a.body.Data, &started))
	return s.finished(t, s.key, started.ResultID)
}

// names are the files of a list, sorted by their creation.
func names(files []driveFile) string {
	var list []string
	for _, f := range files {
		list = append([]string{f.Name}, list...)
	}
	return strings.Join(list, " ")
}

// A24, A18: an uploaded CSV is Parquet for every tool; what code writes is a
// file of the canvas, what failed code writes is not; a chart is drawn of a
// table, with empty texts for what is left out (docs/wire/refly.md#charts).
func TestAgentWorksWithFiles(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	_, env := script(t, `
- expect: ["Files: the run belongs to a canvas"]
  output: [{call: {name: list_files}}, {call: {name: read_file, arguments: {file: sales.parquet, offset: 1, limit: 1}}}, {call: {name: read_file, arguments: {file: nothing, offset: null, limit: null}}}, {call: {name: read_file, arguments: {file: notes.txt, offset: 2, limit: null}}}, {call: {name: read_file, arguments: {file: blob.bin, offset: null, limit: null}}}]
- expect: ["Table with region text, amount integer. Rows: 3.", "\"totalRows\":3", "\"amount\":20", "there is no file \"nothing\"", "\"text\":\"te\"", "neither a table nor a text"]
  output:
    - call:
        name: execute_code
        arguments:
          code: |
            import pandas, os
            open("half.txt", "w").write("lost")
            raise SystemExit(3)
          timeout: null
- expect: ["(exit code 3)"]
  reject: ["kept in the canvas: "]
  output:
    - call:
        name: execute_code
        arguments:
          code: |
            import pandas, os
            t = pandas.read_parquet("sales.parquet").groupby("region", as_index=False).amount.sum()
            t.to_parquet("by region.parquet")
            os.makedirs("deep", exist_ok=True); open("deep/x.txt", "w").write("x")
            print(sorted(os.listdir(".")))
          timeout: 60
- expect: ["kept in the canvas: by region.parquet", "kept in the canvas: deep-x.txt, text/plain", "'blob.bin', 'by region.parquet', 'deep', 'notes.txt', 'sales.parquet'"]
  output:
    - call: {name: create_chart, arguments: {df_name: "by region", logical_name: "", chart_type: column, x_field: region, x_label: "", y_label: "", series: [{name: "", y_field: amount}], title: "Sales", note: ""}}
    - call: {name: create_chart, arguments: {df_name: sales.parquet, logical_name: x, chart_type: pie, x_field: region, x_label: "", y_label: "", series: [{name: "", y_field: amount}], title: "", note: ""}}
    - call: {name: create_chart, arguments: {df_name: sales.parquet, logical_name: x, chart_type: bar, x_field: nothing, x_label: "", y_label: "", series: [{name: "", y_field: amount}], title: "", note: ""}}
- expect: ["Sales.png", "Sales.vl.json", "\"points\":2", "chart_type", "There is no column 'nothing'; the columns are: region, amount."]
  output: [{text: "Drawn."}]
`)
	each(t, func(t *testing.T, s *instance) {
		canvas := s.canvas("sales")
		s.store(canvas, "sales.csv", "region,amount\nNorth,10\nSouth,20\nNorth,30\n")
		s.store(canvas, "notes.txt", "note")
		s.store(canvas, "blob.bin", "\x00\xff\xfe")
		r := s.invoke(t, map[string]any{"query": "Draw", "canvasId": canvas})
		require.Equal(t, "finish", r.Status, "%v", r.Errors)
		files := s.files(canvas)
		require.Equal(t, map[string]bool{
			"sales.parquet": true, "notes.txt": true, "blob.bin": true, "by region.parquet": true, "deep-x.txt": true, "Sales.png": true, "Sales.vl.json": true,
		}, set(strings.Split(strings.ReplaceAll(names(files), "by region", "by_region"), " ")))
		for _, f := range files {
			if f.Name == "Sales.png" {
				require.Equal(t, "agent", f.Source)
				require.NotEmpty(t, f.ResultID)
				a := s.send(s.key, "GET", "/v1/drive/file/content/"+f.FileID, nil)
				require.True(t, strings.HasPrefix(a.raw, "\x89PNG"))
				require.Contains(t, a.header.Get("Content-Disposition"), "inline")
			}
		}
	}, env...)
}

func set(list []string) map[string]bool {
	out := map[string]bool{}
	for _, v := range list {
		out[strings.ReplaceAll(v, "by_region", "by region")] = true
	}
	return out
}

// Without a canvas there are no files, and the tools say so.
func TestAgentWithoutCanvas(t *testing.T) {
	t.Parallel()
	_, env := script(t, `
- reject: ["Files: the run belongs"]
  output: [{call: {name: list_files}}, {call: {name: read_file, arguments: {file: x, offset: null, limit: null}}}]
- expect: ["this run belongs to no canvas"]
  output: [{text: "None."}]
`)
	s := serve(t, databasetest.URL(t, database.SQLite), env...)
	require.Equal(t, "finish", s.invoke(t, map[string]any{"query": "Files?"}).Status)
}

// The interpreter of a canvas keeps what code defines, over runs; another
// canvas, another user and a reset begin anew. Tools are called from it, as
// children of the code that calls.
func TestInterpreter(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	cell := func(code string) string {
		text, err := json.Marshal(map[string]any{"code": code, "reset": nil, "timeout": nil})
		require.NoError(t, err)
		return "{call: {name: python_repl, arguments: " + string(text) + "}}"
	}
	_, env := script(t, `
- expect: [First]
  reject: [Second]
  output: [`+cell("import math\ndef area(r): return math.pi * r * r\nx = 41\nprint('set')\nx + 1")+`]
- expect: ["set\n42\n", "a new interpreter"]
  output: [`+cell("r = await get_weather(city='Oslo', file_name_title='x') if False else get_weather(city='Oslo', file_name_title='x')\nlen(r['forecast'])")+`]
- expect: ["3\n"]
  output: [`+cell("1/0")+`, `+cell("while True: pass")+`]
- expect: ["<cell 3>\", line 1", "ZeroDivisionError", "ended with timeout", "stopped at its time limit", "variables are kept"]
  output: [`+cell("open('from_repl.txt', 'w').write('kept'); round(area(1), 2)")+`]
- expect: ["3.14", "kept in the canvas: from_repl.txt"]
  output: [{text: "First done."}]
- on: Second
  output: [`+cell("x, area(0), open('late.txt').read(), open('from_repl.txt').read()")+`]
- expect: ["(41, 0.0, 'uploaded meanwhile', 'kept')"]
  output: [{call: {name: python_repl, arguments: {code: "", reset: true, timeout: null}}}]
- expect: ["begins anew"]
  output: [`+cell("x")+`]
- expect: ["NameError"]
  output: [`+cell("import os; os._exit(0)")+`]
- expect: ["the interpreter has ended"]
  output: [`+cell("exit()")+`]
- expect: ["a new interpreter"]
  output: [{text: "Second done."}]
`)
	url := databasetest.URL(t, database.Postgres)
	s := serve(t, url, append(env, "PTC_TIMEOUT=4")...)
	canvas := s.canvas("repl")
	for _, query := range []string{"First", "Second"} {
		if query == "Second" {
			s.store(canvas, "late.txt", "uploaded meanwhile")
		}
		r := s.invoke(t, map[string]any{"query": query, "canvasId": canvas, "toolsets": []string{"demo"}})
		require.Equal(t, "finish", r.Status, "%v", r.Errors)
		require.Equal(t, query+" done.", r.Messages[len(r.Messages)-1].Content)
	}
	require.Equal(t, 1, s.count(`SELECT count(*) FROM tool_call_results c JOIN tool_call_results p ON p.call_id = c.ptc_call_id
		WHERE c.tool_name = 'get_weather' AND c.status = 'completed' AND p.tool_name = 'python_repl'`))
	require.Equal(t, "from_repl.txt late.txt", names(s.files(canvas)))
	require.Zero(t, s.count("SELECT count(*) FROM tool_call_results WHERE status = 'executing'"))
}

// Where PTC is off, the interpreter is plain Python: it reaches no tool.
func TestInterpreterWithoutTools(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	_, env := script(t, `
- expect: ["It has no tools"]
  output: [{call: {name: python_repl, arguments: {code: "try:\n    from refly_tools.demo import Demo\nexcept ImportError as e: print('no', e)\nprint('get_weather' in globals())", reset: null, timeout: null}}}]
- expect: ["no No module named", "False"]
  output: [{text: ok}]
`)
	s := serve(t, databasetest.URL(t, database.SQLite), append(env, "PTC_MODE=off")...)
	r := s.invoke(t, map[string]any{"query": "Go", "toolsets": []string{"demo"}})
	require.Equal(t, "finish", r.Status, "%v", r.Errors)
}

// C13, C14: five reads and an aggregation in one execution are one answer of
// the model, and nothing of what was read is in any request.
func TestReadsAndAggregationAreOneRoundTrip(t *testing.T) {
	t.Parallel()
	model, env := script(t, `
- output:
    - call:
        name: execute_code
        arguments:
          code: |
            from refly_tools.demo import Demo
            days = [Demo.get_weather(city=c, days=14, file_name_title=c)["data"]["forecast"] for c in ("Oslo", "Rome", "Cairo", "Lima", "Quito")]
            print("mean of", sum(len(d) for d in days), "days:", round(sum(x["celsius"] for d in days for x in d) / sum(len(d) for d in days), 1))
          timeout: null
- expect: ["mean of 70 days: "]
  output: [{text: "There."}]
`)
	s := serve(t, databasetest.URL(t, database.SQLite), env...)
	r := s.invoke(t, map[string]any{"query": "How warm?", "toolsets": []string{"demo"}, "resultId": "ar-five"})
	require.Equal(t, "finish", r.Status, "%v", r.Errors)
	require.Len(t, model.Requests(), 2, "one to write the program, one to answer")
	require.Equal(t, 5, s.count("SELECT count(*) FROM tool_call_results WHERE result_id = 'ar-five' AND type = 'ptc' AND status = 'completed'"))
	for _, raw := range model.Requests() {
		require.NotContains(t, string(raw), "cloudy", "a value of the forecasts")
	}
}

// A run continues earlier ones: the questions and the answers, in order, and
// nobody else's.
func TestAgentContinues(t *testing.T) {
	t.Parallel()
	model, env := script(t, `
- expect: ["Red?"]
  reject: ["Blue?"]
  output: [{text: "Red it is."}]
- on: Blue
  expect: ["Red?", "Red it is.", "Blue?"]
  reject: [function_call]
  output: [{text: "Blue it is."}]
`)
	s := serve(t, databasetest.URL(t, database.SQLite), env...)
	require.Equal(t, "finish", s.invoke(t, map[string]any{"query": "Red?", "resultId": "ar-red"}).Status)
	r := s.invoke(t, map[string]any{"query": "Blue?", "history": []string{"ar-red"}, "resultId": "ar-blue"})
	require.Equal(t, "finish", r.Status, "%v", r.Errors)
	var sent struct{ Input []map[string]any }
	requests := model.Requests()
	require.NoError(t, json.Unmarshal(requests[len(requests)-1], &sent))
	require.Equal(t, []any{"system", "user", "assistant", "user"}, []any{sent.Input[0]["role"], sent.Input[1]["role"], sent.Input[2]["role"], sent.Input[3]["role"]})
	require.Equal(t, 1, s.count(`SELECT count(*) FROM action_results WHERE history = '["ar-red"]'`))
	require.Equal(t, 404, s.send(s.another("ben"), "POST", "/v1/skill/invoke", map[string]any{"query": "x", "history": []string{"ar-red"}}).status)
	require.Equal(t, 404, s.send(s.key, "POST", "/v1/skill/invoke", map[string]any{"query": "x", "history": []string{"ar-none"}}).status)
}

// toolsetFile is a toolset of so many tools on the bundled upstream.
func toolsetFile(key string, tools int, more string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "key: %s\nname: %s\ndomain: ${PORTICO_DEMO_URL}\ncredential: {type: header, name: X-Demo-Key, value: \"${PORTICO_DEMO_KEY}\"}\n"+
		"egress: {allow: [127.0.0.0/8]}\nbilling: 0\nmethods:\n", key, key)
	for n := range tools {
		fmt.Fprintf(&b, "  - name: tool_%d\n    description: Lists the cities, in way number %d of many ways to do so.\n    endpoint: /cities\n    method: GET\n"+
			"    request: {type: object, additionalProperties: false, properties: {min_population: {type: integer, description: \"Only cities with at least so many people, and a long text besides\"}}}\n", n, n)
	}
	return b.String() + more
}

func (s *instance) apply(t *testing.T, files map[string]string) {
	t.Helper()
	var list []toolsetfile.File
	for name, text := range files {
		list = append(list, toolsetfile.File{Name: name, Content: []byte(text)})
	}
	_, err := s.app.ToolsetFiles.Apply(t.Context(), list)
	require.NoError(t, err)
}

// Where describing a few tools for code costs more than their schemas, they
// are called plainly, and the run says so; of many tools it is the other way.
// Tools that code comes first for keep it. The explanation names the check.
func TestBreakEven(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	model, env := script(t, `
- expect: [few_tool_0]
  reject: [execute_code, search_tools]
  output: [{text: "Plain."}]
- on: many
  expect: [execute_code, tool_39]
  reject: [many_tool_39]
  output: [{text: "Code."}]
- on: codeonly
  expect: [execute_code]
  output: [{text: "Code."}]
- on: server
  expect: [execute_code, "github__list("]
  reject: [server_github__list]
  output: [{text: "Code."}]
`)
	s := serve(t, databasetest.URL(t, database.SQLite), append(env, "AGENT_BREAK_EVEN=true")...)
	s.apply(t, map[string]string{
		"few.yaml": toolsetFile("few", 2, ""), "many.yaml": toolsetFile("many", 40, ""),
		"only.yaml":   toolsetFile("only", 1, "    allowedCallers: [code]\n"),
		"server.yaml": strings.ReplaceAll(toolsetFile("server", 1, ""), "tool_0", "github__list"),
	})
	for _, answer := range []string{
		s.send(s.key, "GET", "/v1/ptc/decision?toolsets=few", nil).raw,
		s.send(s.key, "GET", "/v1/ptc/decision", nil).raw,
	} {
		require.Contains(t, answer, `"enabled":true`)
		require.Regexp(t, `"check":"break_even","result":"skip","reason":"AGENT_BREAK_EVEN is true[^"]*"}\]`, answer, "the last step")
	}
	r := s.invoke(t, map[string]any{"query": "few?", "toolsets": []string{"few"}, "resultId": "ar-few"})
	require.Equal(t, "finish", r.Status, "%v", r.Errors)
	require.False(t, r.PTCEnabled)
	events := s.send(s.key, "GET", "/v1/action/ar-few/events", nil).raw
	require.Regexp(t, `Tools are called plainly: describing them takes \d+ tokens of each request, and \d+ for programs\.`, events)
	r = s.invoke(t, map[string]any{"query": "many?", "toolsets": []string{"many"}})
	require.Equal(t, "finish", r.Status, "%v", r.Errors)
	require.True(t, r.PTCEnabled)
	r = s.invoke(t, map[string]any{"query": "codeonly?", "toolsets": []string{"only"}})
	require.Equal(t, "finish", r.Status, "%v", r.Errors)
	require.True(t, r.PTCEnabled, "plainly, the tool could not be called at all")
	r = s.invoke(t, map[string]any{"query": "server?", "toolsets": []string{"server"}})
	require.Equal(t, "finish", r.Status, "%v", r.Errors)
	require.True(t, r.PTCEnabled, "code comes first for a name with __")
	require.Len(t, model.Requests(), 4)
}

// Who may call a tool follows from its name and from what its file says; it is
// enforced when it is called. A name that the server gives a tool of its own is
// an ordinary one in a toolset. The number of schemas does not grow with the
// tools.
func TestCallersAreEnforced(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	const tools = `
  - {name: complete, description: Ends the work., endpoint: /cities, method: GET, request: {type: object, properties: {}}}
  - {name: github__complete, description: Of a server., endpoint: /cities, method: GET, request: {type: object, properties: {}}}
  - {name: careful, description: Is asked for alone., endpoint: /cities, method: GET, allowedCallers: [direct], request: {type: object, properties: {}}}
  - {name: hidden, description: Only code calls it., endpoint: /cities, method: GET, allowedCallers: [code], request: {type: object, properties: {}}}
`
	model, env := script(t, `
- expect: [mixed_careful, "complete(", "github__complete(", "hidden(", "tool_0("]
  reject: [mixed_hidden, mixed_complete, mixed_github__complete, "careful(", mixed_tool_0]
  output:
    - call: {name: mixed_careful, arguments: {file_name_title: x}}
    - call: {name: mixed_hidden, arguments: {file_name_title: x}}
    - call:
        name: execute_code
        arguments:
          code: |
            print("complete" in globals(), "careful" in globals(), "github__complete(" in search_tools("complete"), "careful(" in search_tools("careful"), "no tool" in help("careful"))
            print([k for k in dir(__import__("refly_tools.mixed").mixed.Mixed) if "complete" in k or "careful" in k])
            print(hidden(file_name_title="x")["cities"][0]["name"], complete(file_name_title="x")["cities"][0]["name"], github__complete(file_name_title="x")["cities"][0]["name"])
            import json, os, socket
            s = socket.socket(socket.AF_UNIX); s.connect("/run/portico/tool.sock")
            body = json.dumps({"toolsetKey": "mixed", "toolName": "careful", "arguments": {"file_name_title": "x"}})
            s.sendall(("POST /v1/tool/execute HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)).encode())
            text = b""
            while part := s.recv(65536): text += part
            print(text.decode().split("\r\n\r\n")[1])
          timeout: null
- expect: ["there is no tool \"mixed_hidden\"", "True False True False True", "['complete', 'github__complete']", "Cairo Cairo Cairo", "CALLER_NOT_ALLOWED", "Tool careful may not be called from code"]
  output: [{text: "Done."}]
`)
	each(t, func(t *testing.T, s *instance) {
		s.apply(t, map[string]string{"mixed.yaml": toolsetFile("mixed", 3, tools)})
		r := s.invoke(t, map[string]any{"query": "Go", "toolsets": []string{"mixed"}})
		require.Equal(t, "finish", r.Status, "%v", r.Errors)
		for _, raw := range model.Requests() {
			require.Equal(t, 11, strings.Count(string(raw), `"type":"function"`), "ten of the server's own and the one that is direct")
		}
	}, env...)
}

// A file that a toolset is read from changes while a run works: the next
// request, and the next program, have the new tools.
func TestToolsetsChangeDuringARun(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	_, env := script(t, `
- expect: ["tool_0("]
  reject: ["tool_1("]
  output: [{call: {name: execute_code, arguments: {code: "import time\nprint('ready', flush=True)\nwhile not tool_0(file_name_title='x')['cities']: pass\ntime.sleep(4)\nprint('tool_1' in globals())", timeout: null}}}]
- expect: ["False", "tool_1("]
  output: [{call: {name: execute_code, arguments: {code: "print(tool_1(file_name_title='x')['cities'][0]['name'])", timeout: null}}}]
- expect: [Cairo]
  output: [{text: "Done."}]
`)
	s := serve(t, databasetest.URL(t, database.Postgres), env...)
	s.apply(t, map[string]string{"grows.yaml": toolsetFile("grows", 1, "")})
	answer, body := s.stream(t, s.key, map[string]any{"query": "Go", "toolsets": []string{"grows"}, "resultId": "ar-grows"})
	require.Equal(t, 200, answer.StatusCode)
	for body.Scan() {
		if strings.Contains(body.Text(), `"content":"ready"`) {
			break
		}
	}
	s.apply(t, map[string]string{"grows.yaml": toolsetFile("grows", 2, "")})
	r := s.finished(t, s.key, "ar-grows")
	require.Equal(t, "finish", r.Status, "%v", r.Errors)
}

// One id joins the request of a client, the run, the model, the program in the
// sandbox and the calls that it makes.
func TestOneCorrelationID(t *testing.T) {
	t.Parallel()
	_, env := script(t, `
- output: [{call: {name: execute_code, arguments: {code: "import os\nget_weather(city='Oslo', file_name_title='x')\nprint(os.environ['PORTICO_TRACE_ID'])", timeout: null}}}]
- expect: ["trace-of-a-client"]
  output: [{text: "Done."}]
`)
	s := serve(t, databasetest.URL(t, database.SQLite), env...)
	a := s.send(s.key, "POST", "/v1/skill/invoke", map[string]any{"query": "Go", "toolsets": []string{"demo"}, "resultId": "ar-trace"}, "X-Request-Id", "trace-of-a-client")
	require.Equal(t, 200, a.status, a.raw)
	require.Equal(t, "finish", s.finished(t, s.key, "ar-trace").Status)
	for _, what := range []string{"msg=request .*path=/v1/skill/invoke", "msg=\"model attempt\"", "msg=\"a model calls a tool\"", "msg=\"a model answered\".*inputTokens=", "msg=\"a tool returned\" .*failed=false", "msg=request .*path=/v1/tool/execute"} {
		require.Regexp(t, "(?m)^.*"+what+".*traceId=trace-of-a-client", s.log.String())
	}
	require.NotRegexp(t, "traceId=.*traceId=", s.log.String())
}
