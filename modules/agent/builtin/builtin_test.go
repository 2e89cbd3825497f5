package builtin_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/agenttest"
	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/modules/agent/builtin"
	"github.com/portico-run/portico/modules/agent/live"
	"github.com/portico-run/portico/modules/agent/loop"
	"github.com/portico-run/portico/modules/catalogue"
	"github.com/portico-run/portico/modules/model"
	"github.com/portico-run/portico/modules/program"
	"github.com/portico-run/portico/modules/program/tables"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/tool"
)

// work is a run whose model has the tools.
type work struct {
	*agenttest.Server

	t     *testing.T
	run   run.Run
	set   *builtin.Set
	tools *loop.Tools
}

// start begins a run on a server, in a canvas or in none, in which the model
// works in a mode.
func start(t *testing.T, s *agenttest.Server, canvas string, m builtin.Mode) work {
	t.Helper()
	r, err := s.Runs.Service.Create(t.Context(), s.User, run.CreateParams{Title: "Test", Type: "skill", CanvasID: canvas, Toolsets: []string{"demo"}})
	require.NoError(t, err)
	w := live.New(t.Context(), live.Deps{
		DB: s.DB, Runs: s.Runs.Service, Billing: s.Credits.Service, Flush: time.Millisecond, NewCallID: func() string { return s.Records.Service.NewID(ids.Agent) }, Logger: slog.New(slog.DiscardHandler),
	}, r)
	t.Cleanup(w.Close)
	calls := live.NewCalls(s.Tools.Service, w, s.User)
	set := builtin.New(builtin.Deps{
		Programs: s.Programs.Service, Interpreters: s.Interpreters.Service, Files: s.Drive.Service, Tables: &tables.Service{Sandbox: s.Engine, Timeout: time.Minute},
		Runs: s.Runs.Service, Results: s.Records.Service, Logger: slog.New(slog.DiscardHandler),
	}, builtin.Task{
		Actor: s.User, Run: r, Toolsets: []string{"demo"}, CodeTool: "execute_code", CodeTimeout: time.Minute, Lifecycle: true,
	}, calls)
	t.Cleanup(func() { set.Close(context.WithoutCancel(t.Context())) })
	sets, failures, err := s.Toolsets.Service.Export(t.Context(), s.User, []string{"demo"})
	require.NoError(t, err)
	require.Empty(t, failures)
	list, err := loop.NewTools(new(model.Client), set.Tools(m, catalogue.New(append(sets, program.Own(set.Functions(m))), nil))...)
	require.NoError(t, err, "our schemas are what the provider takes")
	require.Empty(t, list.Notes)
	return work{s, t, r, set, list}
}

// call calls a tool as a model does.
func (w work) call(name, arguments string) (text, id string, err error) {
	w.t.Helper()
	of, ok := w.tools.Find(name)
	require.True(w.t, ok, "there is no %s", name)
	c := loop.CallOf(model.Call{ID: "c-" + name, Name: name, Arguments: arguments})
	text, err = of.Run(w.t.Context(), c)
	return text, c.Record(), err
}

// works is what a call that works tells the model.
func (w work) works(name, arguments string) string {
	w.t.Helper()
	text, id, err := w.call(name, arguments)
	require.NoError(w.t, err, text)
	require.NotEmpty(w.t, id, "it is recorded")
	return text
}

// fails is why a call does not work.
func (w work) fails(name, arguments string) string {
	w.t.Helper()
	text, _, err := w.call(name, arguments)
	require.Error(w.t, err)
	return err.Error() + "\n" + text
}

func names(t *loop.Tools) string {
	var list []string
	for _, d := range t.Definitions() {
		list = append(list, d.Name)
	}
	return strings.Join(list, " ")
}

var (
	plain   = builtin.Mode{}
	code    = builtin.Mode{Code: true}
	minimal = builtin.Mode{Code: true, Minimal: true}
)

// A model gets the tools that fit how it works.
func TestToolsFollowTheMode(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, "")
	const lifecycle, rest = "complete fail onboarding_handoff", " get_time read_tool_result read_agent_result list_files read_file create_chart python_repl"
	w := start(t, s, "", plain)
	require.Equal(t, lifecycle+rest, names(w.tools))
	require.Nil(t, w.set.Functions(plain))
	w = start(t, s, "", code)
	require.Equal(t, lifecycle+rest+" execute_code search_tools help", names(w.tools))
	require.Len(t, w.set.Functions(code), 5, "those that only read")
	w = start(t, s, "", minimal)
	require.Equal(t, lifecycle+" execute_code", names(w.tools))
	require.Len(t, w.set.Functions(minimal), 6, "and the one that draws")
	run, _ := w.tools.Find("execute_code")
	require.Contains(t, run.Description, "print(search_tools(")
	require.False(t, run.Serial, "there are no files to overwrite")
}

