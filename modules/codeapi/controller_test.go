package codeapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/codeapi"
	"github.com/portico-run/portico/modules/codeapi/codeapitest"
	"github.com/portico-run/portico/modules/codeapi/execution"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/enginetest"
)

// door lets in whom the key names.
type door struct{}

func (door) Authenticate(_ context.Context, c httpapi.Credentials) (actor.Actor, error) {
	switch c.APIKey {
	case "rf_anna":
		return actor.Actor{UID: anna.UID, Scope: actor.Full, Worker: "w-1"}, nil
	case "rf_ben":
		return ben, nil
	}
	return actor.Actor{}, errs.New(errs.Unauthorized, "No such key.")
}

// server is the API over HTTP.
type server struct {
	*codeapitest.Fixture

	t   *testing.T
	url string
}

func serve(t *testing.T, db *database.DB, o codeapitest.Options) *server {
	t.Helper()
	f := codeapitest.New(t, db, o)
	api := httpapi.New(httpapi.Deps{Auth: door{}, Logger: slog.New(slog.DiscardHandler), BodyLimit: 1 << 20, Version: "test"})
	f.Module.Register(api)
	s := httptest.NewServer(api)
	t.Cleanup(s.Close)
	return &server{f, t, s.URL}
}

// reply is an answer with every member that a test looks at.
type reply struct {
	status int
	header http.Header
	raw    string

	Status            string
	SessionID         string `json:"session_id"`
	ContinuationToken string `json:"continuation_token"`
	ToolCalls         []struct {
		ID    string
		Name  string
		Input map[string]any
	} `json:"tool_calls"`
	Stdout, Stderr, Error, Message string
	Files                          json.RawMessage
	Code                           int
	ErrorCode                      string         `json:"error_code"`
	RetryAfter                     int            `json:"retry_after_seconds"`
	ArtifactDelivery               map[string]any `json:"artifact_delivery"`
}

// send sends a body, which is JSON unless a header says otherwise, as Anna.
func (s *server) send(method, path string, body any, headers ...string) reply {
	s.t.Helper()
	text, ok := body.(string)
	if !ok && body != nil {
		raw, err := json.Marshal(body)
		require.NoError(s.t, err)
		text = string(raw)
	}
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(text))
	require.NoError(s.t, err)
	r.Header.Set("X-API-Key", "rf_anna")
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	a := reply{status: resp.StatusCode, header: resp.Header, raw: string(raw)}
	_ = json.Unmarshal(raw, &a) // a list, or the content of a file
	return a
}

type part struct{ field, file, content string }

func (s *server) upload(path string, parts ...part) (reply, []uploadedFile) {
	s.t.Helper()
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	for _, p := range parts {
		disposition := fmt.Sprintf(`form-data; name=%q`, p.field)
		if p.field == "file" {
			disposition += fmt.Sprintf(`; filename=%q`, p.file)
		}
		to, err := w.CreatePart(map[string][]string{"Content-Disposition": {disposition}})
		require.NoError(s.t, err)
		_, err = io.WriteString(to, p.content)
		require.NoError(s.t, err)
	}
	require.NoError(s.t, w.Close())
	a := s.send("POST", path, body.String(), "Content-Type", w.FormDataContentType())
	var files []uploadedFile
	if len(a.Files) > 0 {
		require.NoError(s.t, json.Unmarshal(a.Files, &files))
	}
	return a, files
}

type uploadedFile struct{ Status, Filename, FileID, Error string }

