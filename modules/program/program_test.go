package program_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/app/apptest"
	"github.com/portico-run/portico/modules/drive"
	"github.com/portico-run/portico/modules/program"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/tool"
)

const toolsets = "../../configs/toolsets"

// python runs a program as Anna.
func python(t *testing.T, s *apptest.Server, req program.Request) program.Outcome {
	t.Helper()
	req.Language = sandbox.Python
	o, err := s.App.Programs.Service.Execute(t.Context(), s.Anna.Actor, req)
	require.NoError(t, err)
	return o
}

// runOf is the run that a program worked in.
func runOf(t *testing.T, s *apptest.Server, o program.Outcome) run.Run {
	t.Helper()
	r, err := s.App.Runs.Service.Get(t.Context(), s.Anna.Actor, o.ResultID, nil)
	require.NoError(t, err)
	return r
}

// A program calls tools by their functions and by the SDK, looks them up, and
// what it did is recorded as its own.
func TestProgramsCallTools(t *testing.T) {
	t.Parallel()
	s := apptest.Serve(t, toolsets)
	o := python(t, s, program.Request{Title: "weather", Toolsets: []string{"demo"}, Code: `
from refly_tools.demo import Demo
print(len(get_weather(city="Oslo", file_name_title="x")["forecast"]))
print(Demo.get_weather(city="Rome", file_name_title="x")["status"])
print("get_weather" in search_tools("forecast of the weather"))
print("city" in help("get_weather"))
try:
    help("no_such_tool")
except Exception as e:
    print(type(e).__name__)
`})
	require.Equal(t, sandbox.Completed, o.Status, o.Stderr)
	require.True(t, strings.HasPrefix(o.Stdout, "3\nsuccess\nTrue\nTrue\n"), o.Stdout)
	require.Equal(t, 2, o.ToolCallsMade)
	require.Equal(t, []string{"get_weather", "get_weather"}, []string{o.ToolCalls[0].ToolName, o.ToolCalls[1].ToolName})
	require.Empty(t, o.Warnings)
	r := runOf(t, s, o)
	require.Equal(t, run.Done, r.Status)
	require.Equal(t, "weather", r.Title)

	again := python(t, s, program.Request{ResultID: o.ResultID, Code: "import os\nprint(os.environ['REFLY_RESULT_VERSION'])"})
	require.Equal(t, "1\n", again.Stdout, "a run that is over gets another version")
}

// What code says about itself counts for nothing: the way to the tools sets who
// it is.
func TestProgramsReachTheirToolsOnly(t *testing.T) {
	t.Parallel()
	s := apptest.Serve(t, toolsets)
	o := python(t, s, program.Request{Toolsets: []string{"demo"}, Code: `
import json, urllib.request, urllib.error
def send(path, method="POST", body=b"{}", **headers):
    r = urllib.request.Request("http://127.0.0.1:5800" + path, body if method == "POST" else None, {"Content-Type": "application/json", **headers}, method=method)
    try:
        return urllib.request.urlopen(r).status
    except urllib.error.HTTPError as e:
        return e.code
call = json.dumps({"toolsetKey": "demo", "toolName": "wait", "arguments": {"ms": 0, "file_name_title": "x"}}).encode()
print(send("/v1/tool/execute", body=call, **{"X-API-Key": "` + s.Ben.Key + `", "x-ptc-call-id": "foreign", "x-refly-result-id": "foreign"}))
print(send("/v1/credit/balance", "GET"), send("/v1/tool/execute", "GET"), send("/v1/sandbox/execute"))
print(send("/v1/program/search", body=b"no JSON"), send("/v1/program/search", body=json.dumps({"query": "x" * 70000}).encode()))
`})
	require.Equal(t, "200\n404 404 404\n400 400\n", o.Stdout, o.Stderr)
	require.Equal(t, 1, o.ToolCallsMade)

	plain := python(t, s, program.Request{Plain: true, Code: "import os\nprint([n for n in os.environ if n.startswith('REFLY')], 'search_tools' in globals())"})
	require.Equal(t, "[] False\n", plain.Stdout, plain.Stderr)
}

