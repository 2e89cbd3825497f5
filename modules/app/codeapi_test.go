package app_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
)

// ended is an answer of the code interpreter API.
type ended struct {
	code   int // HTTP status
	header http.Header

	Status            string
	SessionID         string `json:"session_id"`
	ContinuationToken string `json:"continuation_token"`
	ToolCalls         []struct {
		ID, Name string
		Input    map[string]any
	} `json:"tool_calls"`
	Stdout, Stderr, Error, Message string
	Files                          []file
	DeletedFiles                   []string       `json:"deleted_files"`
	RetryAfter                     int            `json:"retry_after_seconds"`
	ArtifactDelivery               map[string]any `json:"artifact_delivery"`
	ErrorCode                      string         `json:"error_code"`
	ToolCallsMade                  int            `json:"tool_calls_made"`
}

type file struct {
	ID               string            `json:"id"`
	Name             string            `json:"name"`
	SessionID        string            `json:"session_id"`
	StorageSessionID string            `json:"storage_session_id"`
	Inherited        bool              `json:"inherited"`
	ModifiedFrom     map[string]string `json:"modified_from"`
}

// code sends a request as the first user and reads the answer.
func (s *instance) code(path string, body any, headers ...string) ended {
	s.t.Helper()
	return s.codeAs(s.key, path, body, headers...)
}

func (s *instance) codeAs(key, path string, body any, headers ...string) ended {
	s.t.Helper()
	a := s.send(key, "POST", path, body, headers...)
	e := ended{code: a.status, header: a.header}
	require.NoError(s.t, json.Unmarshal([]byte(a.raw), &e), a.raw)
	return e
}

// results answers every call with its own input.
func results(e ended) []map[string]any {
	out := make([]map[string]any, len(e.ToolCalls))
	for i, c := range e.ToolCalls {
		out[i] = map[string]any{"call_id": c.ID, "result": map[string]any{"name": c.Name, "input": c.Input}, "is_error": false}
	}
	return out
}

// drive continues a program until it ends, and returns its rounds.
func (s *instance) drive(body map[string]any, headers ...string) (e ended, rounds [][]string) {
	s.t.Helper()
	e = s.code("/exec/programmatic", body, headers...)
	for e.Status == "tool_call_required" {
		require.Equal(s.t, 200, e.code)
		var names []string
		for _, c := range e.ToolCalls {
			names = append(names, c.Name)
		}
		rounds = append(rounds, names)
		e = s.code("/exec/programmatic", map[string]any{"continuation_token": e.ContinuationToken, "tool_results": results(e)}, headers...)
	}
	return e, rounds
}

func tools(names ...string) []map[string]any {
	list := make([]map[string]any, len(names))
	for i, n := range names {
		list[i] = map[string]any{"name": n, "toolType": "mcp", "allowed_callers": []string{"code_execution"}}
	}
	return list
}

func TestExecLanguagesAndFailures(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		for _, c := range []struct {
			path, lang, code, stdout, stderr string
			args                             any
		}{
			{"/exec", "py", "import sys\nprint('hi', sys.argv[1:])", "hi ['a']\n", "", []string{"a"}},
			{"/v1/exec", "python", "print(1)", "1\n", "", nil},
			{"//exec", "bash", "echo $1 >&2", "", "b\n", "b"},
			{"/exec", "js", "console.log(process.argv.slice(2))", "[ '1' ]\n", "", []int{1}},
			{"/exec", "py", "import asyncio\nasync def main():\n    print('wrapped')\nasyncio.run(main())", "wrapped\n", "", nil},
			{"/exec", "py", "print('before')\n1/0", "before\n", "ZeroDivisionError: division by zero\n", nil},
		} {
			e := s.code(c.path, map[string]any{"lang": c.lang, "code": c.code, "args": c.args, "unknown": 1, "user_id": "x"})
			require.Equal(t, 200, e.code, "%+v", e)
			require.Equal(t, c.stdout, e.Stdout)
			require.True(t, strings.HasSuffix(e.Stderr, c.stderr), e.Stderr)
			require.Regexp(t, `^[A-Za-z0-9_-]{21}$`, e.SessionID)
			require.NotNil(t, e.Files)
			require.Equal(t, "default", e.header.Get("X-CodeAPI-Execution-Profile"))
		}
		for body, want := range map[string]string{
			`{"lang":"rs","code":"x"}`:                    "Unsupported language: rs",
			`{"lang":"py"}`:                               "code is required",
			`{"lang":"py","code":" "}`:                    "code is required",
			`{"code":"x"}`:                                "Unsupported language: ",
			`{"lang":"py","code":"x","timeout":5}`:        "timeout must be from 1000 to 300000 milliseconds.",
			`{"lang":"py","code":"x","timeout":"5"}`:      "timeout must be a number",
			`{"lang":"py","code":"x","args":["\u0000"]}`:  "args must not hold NUL.",
			`{"lang":"py","code":"x","files":{}}`:         "files must be a list",
			`{"lang":"py","code":"x","files":[{"id":5}]}`: "files.id must be a text",
			`{"lang":"py","code":"x","timeout":{}}`:       "timeout must be a number",
			`{"lang":"py","code":"x","timeout":-1}`:       "timeout must be a number of milliseconds.",
			`{"lang":"py","code":"x","timeout":1e300}`:    "timeout must be a number of milliseconds.",
			`{"lang":"py","code":"x","files":[{"name":"` + strings.Repeat("d/", 10) + `f"}]}`:   "files[0].name must be a path below /mnt/data of no more than 256 characters or 10 levels",
			`{"lang":"py","code":"x","files":[{},{"name":"` + strings.Repeat("d", 257) + `"}]}`: "files[1].name must be a path below /mnt/data of no more than 256 characters or 10 levels",
			`{"lang":"py","code":"x","files":[{"kind":"team"}]}`:                                "files[0].kind must be user, agent or skill",
			`{"lang":"py","code":"x","files":[{"kind":"user","version":1}]}`:                    "files[0].version is for kind skill only",
			`{"lang":"py","code":"x","files":[{"kind":"skill","version":"v1"}]}`:                "files[0].version must be a number",
			`{"lang":"py","code":"` + strings.Repeat("x", 5<<20) + `"}`:                         "code must not be larger than 4194304 bytes.",
		} {
			e := s.code("/exec", body)
			require.Contains(t, []int{400, 413}, e.code)
			require.Equal(t, "error", e.Status)
			require.Equal(t, want, e.Error)
		}
		e := s.code("/exec", map[string]any{"lang": "py", "code": "while True: pass", "timeout": 1000})
		require.Equal(t, "timed_out", e.Status)
		require.Equal(t, 409, s.code("/exec", `{"lang":"py","code":"pass"}`, "X-CodeAPI-Expected-Profile", "stateful").code)
		require.Equal(t, "execution_profile_mismatch", s.code("/exec", `{"lang":"py","code":"pass"}`, "X-CodeAPI-Expected-Profile", "stateful").Error)
	})
}