func TestFilesOverHTTP(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := serve(t, db, codeapitest.Options{})
		up, files := s.upload("/v1/upload", part{"kind", "", "skill"}, part{"version", "", "3"}, part{"read_only", "", "true"}, part{"file", "a/SKILL.md", "# x"})
		require.Equal(t, 200, up.status, up.raw)
		require.Equal(t, "success", up.Message)
		require.Equal(t, "a/SKILL.md", files[0].Filename)
		in := up.SessionID
		for detail, want := range map[string]string{
			"":           `"originalFilename":"a/SKILL.md"`,
			"full":       `"version":3`,
			"normalized": `"read_only":true`,
			"summary":    `"name":"` + in + "/" + files[0].FileID + `.md"`,
			"simple":     `["` + in + "/" + files[0].FileID + `.md"]`,
		} {
			require.Contains(t, s.send("GET", "/files/"+in+"?detail="+detail, nil).raw, want, detail)
		}
		require.Equal(t, 400, s.send("GET", "/files/"+in+"?detail=all", nil).status)
		object := s.send("GET", "/sessions/"+in+"/objects/"+files[0].FileID, nil)
		require.Contains(t, object.raw, `"original-filename":"a/SKILL.md"`)
		got := s.send("GET", "/download/"+in+"/"+files[0].FileID, nil, "Range", "bytes=2-")
		require.Equal(t, 206, got.status)
		require.Equal(t, "x", got.raw)
		require.Contains(t, got.header.Get("Content-Disposition"), "SKILL.md")
		require.Equal(t, 200, s.send("DELETE", "/sessions/"+in+"/objects/"+files[0].FileID, nil).status)
		for _, path := range []string{"/download/", "/files/"} {
			method := map[string]string{"/download/": "GET", "/files/": "DELETE"}[path]
			gone := s.send(method, path+in+"/"+files[0].FileID, nil)
			require.Equal(t, 404, gone.status)
			require.Equal(t, "File not found", gone.Error)
		}

		batch, files := s.upload("/upload/batch", part{"file", "fine", "x"}, part{"file", "big", strings.Repeat("x", 1025)}, part{"file", "", ""})
		require.Equal(t, 200, batch.status, batch.raw)
		require.Equal(t, "partial_success", batch.Message)
		require.Equal(t, []string{"success", "error", "error"}, []string{files[0].Status, files[1].Status, files[2].Status})
		for want, parts := range map[string][]part{
			"No file was sent":                      {{"kind", "", "user"}},
			"kind must be user, agent or skill":     {{"kind", "", "team"}, {"file", "x", ""}},
			"id must be UTF-8 without NUL":          {{"id", "", "a\x00b"}, {"file", "x", ""}},
			"read_only must be true or false.":      {{"read_only", "", "perhaps"}, {"file", "x", ""}},
			"The file is larger than 1024 bytes.":   {{"file", "x", strings.Repeat("x", 1025)}},
			"The upload is larger than 4096 bytes.": {{"file", "x", strings.Repeat("x", 9000)}},
			"A request may bring 10 files at most.": {{"file", "1", ""}, {"file", "2", ""}, {"file", "3", ""}, {"file", "4", ""}, {"file", "5", ""}, {"file", "6", ""}, {"file", "7", ""}, {"file", "8", ""}, {"file", "9", ""}, {"file", "0", ""}, {"file", "x", ""}},
		} {
			refused, _ := s.upload("/upload", parts...)
			require.GreaterOrEqual(t, refused.status, 400)
			require.Equal(t, want, refused.Error)
			require.Equal(t, "error", refused.Status)
		}
		none, _ := s.upload("/upload/batch", part{"file", "x", strings.Repeat("x", 1025)})
		require.Equal(t, 400, none.status)
		require.Equal(t, 400, s.send("POST", "/upload", "{}").status)
		require.Equal(t, 400, s.send("POST", "/upload", "no form", "Content-Type", "multipart/form-data; boundary=x").status)
	})
}