// How a program ends is how its run ends, and what is said of it.
func TestEndsOfPrograms(t *testing.T) {
	t.Parallel()
	s := apptest.Serve(t, toolsets)
	for code, want := range map[string]struct {
		status sandbox.Status
		run    run.Status
		exit   int
	}{
		"print('out')":      {sandbox.Completed, run.Done, 0},
		"print('out')\n1/0": {sandbox.Failed, run.Failed, 1},
		"print('out', flush=True)\nwhile True: pass":                   {sandbox.TimedOut, run.Failed, sandbox.ExitTimedOut},
		"print('out', flush=True)\nimport os; os.kill(os.getpid(), 9)": {sandbox.Killed, run.Failed, sandbox.ExitKilled},
	} {
		o := python(t, s, program.Request{Code: code, Timeout: time.Second})
		require.Equal(t, want.status, o.Status, code)
		require.Equal(t, want.exit, o.ExitCode, code)
		require.Equal(t, "out\n", o.Stdout, code)
		require.Equal(t, want.run, runOf(t, s, o).Status, code)
	}
	ctx, leave := context.WithCancel(t.Context())
	id := "ar-left"
	done := make(chan error, 1)
	var o program.Outcome
	go func() {
		var err error
		o, err = s.App.Programs.Service.Execute(ctx, s.Anna.Actor, program.Request{ResultID: id, Language: sandbox.Python, Code: "import time\nprint('begun', flush=True)\ntime.sleep(600)"})
		done <- err
	}()
	require.Eventually(t, func() bool {
		r, err := s.App.Runs.Service.Get(t.Context(), s.Anna.Actor, id, nil)
		return err == nil && r.Status == run.Running && s.App.Engine.Stats().Running == 1
	}, time.Minute, time.Millisecond)
	leave()
	require.NoError(t, <-done)
	require.Equal(t, sandbox.Cancelled, o.Status)
	require.Equal(t, run.Aborted, runOf(t, s, o).Status)
}

func TestProgramsThatAreNotTaken(t *testing.T) {
	t.Parallel()
	s := apptest.Serve(t, toolsets, "PTC_TOOLSET_BLOCKLIST=blocked", "SANDBOX_MAX_CONCURRENT=1", "SANDBOX_MAX_QUEUE=1")
	canvas, err := s.App.Runs.Service.CreateCanvas(t.Context(), s.Anna.Actor, "hers")
	require.NoError(t, err)
	running, err := s.App.Runs.Service.Create(t.Context(), s.Anna.Actor, run.CreateParams{Title: "other canvas"})
	require.NoError(t, err)
	for want, req := range map[string]program.Request{
		"code is required":                                     {Code: "\n"},
		"code must be UTF-8.":                                  {Code: "\xff"},
		`language "ruby" cannot be run.`:                       {Code: "x", Language: "ruby"},
		"timeout must not be negative.":                        {Code: "x", Timeout: -1},
		"timeout must not be longer than 300000 milliseconds.": {Code: "x", Timeout: time.Hour},
		"Programmatic tool calling is off for this request.":   {Code: "x", Toolsets: []string{"blocked"}},
		"The run belongs to another canvas.":                   {Code: "x", ResultID: running.ResultID, CanvasID: canvas.CanvasID},
	} {
		if req.Language == "" {
			req.Language = sandbox.Python
		}
		_, err := s.App.Programs.Service.Execute(t.Context(), s.Anna.Actor, req)
		require.Equal(t, want, errs.Message(err))
	}
	_, err = s.App.Programs.Service.Execute(t.Context(), s.Ben.Actor, program.Request{Code: "x", Language: sandbox.Python, CanvasID: canvas.CanvasID})
	require.Equal(t, errs.CanvasMissing, errs.CodeOf(err))

	// One that the sandbox does not take is recorded as failed.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	held := make(chan struct{}, 2)
	for range 2 {
		go func() {
			_, _ = s.App.Programs.Service.Execute(ctx, s.Ben.Actor, program.Request{Code: "import time\ntime.sleep(600)", Language: sandbox.Python, Plain: true})
			held <- struct{}{}
		}()
	}
	require.Eventually(t, func() bool { c := s.App.Engine.Stats(); return c.Running == 1 && c.Queued == 1 }, time.Minute, time.Millisecond)
	_, err = s.App.Programs.Service.Execute(t.Context(), s.Anna.Actor, program.Request{ResultID: "ar-busy", Code: "x", Language: sandbox.Python})
	require.ErrorIs(t, err, sandbox.ErrBusy)
	e, ok := errors.AsType[*errs.Error](err)
	require.True(t, ok)
	require.Contains(t, e.Detail, "no tool call")
	r, err := s.App.Runs.Service.Get(t.Context(), s.Anna.Actor, "ar-busy", nil)
	require.NoError(t, err)
	require.Equal(t, run.Failed, r.Status)
	cancel()
	for range 2 {
		<-held
	}
}