func TestCodeCredentials(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite))
	program := map[string]any{"lang": "py", "code": "print(1)"}
	for _, header := range []string{
		"Bearer " + s.key, "ApiKey " + s.key, "Basic " + base64.StdEncoding.EncodeToString([]byte(s.key+":")),
		"Basic " + base64.StdEncoding.EncodeToString([]byte(s.key+":x")), "Basic " + base64.StdEncoding.EncodeToString([]byte(s.key)),
	} {
		require.Equal(t, 200, s.codeAs("", "/exec", program, "Authorization", header).code, header)
	}
	for _, header := range []string{"", "Bearer rf_x", "ApiKey rf_x", "Basic eA==", "Basic !", "Digest x"} {
		e := s.codeAs("", "/exec", program, "Authorization", header)
		require.Equal(t, 401, e.code, header)
		require.NotEmpty(t, e.Error)
	}
	open := serve(t, databasetest.URL(t, database.SQLite), "CODEAPI_AUTH=false")
	require.Equal(t, 200, open.codeAs("", "/exec", program).code)
	require.Equal(t, 401, open.codeAs("rf_x", "/exec", program).code, "a bad credential is no credential")
	require.Equal(t, 401, open.send("", "GET", "/v1/action/list", nil).status, "only this API is open")
}

func (s *instance) upload(path string, files map[string]string, fields ...string) answer {
	s.t.Helper()
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	for i := 0; i < len(fields); i += 2 {
		require.NoError(s.t, w.WriteField(fields[i], fields[i+1]))
	}
	for name, content := range files {
		part, err := w.CreatePart(map[string][]string{"Content-Disposition": {fmt.Sprintf(`form-data; name="file"; filename=%q`, name)}})
		require.NoError(s.t, err)
		_, err = io.WriteString(part, content)
		require.NoError(s.t, err)
	}
	require.NoError(s.t, w.Close())
	return s.send(s.key, "POST", path, body.String(), "Content-Type", w.FormDataContentType())
}

type uploaded struct {
	Message          string
	StorageSessionID string `json:"storage_session_id"`
	SessionID        string `json:"session_id"`
	Files            []struct{ Filename, FileID, Status, Error string }
	Succeeded        int
	Failed           int
}

func (a answer) uploaded(t *testing.T) uploaded {
	t.Helper()
	var u uploaded
	require.NoError(t, json.Unmarshal([]byte(a.raw), &u), a.raw)
	return u
}