// Real programs over HTTP: one to its end, and one that pauses.
func TestProgramsOverHTTP(t *testing.T) {
	t.Parallel()
	s := serve(t, databasetest.Open(t, database.SQLite, nil), codeapitest.Options{Sandbox: enginetest.New(t)})
	up, files := s.upload("/upload", part{"file", "in.txt", "hello"})
	ran := s.send("POST", "/v1/exec", map[string]any{
		"lang": "py", "args": []any{"a", 1}, "timeout": 20000, "files": []any{map[string]any{"id": files[0].FileID, "name": "in.txt", "session_id": up.SessionID}},
		"code": "import sys\nprint(open('in.txt').read(), sys.argv[1:])\nopen('in.txt', 'a').write('!')\nopen('out.txt', 'w').write('out')",
	})
	require.Equal(t, 200, ran.status, ran.raw)
	require.Equal(t, "hello ['a', '1']\n", ran.Stdout)
	require.Contains(t, string(ran.Files), `"modified_from":{"id":"`+files[0].FileID)
	require.Contains(t, string(ran.Files), `"path":"/mnt/data/out.txt"`)
	require.Equal(t, "default", ran.header.Get("X-CodeAPI-Execution-Profile"))

	const request = "X-LibreChat-Code-Request-ID"
	program := map[string]any{"code": "w = await get_weather(city='SF')\nprint(w['t'])\nraise SystemExit(3)", "tools": []any{map[string]any{"name": "get-weather"}}}
	paused := s.send("POST", "/exec/programmatic", program, request, "r-1")
	require.Equal(t, "tool_call_required", paused.Status, paused.raw)
	require.Equal(t, map[string]any{"city": "SF"}, paused.ToolCalls[0].Input)
	next := map[string]any{"continuation_token": paused.ContinuationToken, "tool_results": []any{map[string]any{"call_id": paused.ToolCalls[0].ID, "result": map[string]any{"t": 21}}}}
	over := s.send("POST", "/exec/programmatic", next, request, "r-2")
	require.Equal(t, 200, over.status)
	require.Equal(t, "error", over.Status)
	require.Equal(t, "21\n", over.Stdout, over.Stderr)
	require.Equal(t, 3, over.Code)
	require.Contains(t, over.Stderr, "1 tool call")
	require.Equal(t, "already_completed", s.send("POST", "/exec/programmatic/cancel", map[string]any{"request_id": "r-2"}).Status)
	paused = s.send("POST", "/exec/programmatic", program, request, "r-3")
	cancelled := s.send("POST", "/exec/programmatic/cancel", map[string]any{"request_id": "r-3"})
	require.Equal(t, 202, cancelled.status)
	require.Equal(t, 400, s.send("POST", "/exec/programmatic/cancel", map[string]any{"request_id": ""}).status)
}

func TestRefusalsOverHTTP(t *testing.T) {
	t.Parallel()
	s := serve(t, databasetest.Open(t, database.SQLite, nil), codeapitest.Options{})
	for body, want := range map[string]string{
		`{"lang":"rs","code":"x"}`:                                                        "Unsupported language: rs",
		`{"lang":"py","code":"x","timeout":-1}`:                                           "timeout must be a number of milliseconds.",
		`{"lang":"py","code":"x","args":["\u0000"]}`:                                      "args must not hold NUL.",
		`{"lang":"py","code":"x","files":[{"name":"` + strings.Repeat("d/", 10) + `f"}]}`: "files[0].name must be a path below /mnt/data of no more than 256 characters or 10 levels",
		`{"lang":"py","code":"x","files":[{"kind":"user","version":1}]}`:                  "files[0].version is for kind skill only",
		`{"lang":"py","code":"x","files":[{"id":"x","name":"n"}]}`:                        "Unauthorized file reference",
		`{"lang":`: "",
	} {
		for _, path := range []string{"/exec", "/exec/programmatic"} {
			a := s.send("POST", path, body)
			if path == "/exec/programmatic" && strings.Contains(body, "args") {
				continue // it takes none
			}
			require.GreaterOrEqual(t, a.status, 400, body)
			if want != "" {
				require.Equal(t, want, a.Error, body)
			}
		}
	}
	require.Equal(t, "tools[0] has no name", s.send("POST", "/exec/programmatic", `{"code":"x","tools":[{}]}`).Error)
	require.Equal(t, "Invalid continuation token", s.send("POST", "/exec/programmatic", `{"continuation_token":"x"}`).Error)
	require.Equal(t, 401, s.send("POST", "/exec", `{}`, "X-API-Key", "rf_nobody").status)
	require.Equal(t, 409, s.send("POST", "/exec", `{}`, "X-CodeAPI-Expected-Profile", "gpu").status)
	require.Equal(t, 403, s.send("POST", "/exec", `{}`, "X-LibreChat-Code-Worker-ID", "w-2").status)
	require.NotEqual(t, 403, s.send("POST", "/exec", `{}`, "X-LibreChat-Code-Worker-ID", "w-1").status)
	require.Equal(t, 200, s.send("GET", "/v1/health", nil).status)
}