// The files of a canvas are in the program's folder; what it changes or makes
// there is the canvas's, unless it failed.
func TestFilesOfTheCanvas(t *testing.T) {
	t.Parallel()
	s := apptest.Serve(t, toolsets, "SANDBOX_DISK=4MiB")
	ctx := t.Context()
	canvas, err := s.App.Runs.Service.CreateCanvas(ctx, s.Anna.Actor, "work")
	require.NoError(t, err)
	save := func(name, content string) {
		t.Helper()
		_, err := s.App.Drive.Service.Save(ctx, s.Anna.Actor, drive.Content{CanvasID: canvas.CanvasID, Name: name, Body: strings.NewReader(content), Source: drive.Agent})
		require.NoError(t, err)
	}
	save("huge.bin", strings.Repeat("x", 3<<20))
	save("same.txt", "same")
	save("in.txt", "before")
	o := python(t, s, program.Request{CanvasID: canvas.CanvasID, Code: `
import os
print(sorted(os.listdir()), open("in.txt").read())
open("in.txt", "w").write("after")
open("made.txt", "w").write("made")
os.symlink("in.txt", "link")`})
	require.Equal(t, "['in.txt', 'same.txt'] before\n", o.Stdout, o.Stderr)
	kept := map[string]int64{}
	for _, f := range o.Files {
		kept[f.Name] = f.Size
	}
	require.Equal(t, map[string]int64{"in.txt": 5, "made.txt": 4}, kept)
	require.Len(t, o.Warnings, 2)
	require.Contains(t, o.Warnings[0], "huge.bin (3145728 bytes) is not in the program's folder")
	require.Contains(t, o.Warnings[1], "1 files were not kept")
	o = python(t, s, program.Request{CanvasID: canvas.CanvasID, Code: "open('half.txt', 'w').write('x')\n1/0"})
	require.Empty(t, o.Files)
	page, err := s.App.Drive.Service.List(ctx, s.Anna.Actor, canvas.CanvasID, httpapi.PageQuery{Limit: 10})
	require.NoError(t, err)
	require.Len(t, page.Items, 4)
	for _, f := range page.Items {
		if f.Name == "in.txt" {
			_, content, err := s.App.Drive.Service.Read(ctx, s.Anna.Actor, f.FileID, 100)
			require.NoError(t, err)
			require.True(t, bytes.Equal([]byte("after"), content))
		}
	}
}

// The end of a program is recorded also when its files take too long to store.
func TestEndsAreRecordedWhateverFilesTake(t *testing.T) {
	t.Parallel()
	s := apptest.Serve(t, toolsets)
	canvas, err := s.App.Runs.Service.CreateCanvas(t.Context(), s.Anna.Actor, "work")
	require.NoError(t, err)
	o, err := s.App.Programs.Service.KeepFor(0).Execute(t.Context(), s.Anna.Actor, program.Request{
		Language: sandbox.Python, CanvasID: canvas.CanvasID, Code: "open('a.txt', 'w').write('a')\nprint('printed')",
	})
	require.NoError(t, err)
	require.Equal(t, "printed\n", o.Stdout)
	require.Empty(t, o.Files)
	require.Len(t, o.Warnings, 1)
	require.Contains(t, o.Warnings[0], "a.txt was not kept")
	require.Equal(t, run.Done, runOf(t, s, o).Status)
}