func TestFilesInAndOut(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		require.Contains(t, s.upload("/upload", map[string]string{"a": ""}, "id", strings.Repeat("x", 4097)).raw, "A field of the form has more than 4096 bytes")
		a := s.upload("/upload", map[string]string{"data.csv": "a,b\n1,2\n"}, "kind", "user", "id", "user-1", "entity_id", "old")
		require.Equal(t, 200, a.status, a.raw)
		up := a.uploaded(t)
		require.Equal(t, "success", up.Message)
		require.Equal(t, up.SessionID, up.StorageSessionID)
		require.Equal(t, "data.csv", up.Files[0].Filename)

		// In by the old and by the new field names, under another name.
		in := []map[string]any{
			{"id": up.Files[0].FileID, "name": "data.csv", "session_id": up.SessionID},
			{"id": up.Files[0].FileID, "name": "deep/copy.csv", "storage_session_id": up.SessionID, "resource_id": "user-1", "kind": "user"},
		}
		e := s.code("/exec", map[string]any{"lang": "py", "files": in, "code": `
import os, pandas as pd
print(sorted(os.listdir()), os.listdir("deep"))
pd.read_csv("data.csv").assign(c=3).to_csv("out/result.csv", index=False) if os.makedirs("out") is None else 0
open("deep/copy.csv", "a").write("3,4\n")
open("/tmp/not-kept", "w").write("x")`})
		require.Equal(t, "['data.csv', 'deep'] ['copy.csv']\n", e.Stdout, e.Stderr)
		require.Len(t, e.Files, 3)
		byName := map[string]file{}
		for _, f := range e.Files {
			require.Regexp(t, `^[A-Za-z0-9_-]{21}$`, f.ID)
			require.Equal(t, f.SessionID, f.StorageSessionID)
			byName[f.Name] = f
		}
		require.Equal(t, file{ID: up.Files[0].FileID, Name: "data.csv", SessionID: up.SessionID, StorageSessionID: up.SessionID, Inherited: true}, byName["data.csv"])
		require.Equal(t, map[string]string{"id": up.Files[0].FileID, "storage_session_id": up.SessionID}, byName["deep/copy.csv"].ModifiedFrom)
		made := byName["out/result.csv"]
		require.Equal(t, e.SessionID, made.StorageSessionID)
		require.Empty(t, made.ModifiedFrom)

		got := s.send(s.key, "GET", "/download/"+made.SessionID+"/"+made.ID+"?kind=user&id=user-1", nil)
		require.Equal(t, "a,b,c\n1,2,3\n", got.raw)
		require.Equal(t, `attachment; filename=result.csv`, got.header.Get("Content-Disposition"))
		require.Equal(t, "text/csv; charset=utf-8", got.header.Get("Content-Type"))
		part := s.send(s.key, "GET", "/v1/download/"+made.SessionID+"/"+made.ID, nil, "Range", "bytes=2-4")
		require.Equal(t, 206, part.status)
		require.Equal(t, "b,c", part.raw)

		// The list and the probe of the host.
		var list []map[string]any
		require.NoError(t, json.Unmarshal([]byte(s.send(s.key, "GET", "//files/"+up.SessionID+"?detail=full", nil).raw), &list))
		require.Len(t, list, 1)
		require.Equal(t, up.SessionID+"/"+up.Files[0].FileID+".csv", list[0]["name"])
		require.Equal(t, "data.csv", list[0]["metadata"].(map[string]any)["original-filename"])
		var object map[string]any
		require.NoError(t, json.Unmarshal([]byte(s.send(s.key, "GET", "/sessions/"+up.SessionID+"/objects/"+up.Files[0].FileID, nil).raw), &object))
		modified, err := time.Parse(time.RFC3339, object["lastModified"].(string))
		require.NoError(t, err)
		require.WithinDuration(t, time.Now(), modified, time.Minute)
		require.JSONEq(t, `[]`, s.send(s.key, "GET", "/files/"+strings.Repeat("x", 21), nil).raw)

		// A later program of the session finds its files, also by programs that pause.
		later, _ := s.drive(map[string]any{"code": "import os\nprint(open('out/result.csv').read()); os.remove('out/result.csv')", "session_id": e.SessionID})
		require.Equal(t, "a,b,c\n1,2,3\n\n", later.Stdout, later.Stderr)
		require.Equal(t, e.SessionID, later.SessionID)
		require.Equal(t, []string{"out/result.csv"}, later.DeletedFiles)

		// Deleted for good; files of failed programs are not kept.
		require.Equal(t, 200, s.send(s.key, "DELETE", "/files/"+made.SessionID+"/"+made.ID, nil).status)
		for _, path := range []string{"/download/", "/sessions/"} {
			path += made.SessionID + "/" + map[string]string{"/download/": "", "/sessions/": "objects/"}[path] + made.ID
			require.Equal(t, 404, s.send(s.key, "GET", path, nil).status, path)
		}
		before := s.count("SELECT count(*) FROM code_files")
		e = s.code("/exec", map[string]any{"lang": "py", "code": "open('x', 'w').write('x')\n1/0"})
		require.Empty(t, e.Files)
		require.Equal(t, before, s.count("SELECT count(*) FROM code_files"))
	})
}

func TestUploads(t *testing.T) {
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite), "CODEAPI_MAX_FILE=1KiB", "CODEAPI_MAX_FILES=3")
	a := s.upload("/upload/batch", map[string]string{"pptx/SKILL.md": "# x", "empty.txt": "", "big.bin": strings.Repeat("x", 2000)}, "kind", "skill", "version", "3")
	u := a.uploaded(t)
	require.Equal(t, 200, a.status)
	require.Equal(t, "partial_success", u.Message)
	require.Equal(t, []int{2, 1}, []int{u.Succeeded, u.Failed})
	for _, f := range u.Files {
		require.Equal(t, f.Filename == "big.bin", f.Status == "error", "%+v", f)
	}
	require.Equal(t, 400, s.upload("/upload/batch", map[string]string{"big": strings.Repeat("x", 2000)}).status)
	require.Equal(t, 413, s.upload("/upload", map[string]string{"big": strings.Repeat("x", 2000)}).status)
	require.Equal(t, 413, s.upload("/upload", map[string]string{"huge": strings.Repeat("x", 9000)}).status)
	require.Equal(t, 400, s.upload("/upload", nil, "kind", "user").status)
	require.Contains(t, s.upload("/upload", map[string]string{"a": ""}, "kind", "team").raw, "kind must be user, agent or skill")
	require.Contains(t, s.upload("/upload", map[string]string{"a": ""}, "kind", "skill", "version", "v1").raw, "version must be a number")
	require.Equal(t, 400, s.upload("/upload/batch", map[string]string{"a": "", "b": "", "c": "", "d": ""}).status)
	require.Equal(t, 400, s.send(s.key, "POST", "/upload", `{}`).status)
	require.Equal(t, 400, s.send(s.key, "POST", "/upload", "no form", "Content-Type", "multipart/form-data; boundary=x").status)

	// Names cannot leave the folder.
	up := s.upload("/upload", map[string]string{"../../etc/passwd": "mine"}).uploaded(t)
	require.Equal(t, "etc/passwd", up.Files[0].Filename)
	e := s.code("/exec", map[string]any{"lang": "bash", "code": "cat etc/passwd x/y", "files": []map[string]any{
		{"id": up.Files[0].FileID, "name": "../../etc/passwd", "session_id": up.SessionID},
		{"id": up.Files[0].FileID, "name": "/mnt/data/x/y", "session_id": up.SessionID},
	}})
	require.Equal(t, "minemine", e.Stdout, e.Stderr)
}

