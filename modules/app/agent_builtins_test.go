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
)

// program is the call of a program in a script, as the tool of that name.
func programCall(t *testing.T, name, code string) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{"code": code, "timeout": nil})
	require.NoError(t, err)
	return fmt.Sprintf("{call: {name: %s, arguments: %s}}", name, text)
}

// With PTC_MODE=on and nothing else set, a run of one tool writes code: the
// shipped configuration never falls back.
func TestPTCOnMeansOn(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	_, env := script(t, `
- expect: [execute_code, "tool_0("]
  reject: [one_tool_0]
  output: [{text: "Code."}]
`)
	s := serve(t, databasetest.URL(t, database.SQLite), env...)
	s.apply(t, map[string]string{"one.yaml": toolsetFile("one", 1, "")})
	r := s.invoke(t, map[string]any{"query": "Go", "toolsets": []string{"one"}})
	require.Equal(t, "finish", r.Status, "%v", r.Errors)
	require.True(t, r.PTCEnabled)
	require.NotContains(t, s.send(s.key, "GET", "/v1/ptc/decision", nil).raw, "break_even")
}

// Programs call the server's own tools that only read: as children of the
// program, for nothing, and of the run's user and canvas alone.
func TestBuiltinsInCode(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	_, env := script(t, `
- expect: ["get_time(", "read_tool_result(call_id: str)", "list_files("]
  output: [`+programCall(t, "execute_code", `
print(get_time()[-3:] in "Monday Tuesday Wednesday Thursday Friday Saturday Sunday", "+0" in get_time(zone="Europe/Oslo"))
print([f["name"] for f in list_files()["files"]], read_file("notes.txt")["text"], (await read_file(file="notes.txt", offset=2))["text"])
for call in (lambda: read_file("sales.parquet"), lambda: read_file("nothing"), lambda: read_tool_result("agent:none"), lambda: read_agent_result("ar-theirs"), lambda: get_time("Mars/Base")):
    try:
        str(call())
        print("no error")
    except Exception as e:
        print(type(e).__name__, e)
print(read_agent_result("ar-before")["answer"])
print("create_chart" in globals(), "complete" in globals(), "python_repl" in globals())
`)+`]
- expect: ["True True", "['notes.txt', 'sales.parquet'] note te", "pandas.read_parquet(\"sales.parquet\")", "there is no file \"nothing\"", "there is no result of a call", "there is no run", "there is no time zone", "An earlier answer.", "False False False"]
  reject: ["no error\n"]
  output: [{text: "Done."}]
- on: Before
  output: [{text: "An earlier answer."}]
`)
	each(t, func(t *testing.T, s *instance) {
		canvas := s.canvas("files")
		s.store(canvas, "sales.csv", "region,amount\nNorth,10\n")
		s.store(canvas, "notes.txt", "note")
		ben := s.another("ben")
		require.Equal(t, 200, s.send(ben, "POST", "/v1/skill/invoke", map[string]any{"query": "Before", "resultId": "ar-theirs"}).status)
		require.Equal(t, "finish", s.finished(t, ben, "ar-theirs").Status)
		require.Equal(t, "finish", s.invoke(t, map[string]any{"query": "Before", "resultId": "ar-before"}).Status)
		r := s.invoke(t, map[string]any{"query": "Go", "canvasId": canvas, "resultId": "ar-own"})
		require.Equal(t, "finish", r.Status, "%v", r.Errors)
		require.Equal(t, 11, s.count(`SELECT count(*) FROM tool_call_results c JOIN tool_call_results p ON p.call_id = c.ptc_call_id
			WHERE c.result_id = 'ar-own' AND c.type = 'ptc' AND c.toolset_id = 'portico' AND p.tool_name = 'execute_code'`))
		require.Zero(t, s.count("SELECT count(*) FROM credit_usages WHERE action_result_id = 'ar-own' AND usage_type <> 'model_call'"))
	}, env...)
}