// Functions that a program is lent are called and recorded as tools are.
func TestFunctionsOfTheServer(t *testing.T) {
	t.Parallel()
	s := apptest.Serve(t, toolsets)
	double := tool.Function{
		Name: "double", Description: "Doubles a number.", Schema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`),
		Run: func(_ context.Context, arguments json.RawMessage) record.Answer {
			var in struct{ N int }
			if err := json.Unmarshal(arguments, &in); err != nil {
				return record.Answer{Status: "error", Error: err.Error()}
			}
			return record.Answer{Status: record.Success, Data: fmt.Appendf(nil, `{"twice":%d}`, 2*in.N)}
		},
	}
	o := python(t, s, program.Request{Functions: []tool.Function{double}, Code: "print(double(n=21)['twice'])\nprint('double' in search_tools('double a number'))"})
	require.Equal(t, "42\nTrue\n", o.Stdout, o.Stderr)
	require.Equal(t, "double", o.ToolCalls[0].ToolName)
	require.Equal(t, "double", program.Own([]tool.Function{double}).Tools[0].Name)
}

// Lines of a program are events of its run while it goes on, up to a limit.
func TestOutputIsShownLive(t *testing.T) {
	t.Parallel()
	s := apptest.Serve(t, toolsets, "SANDBOX_OUTPUT=64KiB")
	o := python(t, s, program.Request{Code: "import sys\nprint('first')\nprint('wrong', file=sys.stderr)\nfor n in range(4000): print('x' * 100)"})
	require.Equal(t, sandbox.Completed, o.Status)
	events, err := s.App.Runs.Service.Events(t.Context(), s.Anna.Actor, run.EventFilter{ResultID: o.ResultID, Version: o.Version, Limit: 1000})
	require.NoError(t, err)
	var shown strings.Builder
	for _, e := range events {
		if e.Type == run.Log {
			shown.Write(e.Payload)
		}
	}
	require.Contains(t, shown.String(), "first")
	require.Contains(t, shown.String(), `"stream":"stderr"`)
	require.Less(t, shown.Len(), 300<<10)
}

func TestExecuteOverHTTP(t *testing.T) {
	t.Parallel()
	s := apptest.Serve(t, toolsets)
	var o program.Outcome
	a := s.Post(s.Anna, "/v1/sandbox/execute", map[string]any{"code": "console.log(1 + 1)", "language": "javascript", "title": "sum"}, &o)
	require.Equal(t, http.StatusOK, a.Status, a.ErrMsg)
	require.Equal(t, "2\n", o.Stdout, o.Stderr)
	require.Equal(t, http.StatusBadRequest, s.Post(s.Anna, "/v1/sandbox/execute", map[string]any{"code": "x", "language": "ruby"}, nil).Status)
}

// Services register what they execute themselves, and end it.
func TestProgramsOutside(t *testing.T) {
	t.Parallel()
	s := apptest.Serve(t, toolsets, "PTC_TOOLSET_BLOCKLIST=blocked")
	var r struct{ ResultID, ToolCallID, APIKey string }
	body := map[string]any{"resultId": "ar-outside", "toolCallId": "0b8f2f6e-6f0e-4c5e-9d2a-3d7f1c2b4a55", "code": "pass", "withKey": true, "ttlSeconds": 60, "toolsets": []string{"demo"}}
	a := s.Post(s.Anna, "/v1/action/register", body, &r)
	require.Equal(t, http.StatusOK, a.Status, a.ErrMsg)
	require.NotEmpty(t, r.APIKey)
	for path, bodies := range map[string][]map[string]any{
		"/v1/action/register": {{"withKey": true}, {"toolsets": []string{"blocked"}}},
		"/v1/action/finish":   {{"resultId": "none", "status": "finish"}},
	} {
		for _, body := range bodies {
			require.GreaterOrEqual(t, s.Post(s.Anna, path, body, nil).Status, 400, fmt.Sprint(body))
		}
	}
	var f struct{ Status run.Status }
	a = s.Post(s.Anna, "/v1/action/finish", map[string]any{"resultId": r.ResultID, "toolCallId": r.ToolCallID, "status": "finish"}, &f)
	require.Equal(t, http.StatusOK, a.Status, a.ErrMsg)
	require.Equal(t, run.Running, f.Status)
	a = s.Post(s.Anna, "/v1/action/finish", map[string]any{"resultId": r.ResultID, "status": "finish"}, &f)
	require.Equal(t, http.StatusOK, a.Status, a.ErrMsg)
	require.Equal(t, run.Done, f.Status)
	ran := s.Post(s.Anna, "/v1/action/register", map[string]any{"title": "only a run"}, &r)
	require.Equal(t, http.StatusOK, ran.Status)
}

// Whoever goes away while a program begins ends it, whenever that is: nothing goes on
// of which nobody knows.
func TestNoProgramOutlivesACallerThatHasGone(t *testing.T) {
	t.Parallel()
	s := apptest.Serve(t, toolsets)
	programs := s.App.Programs.Service
	var callers sync.WaitGroup
	for i := range 200 {
		callers.Go(func() {
			ctx, leave := context.WithTimeout(t.Context(), time.Duration(i)*100*time.Microsecond)
			defer leave()
			started, err := programs.Start(ctx, s.Anna.Actor, program.Request{Code: "import time\ntime.sleep(600)", Language: sandbox.Python, Plain: true})
			if err == nil {
				programs.Abort(run.Ref{UID: s.Anna.UID, ResultID: started.ResultID, Version: started.Version})
			}
		})
		if i%4 == 3 {
			callers.Wait()
		}
	}
	callers.Wait()
	count := func(what string) (n int) {
		require.NoError(t, database.Unscoped(s.App.DB.Read(t.Context())).Raw("SELECT count(*) FROM "+what).Scan(&n).Error)
		return n
	}
	for _, left := range []string{"tool_call_results WHERE status = 'executing'", "action_results WHERE status = 'running'"} {
		require.Eventually(t, func() bool { return count(left) == 0 }, 15*time.Second, 20*time.Millisecond, left)
	}
	require.Positive(t, count("action_results"))
}