func TestProgramsPauseAndContinue(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		e, rounds := s.drive(map[string]any{"tools": tools("get-weather", "for", "123data", "my tool"), "timeout": 60000, "code": `
w = await get_weather(city="SF", unit=None)
print("first", w["input"])
a, b = await asyncio.gather(for_tool(x=1), _123data(y=[1, {"z": None}]))
print(a["name"], b["input"])
for n in range(3):
    if n != 1: print(my_tool(n=n)["input"]["n"])
open("made.txt", "w").write("made")`})
		require.Equal(t, 200, e.code)
		require.Equal(t, "completed", e.Status, "%+v", e)
		require.Equal(t, "first {'city': 'SF'}\nfor {'y': [1, {'z': None}]}\n0\n2\n", e.Stdout)
		require.Equal(t, [][]string{{"get-weather"}, {"for", "123data"}, {"my tool"}, {"my tool"}}, rounds)
		require.Equal(t, "made.txt", e.Files[0].Name)
		require.Empty(t, e.Stderr)

		e, rounds = s.drive(map[string]any{"lang": "bash", "tools": tools("get.weather"), "code": ": & wait\nget_weather '{\"a\":1}' | head -c 20; get_weather '{}' >/dev/null & get_weather '{}' > /dev/null & wait"})
		require.Equal(t, `{"input":{"a":1},"na`, e.Stdout, e.Stderr)
		require.Equal(t, []string{"get.weather"}, rounds[0])
		require.Contains(t, []int{2, 3}, len(rounds), "each call starts a process, which a busy machine may delay")

		e, _ = s.drive(map[string]any{"code": "print('no tools')", "tools": []any{}})
		require.Equal(t, "no tools\n", e.Stdout)
		require.Zero(t, s.count("SELECT count(*) FROM code_executions WHERE status <> 'completed'"))
		require.Equal(t, 2, s.count("SELECT count(*) FROM code_executions"))
	})
}

func TestErrorsOfTools(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite))
	for code, want := range map[string]string{
		"try: await ask()\nexcept ToolExecutionError as e: print('caught', e)":                         "caught it broke\n",
		"try: ask()\nexcept Exception as e: print(type(e).__name__)":                                   "ToolExecutionError\n",
		"rs = await asyncio.gather(ask(), ask(), return_exceptions=True)\nprint([str(r) for r in rs])": "['it broke', 'it broke']\n",
	} {
		e := s.code("/exec/programmatic", map[string]any{"code": code, "tools": tools("ask")})
		answers := results(e)
		for _, a := range answers {
			a["result"], a["is_error"], a["error_message"] = nil, true, "it broke"
		}
		e = s.code("/exec/programmatic", map[string]any{"continuation_token": e.ContinuationToken, "tool_results": answers})
		require.Equal(t, want, e.Stdout, e.Stderr)
		require.Equal(t, "completed", e.Status)
	}
	e := s.code("/exec/programmatic", map[string]any{"code": "print('before')\nx = 1\nawait ask()", "tools": tools("ask")})
	e = s.code("/exec/programmatic", map[string]any{
		"continuation_token": e.ContinuationToken, "tool_results": []map[string]any{{"call_id": e.ToolCalls[0].ID, "is_error": true, "result": nil, "error_message": "it broke"}},
	})
	require.Equal(t, 200, e.code)
	require.Equal(t, "error", e.Status)
	require.Equal(t, "ToolExecutionError: it broke", e.Error)
	require.Contains(t, e.Stderr, `line 3, in <module>`)
	require.Equal(t, "before\n", e.Stdout)
	// A result that is left out is null.
	e = s.code("/exec/programmatic", map[string]any{"code": "print(await ask())", "tools": tools("ask")})
	e = s.code("/exec/programmatic", map[string]any{"continuation_token": e.ContinuationToken, "tool_results": []map[string]any{{"call_id": e.ToolCalls[0].ID, "is_error": false}}})
	require.Equal(t, "None\n", e.Stdout)
}