// What was called and answered before can be read by its user, and by nobody
// else.
func TestEarlierResultsAreRead(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, "")
	w := start(t, s, "", code)
	require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00 \w+day$`, w.works("get_time", `{"zone":null}`))
	require.Regexp(t, `\+0[12]:00`, w.works("get_time", `{"zone":"Europe/Oslo"}`))
	require.Contains(t, w.fails("get_time", `{"zone":"Mars/Base"}`), `there is no time zone "Mars/Base"`)

	_, id, err := w.call("execute_code", `{"code":"print('x' * 40000)","timeout":null}`)
	require.NoError(t, err)
	var part struct {
		Bytes, From, To int
		Text            string
	}
	arguments := func(id string, offset int) string {
		text, err := json.Marshal(map[string]any{"call_id": id, "offset": offset})
		require.NoError(t, err)
		return string(text)
	}
	require.NoError(t, json.Unmarshal([]byte(w.works("read_tool_result", arguments(id, 0))), &part))
	require.Equal(t, 32<<10, part.To)
	require.Greater(t, part.Bytes, 40000)
	whole := part.Text
	require.NoError(t, json.Unmarshal([]byte(w.works("read_tool_result", arguments(id, part.To))), &part))
	require.Contains(t, whole+part.Text, strings.Repeat("x", 40000), "the pieces are the whole")
	require.Contains(t, w.fails("read_tool_result", arguments(id, part.Bytes+1)), "the offset must be between 0 and that")
	require.Contains(t, w.fails("read_tool_result", arguments("agent:none", 0)), `there is no result of a call "agent:none"`)

	require.NoError(t, s.DB.InTx(t.Context(), func(tx database.Tx) error {
		for _, m := range []run.NewMessage{{Event: 501, Type: run.Human, Content: "Why?"}, {Event: 502, Type: run.AI, Content: "Because."}} {
			if err := s.Runs.Service.AddMessage(t.Context(), tx, w.run.Ref(), m); err != nil {
				return err
			}
		}
		return s.Runs.Service.Finish(t.Context(), tx, w.run.Ref(), run.Finish{Status: run.Failed, Errors: []string{"It broke."}})
	}))
	now := start(t, s, "", code)
	require.JSONEq(t, `{"status":"error","title":"Test","question":"Why?","answer":"Because.","errors":["It broke."]}`, now.works("read_agent_result", `{"result_id":"`+w.run.ResultID+`"}`))
	require.Contains(t, now.fails("read_agent_result", `{"result_id":"ar-none"}`), `there is no run "ar-none"`)
	theirs := *s
	made, err := s.Accounts.Service.CreateUser(t.Context(), "ben", "")
	require.NoError(t, err)
	theirs.User = actor.Actor{UID: made.UID, Scope: actor.Full}
	ben := start(t, &theirs, "", code)
	require.Contains(t, ben.fails("read_agent_result", `{"result_id":"`+w.run.ResultID+`"}`), "there is no run")
	require.Contains(t, ben.fails("read_tool_result", arguments(id, 0)), "there is no result of a call")
}

// Files of the canvas are listed, read and drawn; what is none is explained.
func TestFilesOfACanvas(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, "")
	canvas := s.Canvas(map[string]string{"sales.csv": "region,amount\nNorth,10\nSouth,20\nNorth,30\n", "notes.txt": "note", "blob.bin": "\x00\xff\xfe"})
	w := start(t, s, canvas, code)
	require.Contains(t, w.works("list_files", `{}`), "Table with region text, amount integer. Rows: 3.")
	require.JSONEq(t, `{"bytes":4,"from":2,"to":4,"text":"te"}`, w.works("read_file", `{"file":"notes.txt","offset":2,"limit":null}`))
	require.Contains(t, w.works("read_file", `{"file":"sales.parquet","offset":1,"limit":1}`), `"amount":20`)
	for arguments, want := range map[string]string{
		`{"file":"nothing","offset":null,"limit":null}`:      `there is no file "nothing" in the canvas; list_files names them`,
		`{"file":"blob.bin","offset":null,"limit":null}`:     "neither a table nor a text; use code to read it",
		`{"file":"sales.parquet","offset":null,"limit":201}`: "limit must be 0 to 200 rows; use code for more",
		`{"file":"notes.txt","offset":9,"limit":null}`:       "there are 4 bytes",
		`{"file":"sales.parquet","offset":-1,"limit":null}`:  "",
	} {
		require.Contains(t, w.fails("read_file", arguments), want, arguments)
	}
	chart := func(table, field string) string {
		return `{"df_name":"` + table + `","logical_name":"","chart_type":"column","x_field":"region","x_label":"","y_label":"","series":[{"name":"","y_field":"` + field + `"}],"title":"","note":""}`
	}
	drawn := w.works("create_chart", chart("sales", "amount"))
	require.Contains(t, drawn, `"points":3`)
	require.Contains(t, drawn, "sales column.png")
	image, err := s.Drive.Service.Find(t.Context(), s.User, canvas, "sales column.png")
	require.NoError(t, err)
	require.Equal(t, w.run.ResultID, image.ResultID)
	require.Contains(t, w.fails("create_chart", chart("sales.parquet", "price")), "There is no column 'price'; the columns are: region, amount.")
	require.Contains(t, w.fails("create_chart", chart("none", "amount")), `there is no file "none.parquet"`)
	drawing, _ := w.tools.Find("create_chart")
	running, _ := w.tools.Find("execute_code")
	require.True(t, drawing.Serial && running.Serial, "they write the same files")

	none := start(t, s, "", code)
	for _, name := range []string{"list_files", "read_file"} {
		require.Contains(t, none.fails(name, `{"file":"x","offset":null,"limit":null}`), "this run belongs to no canvas")
	}
}

// What reads and draws tables has a place in its user's share of the sandbox. A
// program that draws gives its own place to it.
func TestTablesAreWithinTheShareOfTheirUser(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, "", "SANDBOX_MAX_PER_USER=1", "SANDBOX_MAX_QUEUE_PER_USER=1")
	canvas := s.Canvas(map[string]string{"sales.csv": "region,amount\nNorth,10\nSouth,20\n"})
	w := start(t, s, canvas, minimal)
	require.Equal(t, "2\n", strings.SplitAfter(w.works("execute_code",
		`{"code":"print(create_chart('sales', chart_type='bar', x_field='region', series=[{'name': 'a', 'y_field': 'amount'}])['points'])","timeout":null}`), "\n")[0])

	w = start(t, s, canvas, plain)
	for range 2 { // one runs, one waits
		go func() {
			_, _ = s.Engine.Run(t.Context(), sandbox.Job{Owner: s.User.UID, Code: "import time\ntime.sleep(60)", Language: sandbox.Python, Timeout: time.Minute})
		}()
	}
	require.Eventually(t, func() bool { return s.Engine.Stats().Queued == 1 }, time.Minute, time.Millisecond)
	const full = "You have as many programs running and waiting as one user may."
	require.Contains(t, w.fails("read_file", `{"file":"sales.parquet","offset":null,"limit":null}`), full)
	require.Contains(t, w.fails("create_chart", `{"df_name":"sales","logical_name":"","chart_type":"bar","x_field":"region","x_label":"","y_label":"","series":[{"name":"","y_field":"amount"}],"title":"","note":""}`), full)
}

// Programs find what they print, what they leave and why they failed told to
// the model; the interpreter keeps what code defines until it is reset.
func TestCodeIsRun(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, "")
	w := start(t, s, s.Canvas(nil), code)
	program := func(code, more string) string {
		text, err := json.Marshal(code)
		require.NoError(t, err)
		return `{"code":` + string(text) + more + `}`
	}
	require.Equal(t, "[the program printed nothing]", w.works("execute_code", program("x = 1", `,"timeout":null`)))
	require.Contains(t, w.works("execute_code", program("open('left.txt', 'w').write('kept'); print(get_time()[:2], get_weather(city='Oslo', file_name_title='x')['city'])", `,"timeout":60`)),
		"20 Oslo\n\n[kept in the canvas: left.txt, text/plain")
	failed := w.fails("execute_code", program("print('half'); get_time(); raise SystemExit(3)", `,"timeout":null`))
	require.Contains(t, failed, "(exit code 3)")
	require.Contains(t, failed, "it had made 1 tool calls, which are not undone")
	require.Contains(t, failed, "half\n")
	require.Contains(t, w.fails("execute_code", program("while True: pass", `,"timeout":1`)), "timeout")

	cell := `,"reset":null,"timeout":null`
	require.Equal(t, "42\n\n[a new interpreter: nothing of earlier code is there]", w.works("python_repl", program("x = 41\nx + 1", cell)))
	require.Equal(t, "41\n", w.works("python_repl", program("x", cell)))
	require.Contains(t, w.fails("python_repl", program("while True: pass", `,"reset":null,"timeout":1`)), "[variables are kept]")
	require.Equal(t, "[the next code begins anew]", w.works("python_repl", program("", `,"reset":true,"timeout":null`)))
	require.Contains(t, w.fails("python_repl", program("x", cell)), "NameError")
	require.Contains(t, w.works("python_repl", program("2", `,"reset":true,"timeout":null`)), "a new interpreter")
	require.Contains(t, w.fails("python_repl", program("import os; os._exit(0)", cell)), "the interpreter has ended")

	off := start(t, s, "", plain)
	require.Contains(t, off.works("python_repl", program("'get_time' in globals()", cell)), "False")
}

// Tools that programs call are found and described.
func TestToolsAreLookedUp(t *testing.T) {
	t.Parallel()
	w := start(t, agenttest.Serve(t, ""), "", code)
	require.Contains(t, w.works("search_tools", `{"query":"weather in a city"}`), "get_weather(city: str")
	require.Contains(t, w.works("search_tools", `{"query":"zzz"}`), "No tool matches")
	require.Contains(t, w.works("help", `{"name":"demo.get_weather"}`), "Name of the city, such as Rome")
	require.Contains(t, w.fails("help", `{"name":"nothing"}`), `There is no tool "nothing". `)
}

// A model ends its run with an answer that somebody can read, or not at all.
func TestTheModelEndsItsRun(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, "")
	for name, c := range map[string]struct {
		arguments, empty string
		want             builtin.Ending
	}{
		"complete":           {`{"result":"Done."}`, `{"result":" "}`, builtin.Ending{Answer: "Done."}},
		"fail":               {`{"reason":"Cannot."}`, `{"reason":""}`, builtin.Ending{Answer: "Cannot.", Failed: true}},
		"onboarding_handoff": {`{"agent":"Sales","summary":"Wants a car."}`, `{"agent":"","summary":"x"}`, builtin.Ending{Answer: "Wants a car.", Handoff: &run.Handoff{Agent: "Sales", Summary: "Wants a car."}}},
	} {
		w := start(t, s, "", plain)
		ends, _ := w.tools.Find(name)
		require.True(t, ends.Ends, name)
		require.Contains(t, w.fails(name, c.empty), "a text is empty; say what the user is to read")
		require.Nil(t, w.set.Ending())
		require.Equal(t, c.want.Answer, w.works(name, c.arguments))
		require.Equal(t, &c.want, w.set.Ending())
	}
}

// Programs have the tools that only read as functions: what may be null is left
// out, a result comes whole, and tables stay files. At most two of a run work at
// once; one that waits ends with its program.
func TestFunctionsOfPrograms(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, "")
	w := start(t, s, s.Canvas(map[string]string{"sales.csv": "region,amount\nNorth,10\n", "notes.txt": "note"}), minimal)
	functions := map[string]tool.Function{}
	for _, f := range w.set.Functions(minimal) {
		functions[f.Name] = f
	}
	require.JSONEq(t, `{"type":"object","properties":{"zone":{"type":["string","null"],"description":"Time zone such as Europe/Oslo; null for UTC"}},"required":[],"additionalProperties":false}`,
		string(functions["get_time"].Schema))
	answer := functions["get_time"].Run(t.Context(), json.RawMessage(`{}`))
	require.Equal(t, record.Success, answer.Status)
	answer = functions["read_file"].Run(t.Context(), json.RawMessage(`{"file":"notes.txt"}`))
	require.JSONEq(t, `{"bytes":4,"from":0,"to":4,"text":"note"}`, string(answer.Data))
	answer = functions["read_file"].Run(t.Context(), json.RawMessage(`{"file":"sales.parquet"}`))
	require.Contains(t, answer.Error, `read it with pandas.read_parquet("sales.parquet")`)
	_, id, err := w.call("execute_code", `{"code":"print('x' * 40000)","timeout":null}`)
	require.NoError(t, err)
	answer = functions["read_tool_result"].Run(t.Context(), json.RawMessage(`{"call_id":"`+id+`"}`))
	require.Contains(t, string(answer.Data), strings.Repeat("x", 40000))
	require.Contains(t, functions["create_chart"].Description, "before this program began")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	var refused int
	for range 100 { // a run that has ended may still find room
		if answer := functions["get_time"].Run(ended, json.RawMessage(`{}`)); answer.Status != record.Success {
			refused++
			require.Contains(t, answer.Error, "canceled")
		}
	}
	require.Positive(t, refused)
}