// How a program ended is told by the status of HTTP to those who read it, and in
// known phrases to clients that hide other statuses from the model.
func TestHowEndsAreTold(t *testing.T) {
	t.Parallel()
	s := serve(t, databasetest.Open(t, database.SQLite, nil), codeapitest.Options{Change: func(c *codeapi.Settings) { c.Programs.MaxRounds = 0 }})
	statuses := map[string]sandbox.Status{"exit": sandbox.Failed, "late": sandbox.TimedOut, "memory": sandbox.OutOfMemory, "killed": sandbox.Killed, "fine": sandbox.Completed}
	s.Driver.Does(func(ctx context.Context, job sandbox.Job) sandbox.Result {
		if job.Code == "rounds" {
			codeapitest.Call(ctx, job, `{"calls":[{"name":"ask"}]}`)
			return sandbox.Result{Status: sandbox.Cancelled}
		}
		return sandbox.Result{Status: statuses[job.Code], ExitCode: 7, Stderr: "Traceback\nValueError: no\n"}
	})
	for code, want := range map[string]struct {
		status         int
		plain, phrased string
	}{
		"fine":   {200, "", ""},
		"exit":   {200, "ValueError: no", "Sandbox exited with code 7"},
		"late":   {408, "Execution timeout", "Time limit exceeded"},
		"memory": {200, "Out of memory", "Out of memory"},
		"killed": {200, "Execution failed or timed out", "Execution failed or timed out"},
		"rounds": {400, "Exceeded maximum round trips (0)", "Exceeded maximum round trips (0)"},
	} {
		body := map[string]any{"code": code, "tools": []any{map[string]any{"name": "ask"}}}
		plain := s.send("POST", "/exec/programmatic", body)
		require.Equal(t, want.status, plain.status, plain.raw)
		require.Equal(t, want.plain, plain.Error)
		phrased := s.send("POST", "/exec/programmatic", body, "User-Agent", "LibreChat/1.0", "X-LibreChat-Code-Request-ID", "r")
		require.Equal(t, 200, phrased.status)
		require.Equal(t, want.phrased, phrased.Error, code)
	}
	for code, want := range map[string]string{"late": "Time limit exceeded", "memory": "Out of memory", "exit": ""} {
		require.Equal(t, want, s.send("POST", "/exec", map[string]any{"lang": "py", "code": code}).Message)
	}
}

// The generation of a client follows from what it sends.
func TestGenerationsOfClients(t *testing.T) {
	t.Parallel()
	s := serve(t, databasetest.Open(t, database.SQLite, nil), codeapitest.Options{})
	s.Driver.Does(func(context.Context, sandbox.Job) sandbox.Result { return sandbox.Result{Status: sandbox.TimedOut} })
	in, files := s.upload("/upload", part{"file", "x", "x"})
	named := map[string]any{"id": files[0].FileID, "storage_session_id": in.SessionID}
	for name, c := range map[string]struct {
		body    map[string]any
		headers []string
		status  int
	}{
		"the oldest":     {map[string]any{"timeout": 60000}, []string{"User-Agent", "LibreChat/1"}, 408},
		"a short limit":  {map[string]any{"timeout": 15000}, []string{"User-Agent", "LibreChat/1"}, 200},
		"bash":           {map[string]any{"timeout": 60000, "lang": "bash"}, []string{"User-Agent", "LibreChat/1"}, 200},
		"a new file":     {map[string]any{"timeout": 60000, "files": []any{named}}, []string{"User-Agent", "LibreChat/1"}, 200},
		"a hint":         {map[string]any{"timeout": 60000, "runtime_session_hint": "x"}, []string{"User-Agent", "LibreChat/1"}, 200},
		"a profile":      {map[string]any{"timeout": 60000}, []string{"User-Agent", "LibreChat/1", "X-CodeAPI-Expected-Profile", "default"}, 200},
		"somebody else":  {map[string]any{"timeout": 15000}, []string{"User-Agent", "curl"}, 408},
		"a bearer token": {map[string]any{"timeout": 60000}, []string{"User-Agent", "LibreChat/1", "X-API-Key", "", "Authorization", "Bearer rf_anna"}, 200},
	} {
		c.body["code"] = "x"
		require.Equal(t, c.status, s.send("POST", "/exec/programmatic", c.body, c.headers...).status, name)
	}
	for how, want := range map[string]int{codeapi.ErrorsPhrases: 200, codeapi.ErrorsStatus: 408} {
		s := serve(t, databasetest.Open(t, database.SQLite, nil), codeapitest.Options{Change: func(c *codeapi.Settings) { c.Errors = how }})
		s.Driver.Does(func(context.Context, sandbox.Job) sandbox.Result { return sandbox.Result{Status: sandbox.TimedOut} })
		require.Equal(t, want, s.send("POST", "/exec/programmatic", `{"code":"x","timeout":15000}`, "User-Agent", "LibreChat/1").status)
	}
}