// A megabyte each way arrives as it was.
func TestLargeCalls(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite), "CODEAPI_MAX_RESULT=2MiB", "CODEAPI_MAX_STATE=8MiB")
	e := s.code("/exec/programmatic", map[string]any{"code": "r = await ask(t='ä' * (1 << 20))\nprint(len(r['input']['t']), r['input']['t'] == 'ä' * (1 << 20))", "tools": tools("ask")})
	require.Len(t, []rune(e.ToolCalls[0].Input["t"].(string)), 1<<20)
	big := results(e)
	big[0]["result"] = strings.Repeat("x", 3<<20)
	refused := s.code("/exec/programmatic", map[string]any{"continuation_token": e.ContinuationToken, "tool_results": big})
	require.Equal(t, 413, refused.code)
	// The refusal harmed nothing. The echo is over the limit as well: ä has
	// two bytes.
	require.Equal(t, 413, s.code("/exec/programmatic", map[string]any{"continuation_token": e.ContinuationToken, "tool_results": results(e)}).code)
	big[0]["result"] = map[string]any{"input": map[string]any{"t": strings.Repeat("x", 1<<20)}}
	e = s.code("/exec/programmatic", map[string]any{"continuation_token": e.ContinuationToken, "tool_results": big})
	require.Equal(t, "1048576 False\n", e.Stdout, e.Stderr)
}

func TestContinuationTokens(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		ben := s.another("ben")
		program := map[string]any{"code": "a = await ask(n=1)\nb = await ask(n=2)\nprint(a['input'], b['input'])", "tools": tools("ask")}
		one := s.code("/exec/programmatic", program)
		other := s.code("/exec/programmatic", program)
		send := func(key, token string, r []map[string]any) ended {
			return s.codeAs(key, "/exec/programmatic", map[string]any{"continuation_token": token, "tool_results": r})
		}
		payload, signature, _ := strings.Cut(one.ContinuationToken, ".")
		otherPayload, _, _ := strings.Cut(other.ContinuationToken, ".")
		for token, want := range map[string]string{
			"":                                       "Invalid continuation token",
			"nonsense":                               "Invalid continuation token",
			payload:                                  "Invalid continuation token",
			payload + ".":                            "Invalid continuation token",
			otherPayload + "." + signature:           "Invalid continuation token",
			one.ContinuationToken + "x":              "Invalid continuation token",
			strings.ToUpper(one.ContinuationToken):   "Invalid continuation token",
			one.ContinuationToken + "\u0000":         "Invalid continuation token",
			strings.Repeat(one.ContinuationToken, 9): "Invalid continuation token",
		} {
			e := send(s.key, token, results(one))
			require.Equal(t, 400, e.code, token)
			require.Equal(t, want, e.Error)
			require.Equal(t, "error", e.Status)
		}
		foreign := send(ben, one.ContinuationToken, results(one))
		require.Equal(t, 403, foreign.code)
		require.Equal(t, "Continuation token belongs to another user", foreign.Error)

		// Results that do not fit the calls.
		for name, wrong := range map[string][]map[string]any{
			"none":    {},
			"unknown": {{"call_id": "call_999", "result": 1}},
			"twice":   append(results(one), results(one)...),
		} {
			e := send(s.key, one.ContinuationToken, wrong)
			require.Equal(t, 400, e.code, name)
			require.Contains(t, e.Error, "tool_results", name)
		}
		// None of it harmed the program.
		two := send(s.key, one.ContinuationToken, results(one))
		require.Equal(t, "tool_call_required", two.Status, "%+v", two)
		require.Equal(t, one.SessionID, two.SessionID)
		require.NotEqual(t, one.ToolCalls[0].ID, two.ToolCalls[0].ID)
		// An answer may be lost on its way: the same results get it again, others do not.
		again := send(s.key, one.ContinuationToken, results(one))
		require.Equal(t, two.ContinuationToken, again.ContinuationToken)
		require.Equal(t, two.ToolCalls, again.ToolCalls)
		others := results(one)
		others[0]["result"] = "other"
		replayed := send(s.key, one.ContinuationToken, others)
		require.Equal(t, 400, replayed.code)
		require.Equal(t, "Continuation token was used before", replayed.Error)
		end := send(s.key, two.ContinuationToken, results(two))
		require.Equal(t, "{'n': 1} {'n': 2}\n", end.Stdout)
		require.Equal(t, end.Stdout, send(s.key, two.ContinuationToken, results(two)).Stdout)
		old := send(s.key, one.ContinuationToken, results(one))
		require.Equal(t, 404, old.code)
		require.Equal(t, "error", old.Status)
		for e := other; ; {
			e = send(s.key, e.ContinuationToken, results(e))
			if e.Status == "completed" {
				break
			}
		}
	})
}

// Of many continuations at once one goes on.
func TestConcurrentContinuations(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite))
	e := s.code("/exec/programmatic", map[string]any{"code": "await ask()\nimport time; time.sleep(0.3)\nprint('once')", "tools": tools("ask")})
	codes := make(chan ended, 10)
	for range cap(codes) {
		go func() {
			codes <- s.code("/exec/programmatic", map[string]any{"continuation_token": e.ContinuationToken, "tool_results": results(e)})
		}()
	}
	counts := map[int]int{}
	for range cap(codes) {
		got := <-codes
		counts[got.code]++
		if got.code == 409 {
			require.Equal(t, "Execution is being continued by another request", got.Error)
		}
		if got.code == 200 {
			require.Equal(t, "once\n", got.Stdout)
		}
	}
	require.Positive(t, counts[200], "%v", counts) // and again for those that came after its end
	require.Equal(t, 10, counts[200]+counts[409], "%v", counts)
}