// An earlier result that the model was given in part comes whole in code, as a
// value.
func TestWholeResultsInCode(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	_, env := script(t, `
- on: First
  output: [`+programCall(t, "execute_code", "print('x' * 5000)")+`]
- expect: ["bytes; read_tool_result with call_id"]
  output: [{text: "Done."}]
- on: Second
  output: [`+programCall(t, "execute_code", `
whole = read_tool_result(open("id.txt").read())
print(type(whole).__name__, len(whole["stdout"]), whole["status"])
`)+`]
- expect: ["dict 5001 completed"]
  output: [{text: "Done."}]
`)
	each(t, func(t *testing.T, s *instance) {
		first := s.invoke(t, map[string]any{"query": "First", "toolsets": []string{"demo"}})
		require.Equal(t, "finish", first.Status, "%v", first.Errors)
		canvas := s.canvas("ids")
		s.store(canvas, "id.txt", first.Messages[2].ToolCallID)
		second := s.invoke(t, map[string]any{"query": "Second", "canvasId": canvas})
		require.Equal(t, "finish", second.Status, "%v", second.Errors)
	}, append(env, "AGENT_OUTPUT_CAP=1KiB")...)
}

// In minimal mode the model has one schema, or four with those that end the
// run, however many tools there are; all of them, and the server's own, work in
// programs.
func TestMinimalBuiltins(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	minimalBuiltins(t, "false", 1)
}

func TestMinimalBuiltinsWithLifecycleTools(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	minimalBuiltins(t, "true", 4)
}

func minimalBuiltins(t *testing.T, lifecycle string, schemas int) {
	t.Helper()
	model, env := script(t, `
- expect: [exec_code, "run with exec_code", "tool_39", "create_chart(", "search_tools(", "the signatures of the functions that it can call"]
  reject: [execute_code]
  output: [`+programCall(t, "exec_code", `
import pandas
print(tool_39(file_name_title="x")["cities"][0]["name"], "tool_39" in search_tools("number 39"), "min_population" in help("tool_7"))
print(create_chart("sales", chart_type="bar", x_field="region", series=[{"name": "a", "y_field": "amount"}], title="Sales")["points"], len(list_files()["files"]))
print(get_time()[:2], pandas.read_parquet("sales.parquet").amount.sum())
`)+`, {call: {name: get_time, arguments: {zone: null}}}]
- expect: ["Cairo True True", "1 3", "20 10", "there is no tool \"get_time\". The tools are: "]
  output: [{text: "Done."}]
`)
	s := serve(t, databasetest.URL(t, database.SQLite), append(env, "AGENT_BUILTINS=minimal", "AGENT_CODE_TOOL_NAME=exec_code", "AGENT_LIFECYCLE_TOOLS="+lifecycle)...)
	s.apply(t, map[string]string{"many.yaml": toolsetFile("many", 40, "    allowedCallers: [direct, code]\n")})
	canvas := s.canvas("sales")
	s.store(canvas, "sales.csv", "region,amount\nNorth,10\n")
	r := s.invoke(t, map[string]any{"query": "Go", "toolsets": []string{"many"}, "canvasId": canvas})
	require.Equal(t, "finish", r.Status, "%v", r.Errors)
	for _, raw := range model.Requests() {
		require.Equal(t, schemas, strings.Count(string(raw), `"type":"function"`))
	}
}

// Without code, minimal would leave a model with nothing: it gets the tools.
func TestMinimalWithoutCode(t *testing.T) {
	t.Parallel()
	_, env := script(t, `
- expect: [one_tool_0, one_github__list, get_time, read_file]
  reject: [exec_code, execute_code]
  output: [{call: {name: one_github__list, arguments: {file_name_title: x, min_population: null}}}]
- expect: [Cairo]
  output: [{text: "Done."}]
`)
	s := serve(t, databasetest.URL(t, database.SQLite), append(env, "AGENT_BUILTINS=minimal", "PTC_MODE=off")...)
	s.apply(t, map[string]string{"one.yaml": toolsetFile("one", 1, "  - {name: github__list, description: Lists., endpoint: /cities, method: GET, request: {type: object, properties: {min_population: {type: integer}}}}\n")})
	r := s.invoke(t, map[string]any{"query": "Go", "toolsets": []string{"one"}})
	require.Equal(t, "finish", r.Status, "%v", r.Errors)
}