// What could not be kept, or begun, is said in the answer.
func TestWhatIsNotKeptIsSaid(t *testing.T) {
	t.Parallel()
	s := serve(t, databasetest.Open(t, database.SQLite, nil), codeapitest.Options{Plans: limits{anna.UID: {PerMinute: 4}}})
	s.Driver.Does(func(context.Context, sandbox.Job) sandbox.Result {
		return sandbox.Result{Status: sandbox.Completed, Stdout: "printed", Outputs: []sandbox.File{{Path: "x"}}}
	})
	for why, fails := range map[string]error{
		"No room. Delete files.": errs.New(errs.StorageFull, "No room.").Do("Delete files."), "The server has a fault.": errors.New("the storage does not answer"),
	} {
		s.Quota.Rule = func() error { return fails }
		for _, path := range []string{"/exec", "/exec/programmatic"} {
			ran := s.send("POST", path, `{"lang":"py","code":"x"}`)
			require.Equal(t, 200, ran.status, ran.raw)
			require.Equal(t, "printed", ran.Stdout)
			require.Equal(t, "artifact_delivery_failed", ran.ArtifactDelivery["code"])
			require.Contains(t, ran.Stderr, "1 new files of the program were not kept: "+why)
		}
	}
	busy := s.send("POST", "/exec", `{"lang":"py","code":"x"}`)
	require.Equal(t, 429, busy.status)
	require.Equal(t, "rate_limited", busy.Error)
	require.Positive(t, busy.RetryAfter)
	require.Equal(t, "runtime_unavailable", busy.ErrorCode)
}

// Results of tools come in several forms.
func TestFormsOfResults(t *testing.T) {
	t.Parallel()
	s := serve(t, databasetest.Open(t, database.SQLite, nil), codeapitest.Options{})
	s.Driver.Does(func(ctx context.Context, job sandbox.Job) sandbox.Result {
		_, text := codeapitest.Call(ctx, job, `{"calls":[{"name":"ask"},{"name":"ask"},{"name":"ask"},{"name":"ask"}]}`)
		return sandbox.Result{Status: sandbox.Completed, Stdout: text}
	})
	paused := s.send("POST", "/exec/programmatic", `{"code":"x","tools":[{"name":"ask"}]}`)
	over := s.send("POST", "/exec/programmatic", map[string]any{"continuation_token": paused.ContinuationToken, "tool_results": []any{
		map[string]any{"call_id": "call_001"},
		map[string]any{"call_id": "call_002", "is_error": true, "error_message": "said"},
		map[string]any{"call_id": "call_003", "is_error": true, "result": "as the result"},
		map[string]any{"call_id": "call_004", "is_error": true},
	}})
	require.Equal(t, "completed", over.Status, over.raw)
	require.JSONEq(t, `{"results":[{"result":null},{"error":"said"},{"error":"as the result"},{"error":"The tool failed."}]}`, over.Stdout)
}

// A plan that cannot be read lets nothing through.
func TestProgramsOfPlansThatCannotBeRead(t *testing.T) {
	t.Parallel()
	s := serve(t, databasetest.Open(t, database.SQLite, nil), codeapitest.Options{Plans: unreadable{}})
	require.Equal(t, 500, s.send("POST", "/exec", `{"lang":"py","code":"x"}`).status)
	up, _ := s.upload("/upload", part{"file", "x", "x"})
	require.Equal(t, 500, up.status)
}

type unreadable struct{}

func (unreadable) LimitsOf(context.Context, string) (execution.PlanLimits, error) {
	return execution.PlanLimits{}, errors.New("no database")
}