func TestLimitsOfPrograms(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite), "CODEAPI_MAX_ROUNDS=3", "CODEAPI_IDLE_MS=3s", "CODEAPI_MAX_TOOLS=4", "CODEAPI_MAX_CALLS=10")
	loop := map[string]any{"code": "import sys\nprint('out')\nfor n in range(4): await ask(n=n)", "tools": tools("ask")}
	modern := []string{"User-Agent", "LibreChat/1.0", "Authorization", "Bearer " + s.key, "X-API-Key", ""}
	e, rounds := s.drive(loop)
	require.Len(t, rounds, 3)
	require.Equal(t, 400, e.code)
	require.Equal(t, "Exceeded maximum round trips (3)", e.Error)
	require.Equal(t, "out\n", e.Stdout)
	e, _ = s.drive(loop, modern...)
	require.Equal(t, 200, e.code)
	require.Equal(t, "error", e.Status)
	require.Contains(t, e.Stderr, "Exceeded maximum round trips (3)")

	busy := map[string]any{"code": "print('out')\nwhile True: pass", "timeout": 1000}
	e = s.code("/exec/programmatic", busy)
	require.Equal(t, 408, e.code)
	require.Equal(t, "Execution timeout", e.Error)
	require.Equal(t, "out\n", e.Stdout)
	e = s.code("/exec/programmatic", busy, modern...)
	require.Equal(t, 200, e.code)
	require.Equal(t, "Time limit exceeded", e.Error)
	e = s.code("/exec/programmatic", map[string]any{"code": "1/0"}, modern...)
	require.Equal(t, "Sandbox exited with code 1", e.Error)
	e = s.code("/exec/programmatic", map[string]any{"code": "x = bytearray(1 << 40)"}, modern...)
	require.Equal(t, "Out of memory", e.Error)

	// The time that the caller takes does not count; that of the code does.
	e = s.code("/exec/programmatic", map[string]any{"code": "await ask()\nprint('over')", "tools": tools("ask"), "timeout": 1000})
	<-time.After(1200 * time.Millisecond) // the caller's tool
	e = s.code("/exec/programmatic", map[string]any{"continuation_token": e.ContinuationToken, "tool_results": results(e)})
	require.Equal(t, "over\n", e.Stdout, "%+v", e)
	e = s.code("/exec/programmatic", map[string]any{"code": "await ask()\nwhile True: pass", "tools": tools("ask"), "timeout": 1000})
	e = s.code("/exec/programmatic", map[string]any{"continuation_token": e.ContinuationToken, "tool_results": results(e)})
	require.Equal(t, 408, e.code)

	// Nobody continues it.
	e = s.code("/exec/programmatic", map[string]any{"code": "await ask()", "tools": tools("ask")})
	require.Eventually(t, func() bool { return s.app.Engine.Stats().Paused == 0 }, time.Minute, 10*time.Millisecond)
	late := s.code("/exec/programmatic", map[string]any{"continuation_token": e.ContinuationToken, "tool_results": results(e)})
	require.Contains(t, []int{400, 404}, late.code)
	require.Contains(t, strings.ToLower(late.Error), "expired")

	e, _ = s.drive(map[string]any{"code": "rs = await asyncio.gather(*[ask() for _ in range(12)], return_exceptions=True)\nprint(sum(isinstance(r, Exception) for r in rs))", "tools": tools("ask")})
	require.Equal(t, "2\n", e.Stdout, e.Stderr)
	many := strings.Repeat(`{"name":"a"},`, 4)
	for body, want := range map[string]string{
		`{"code":"x","tools":[{"name":"a b"},{"name":"a-b"}]}`:   `The tools "a b" and "a-b" would both be called a_b.`,
		`{"code":"x","tools":[` + many + `{"name":"e"}]}`:        "A request may bring 4 tools at most.",
		`{"code":"x","tools":[{}]}`:                              "tools[0] has no name",
		`{"code":"x","lang":"js"}`:                               "Unsupported language: js",
		`{"code":"x","timeout":300001}`:                          "timeout must be from 1000 to 300000 milliseconds.",
		`{"code":"x","tools":[{"name":"x","parameters":"odd"}]}`: "",
		`{"tools":[]}`: "code is required",
	} {
		e := s.code("/exec/programmatic", body)
		require.Equal(t, want, strings.TrimPrefix(e.Error, "NameError: name 'x' is not defined"), body)
	}
	// Only the request's tools exist, whatever the code sends.
	e, rounds = s.drive(map[string]any{"tools": tools("ask"), "code": `
import json
from portico_runtime import channel
print(channel.request("/v1/program/calls", {}, json.dumps({"calls": [{"name": "other", "input": {}}]}).encode())[2])
print(channel.request("/v1/tool/execute", {"X-API-Key": "x"}, b"{}")[0])`})
	require.Empty(t, rounds)
	require.Contains(t, e.Stdout, "was not given to this program")
	require.Contains(t, e.Stdout, "\n404\n")
}

// A caller that goes away, or cancels, frees the process.
func TestLeavingEndsPrograms(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite))
	gone := func() bool {
		stats := s.app.Engine.Stats()
		return stats.Running+stats.Paused == 0
	}
	for _, path := range []string{"/exec", "/exec/programmatic"} {
		ctx, leave := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, "POST", s.url+path, strings.NewReader(`{"lang":"py","code":"import time; time.sleep(100)"}`))
		require.NoError(t, err)
		r.Header.Set("X-API-Key", s.key)
		r.Header.Set("Content-Type", "application/json")
		done := make(chan error, 1)
		go func() {
			resp, err := http.DefaultClient.Do(r)
			if err == nil {
				resp.Body.Close()
			}
			done <- err
		}()
		require.Eventually(t, func() bool { return s.app.Engine.Stats().Running == 1 }, time.Minute, time.Millisecond)
		leave()
		require.Error(t, <-done)
		require.Eventually(t, gone, time.Minute, time.Millisecond)
	}

	const request = "X-LibreChat-Code-Request-ID"
	answered := make(chan ended, 1)
	go func() {
		answered <- s.code("/exec/programmatic", map[string]any{"code": "import time; time.sleep(100)"}, request, "r-1")
	}()
	cancel := func(key, id string) ended {
		return s.codeAs(key, "/exec/programmatic/cancel", map[string]any{"request_id": id})
	}
	ben := s.another("ben")
	require.Equal(t, "already_completed", cancel(ben, "r-1").Status)
	require.Eventually(t, func() bool { return cancel(s.key, "r-1").code == 202 }, time.Minute, time.Millisecond)
	e := <-answered
	require.Equal(t, "Execution was cancelled", e.Error)
	require.Eventually(t, gone, time.Minute, time.Millisecond)
	require.Equal(t, "already_completed", cancel(s.key, "r-1").Status)
	require.Equal(t, 400, cancel(s.key, " ").code)

	// Also while it is paused.
	e = s.code("/exec/programmatic", map[string]any{"code": "await ask()", "tools": tools("ask")}, request, "r-2")
	require.Equal(t, 202, cancel(s.key, "r-2").code)
	require.Eventually(t, gone, time.Minute, time.Millisecond)
	e = s.code("/exec/programmatic", map[string]any{"continuation_token": e.ContinuationToken, "tool_results": results(e)})
	require.Equal(t, "Execution was cancelled", e.Error)
}

// Another user does not find sessions, files or programs, nor learns of them.
func TestCodeOfAnotherUser(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		ben := s.another("ben")
		e := s.code("/exec", map[string]any{"lang": "py", "code": "open('secret.txt', 'w').write('top secret')"})
		f := e.Files[0]
		for _, path := range []string{"/download/%s/%s", "/sessions/%s/objects/%s"} {
			a := s.send(ben, "GET", fmt.Sprintf(path, f.SessionID, f.ID), nil)
			require.Equal(t, 404, a.status)
			require.NotContains(t, a.raw, "secret")
		}
		require.Equal(t, 404, s.send(ben, "DELETE", "/files/"+f.SessionID+"/"+f.ID, nil).status)
		require.JSONEq(t, `[]`, s.send(ben, "GET", "/files/"+f.SessionID, nil).raw)
		theirs := s.codeAs(ben, "/exec", map[string]any{"lang": "bash", "code": "ls", "files": []map[string]any{{"id": f.ID, "name": "x", "session_id": f.SessionID}}})
		require.Equal(t, 403, theirs.code)
		theirs = s.codeAs(ben, "/exec", map[string]any{"lang": "bash", "code": "ls", "session_id": f.SessionID})
		require.Empty(t, theirs.Stdout)
		require.NotEqual(t, f.SessionID, theirs.SessionID)
		require.Equal(t, "secret.txt\n", s.code("/exec", map[string]any{"lang": "bash", "code": "ls", "session_id": f.SessionID}).Stdout)
	})
}

// Sessions survive a restart; programs that were paused do not, and say so.
func TestCodeAfterARestart(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	for _, d := range databasetest.Of(t) {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			env := environ(t, databasetest.URL(t, d))
			s := serveWith(t, env)
			up := s.upload("/upload", map[string]string{"kept.txt": "kept"}).uploaded(t)
			e := s.code("/exec/programmatic", map[string]any{"code": "await ask()", "tools": tools("ask")})
			lost := s.count("SELECT count(*) FROM code_executions WHERE status = 'open'")
			require.Equal(t, 1, lost)
			s.stop()

			again := serveWith(t, env)
			again.key = s.key // it was shown once
			got := again.code("/exec/programmatic", map[string]any{"continuation_token": e.ContinuationToken, "tool_results": results(e)})
			require.Equal(t, 404, got.code)
			require.Contains(t, got.Error, "Execution")
			require.Equal(t, "kept", again.send(s.key, "GET", "/download/"+up.SessionID+"/"+up.Files[0].FileID, nil).raw)
		})
	}
}

// A server that is killed takes its paused programs along. The next one knows
// that there was one, and what it cannot know it does not say.
func TestLostPrograms(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	for _, d := range databasetest.Of(t) {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			listen := testenv.FreeAddress(t)
			env := environ(t, databasetest.URL(t, d), "PORTICO_LISTEN="+listen, "LOG_LEVEL=error")
			p := spawn(t, env)
			s := &instance{t: t, url: "http://" + listen, key: p.key}
			e := s.code("/exec/programmatic", map[string]any{"code": "await ask()\nprint('ran')", "tools": tools("ask")})
			require.Equal(t, "tool_call_required", e.Status)
			require.NoError(t, p.cmd.Process.Kill())
			require.Error(t, p.cmd.Wait())

			spawn(t, env)
			got := s.code("/exec/programmatic", map[string]any{"continuation_token": e.ContinuationToken, "tool_results": results(e)})
			require.Equal(t, 404, got.code)
			require.Contains(t, got.Error, "another one holds it, or held it when it was killed")
			require.Contains(t, got.Message, "run the program again")
		})
	}
}

// A continuation that reaches another process of the deployment is refused, and
// the program goes on where it is held.
func TestContinuationsAtAnotherProcess(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		e := s.code("/exec/programmatic", map[string]any{"code": "await ask()\nprint('ran')", "tools": tools("ask")})
		other := serveWith(t, environ(t, s.app.Config.Database.URL.Reveal()))
		other.key = s.key
		again := map[string]any{"continuation_token": e.ContinuationToken, "tool_results": results(e)}
		got := other.code("/exec/programmatic", again)
		require.Equal(t, 404, got.code)
		require.NotContains(t, got.Error, "ended")
		require.Contains(t, got.Message, "Send it to the address that answered the first request.")
		require.Equal(t, "ran\n", s.code("/exec/programmatic", again).Stdout)
	})
}

// The caller's tools and those of a toolset work in one program, which is
// recorded and billed as any other.
func TestToolsetsInProgramsThatPause(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		e, rounds := s.drive(map[string]any{"toolsets": []string{"demo"}, "tools": tools("ask"), "code": `
from refly_tools.demo import Demo
w, a = await asyncio.gather(get_weather(city="Oslo", file_name_title="x"), ask(q=1))
print(w["city"], a["input"], Demo.get_weather(city="Rome", file_name_title="y")["data"]["city"])
try: get_weather(city=5, file_name_title="z")
except ToolExecutionError as e: print(e)`})
		require.Equal(t, "completed", e.Status, "%+v", e)
		require.True(t, strings.HasPrefix(e.Stdout, "Oslo {'q': 1} Rome\nInvalid arguments: city"), e.Stdout)
		require.Equal(t, [][]string{{"ask"}}, rounds)
		require.Equal(t, 2, s.count("SELECT count(*) FROM tool_call_results WHERE tool_name = 'get_weather' AND status = 'completed'"))
		require.Equal(t, 2, s.count("SELECT count(*) FROM credit_usages"))
		require.Equal(t, 1, s.count("SELECT count(*) FROM action_results WHERE status = 'finish'"))
		missing := s.code("/exec/programmatic", map[string]any{"code": "print(1)", "toolsets": []string{"nothing"}})
		require.Equal(t, "1\n", missing.Stdout)
	})
}

// Many programs are paused at once and continued in any order.
func TestManyPausedPrograms(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite), "SANDBOX_POOL=8", "SANDBOX_MAX_PAUSED_PER_USER=500")
	const n = 500
	paused := make([]ended, n)
	var all sync.WaitGroup
	gate := make(chan struct{}, 8)
	each := func(fn func(i int)) {
		for _, i := range rand.Perm(n) {
			gate <- struct{}{}
			all.Go(func() {
				defer func() { <-gate }()
				fn(i)
			})
		}
		all.Wait()
	}
	each(func(i int) {
		paused[i] = s.code("/exec/programmatic", map[string]any{"code": fmt.Sprintf("r = await ask(n=%d)\nprint(r['input']['n'] == %d)", i, i), "tools": tools("ask")})
	})
	require.Equal(t, n, s.app.Engine.Stats().Paused)
	each(func(i int) {
		e := s.code("/exec/programmatic", map[string]any{"continuation_token": paused[i].ContinuationToken, "tool_results": results(paused[i])})
		if e.Stdout != "True\n" {
			t.Errorf("%d: %+v", i, e)
		}
	})
	require.Zero(t, s.app.Engine.Stats().Paused)
	a := s.send("", "GET", "/metrics", nil)
	require.Contains(t, a.raw, "portico_code_rounds_total 500")
	require.Contains(t, a.raw, `portico_code_programs_total{cause="completed"} 500`)
}

func TestTooManyPausedPrograms(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite), "SANDBOX_MAX_PAUSED=1")
	program := map[string]any{"code": "await ask()", "tools": tools("ask")}
	one := s.code("/exec/programmatic", program)
	two := s.code("/exec/programmatic", program)
	require.Equal(t, 429, two.code)
	require.Equal(t, "rate_limited", two.Error)
	require.Positive(t, two.RetryAfter)
	e := s.code("/exec/programmatic", map[string]any{"continuation_token": one.ContinuationToken, "tool_results": results(one)})
	require.Equal(t, "completed", e.Status)
}

// Sessions end some time after their last use, and take their files along.
func TestSessionsExpire(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		up := s.upload("/upload", map[string]string{"old.txt": "old"}).uploaded(t)
		kept := s.upload("/upload", map[string]string{"new.txt": "new"}).uploaded(t)
		s.exec("UPDATE code_sessions SET expires_at = ? WHERE session_id = ?", time.Now().Add(-time.Hour).UTC(), up.SessionID)
		require.Equal(t, 404, s.send(s.key, "GET", "/download/"+up.SessionID+"/"+up.Files[0].FileID, nil).status)
		require.NoError(t, s.app.CodeAPI.Purge(t.Context()))
		require.Equal(t, 1, s.count("SELECT count(*) FROM code_files"))
		keys, err := s.app.Objects.List(t.Context(), "code/")
		require.NoError(t, err)
		require.Len(t, keys, 1)
		require.Equal(t, "new", s.send(s.key, "GET", "/download/"+kept.SessionID+"/"+kept.Files[0].FileID, nil).raw)
	})
}
