package app_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
)

// hostTimeout is how long a LibreChat host waits for an answer.
const hostTimeout = 15 * time.Second

// hosted runs code in bash as a host does for its own tools, and within its
// patience.
func (s *instance) hosted(code string, more map[string]any) ended {
	s.t.Helper()
	body := map[string]any{"lang": "bash", "code": code}
	maps.Copy(body, more)
	begin := time.Now()
	e := s.code("/v1/exec", body, "User-Agent", "LibreChat/1.0", "X-CodeAPI-Expected-Profile", "default")
	require.Less(s.t, time.Since(begin), hostTimeout)
	require.Equal(s.t, 200, e.code, "%+v", e)
	require.Equal(s.t, "default", e.header.Get("X-CodeAPI-Execution-Profile"))
	return e
}

// payload is how hosts hand values to a program, so that no shell reads them.
func payload(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	require.NoError(t, err)
	return base64.StdEncoding.EncodeToString(text)
}

// writer is a program that writes a file, in Python within bash.
func writer(t *testing.T, name, content string) string {
	t.Helper()
	return `python3 - <<'PY'
import base64, json, os
data = json.loads(base64.b64decode("` + payload(t, map[string]string{"path": name, "content": base64.StdEncoding.EncodeToString([]byte(content))}) + `"))
content = base64.b64decode(data["content"])
os.makedirs(os.path.dirname(data["path"]), exist_ok=True)
with open(data["path"], "wb") as f:
    f.write(content)
print(f"WROTE {len(content)} bytes to {data['path']}")
PY`
}

// window is a program that prints a piece of a file as JSON in its last line.
func window(t *testing.T, name string, offset, size int) string {
	t.Helper()
	return `python3 - <<'PY'
import base64, json, os
data = json.loads(base64.b64decode("` + payload(t, map[string]any{"path": name, "offset": offset, "size": size}) + `"))
with open(data["path"], "rb") as f:
    f.seek(data["offset"])
    raw = f.read(data["size"])
print(json.dumps({"total": os.stat(data["path"]).st_size, "n": len(raw), "b64": base64.b64encode(raw).decode("ascii")}))
PY`
}

// The tools of a host that ride on bash: it warms up, writes a file, reads it
// and is told of one that is not there.
func TestHostsReadAndWriteFilesInBash(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		warm := s.hosted("true", nil)
		require.Empty(t, warm.Stdout+warm.Stderr)
		require.Equal(t, "completed", warm.Status)
		require.Empty(t, warm.Files)

		const name, content = "/mnt/data/notes/it's über.md", "# Note\n'quoted' \"twice\" $HOME `x` \\ ä€😀\nno line end"
		made := s.hosted(writer(t, name, content), nil)
		require.Equal(t, fmt.Sprintf("WROTE %d bytes to %s\n", len(content), name), made.Stdout, made.Stderr)
		require.Len(t, made.Files, 1)
		require.Equal(t, "notes/it's über.md", made.Files[0].Name)

		quoted := "cat '" + strings.ReplaceAll(name, "'", `'\''`) + "'"
		read := s.hosted(quoted, map[string]any{"session_id": made.SessionID, "files": []any{made.Files[0].ref("")}, "runtime_session_hint": "conversation:1"})
		require.Equal(t, content, read.Stdout)
		require.Empty(t, read.Stderr)
		require.True(t, read.Files[0].Inherited)
		changed := s.hosted(writer(t, name, "other"), map[string]any{"files": []any{made.Files[0].ref("")}})
		require.Equal(t, made.Files[0].ID, changed.Files[0].ModifiedFrom["id"])

		none := s.hosted("cat '/mnt/data/none.txt'", nil)
		require.Empty(t, none.Stdout)
		require.Equal(t, "cat: /mnt/data/none.txt: No such file or directory\n", none.Stderr)
	})
}

// An image of 5 MB is read in windows that fill what an answer may hold.
func TestHostsReadImagesInWindows(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite))
	image := make([]byte, 5<<20)
	copy(image, "\x89PNG\r\n\x1a\n")
	random := rand.New(rand.NewPCG(1, 2))
	for i := 8; i < len(image); i++ {
		image[i] = byte(random.Uint32())
	}
	up := s.upload("/v1/upload", map[string]string{"chart.png": string(image)}).uploaded(t)
	files := []any{file{ID: up.Files[0].FileID, Name: "chart.png", StorageSessionID: up.SessionID}.ref("")}
	for _, answer := range []int{1 << 20, 64 << 10} {
		size := (answer - 256) / 4 * 3
		var got []byte
		for n := 0; len(got) < len(image) && n < 3+len(image)*7/size/5 && (answer == 1<<20 || n < 2); n++ {
			e := s.hosted(window(t, "/mnt/data/chart.png", len(got), size), map[string]any{"files": files})
			lines := strings.Split(strings.TrimSpace(e.Stdout), "\n")
			var w struct {
				Total, N int
				B64      []byte
			}
			require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &w), e.Stderr)
			require.Equal(t, len(image), w.Total)
			require.Len(t, w.B64, w.N)
			got = append(got, w.B64...)
		}
		require.True(t, string(image[:len(got)]) == string(got) && len(got) > size, "the windows are not the image")
		require.True(t, answer < 1<<20 || len(got) == len(image), "%d of %d bytes", len(got), len(image))
	}
}

// Three uploads at once, a look at what is there, and deletes by either address
// with the other as a fall back.
func TestHostsUploadLookAndDelete(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		const owner = "?kind=agent&id=agent_1"
		ups := make([]uploaded, 3)
		var all sync.WaitGroup
		for i := range ups {
			all.Go(func() {
				ups[i] = s.upload("/v1/upload", map[string]string{fmt.Sprintf("in-%d.csv", i): "a,b\n"}, "kind", "agent", "id", "agent_1", "read_only", "false").uploaded(t)
			})
		}
		all.Wait()
		for i, up := range ups {
			session, id := up.StorageSessionID, up.Files[0].FileID
			object := "/v1/sessions/" + session + "/objects/" + id
			var known map[string]any
			a := s.send(s.key, "GET", object+owner, nil, "X-CodeAPI-Expected-Profile", "default")
			require.Equal(t, 200, a.status)
			require.NoError(t, json.Unmarshal([]byte(a.raw), &known))
			name := fmt.Sprintf("in-%d.csv", i)
			for member, want := range map[string]any{
				"name": session + "/" + id + ".csv", "originalFilename": name, "filename": name, "size": 4.0, "readOnly": false,
				"contentType": "text/csv; charset=utf-8", "kind": "agent", "resource_id": "agent_1",
			} {
				require.Equal(t, want, known[member], member)
			}
			require.NotEmpty(t, known["version"])
			require.NotEmpty(t, known["etag"])
			modified, err := time.Parse(time.RFC3339, known["lastModified"].(string))
			require.NoError(t, err)
			require.WithinDuration(t, time.Now(), modified, time.Minute)

			prefix := []string{"", "/v1"}[i%2]
			one, other := prefix+"/sessions/"+session+"/objects/"+id, prefix+"/files/"+session+"/"+id
			if i == 2 {
				one, other = other, one
			}
			gone := s.send(s.key, "DELETE", one+owner, nil)
			require.Equal(t, 200, gone.status, gone.raw)
			require.Contains(t, gone.raw, `"message":"File deleted successfully"`)
			for _, again := range []string{one, other} {
				a := s.send(s.key, "DELETE", again+owner, nil)
				require.Equal(t, 404, a.status)
				require.Contains(t, a.raw, `"error":"File not found"`)
			}
			require.Equal(t, 404, s.send(s.key, "GET", object, nil).status)
		}
		require.Equal(t, 400, s.send(s.key, "DELETE", "/v1/sessions/short/objects/"+strings.Repeat("x", 21), nil).status)
		require.Zero(t, s.count("SELECT count(*) FROM code_files"))
	})
}

// A list shows as much of the files as it is asked for.
func TestDetailsOfLists(t *testing.T) {
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite))
	up := s.upload("/upload/batch", map[string]string{"skills/foo/SKILL.md": "# Foo"}, "kind", "skill", "id", "s1", "version", "3", "read_only", "true").uploaded(t)
	session, id := up.SessionID, up.Files[0].FileID
	list := func(detail string) string { return s.send(s.key, "GET", "/v1/files/"+session+detail, nil).raw }
	object := session + "/" + id + ".md"
	require.JSONEq(t, `["`+object+`"]`, list("?detail=simple&kind=skill&id=s1&version=3"))
	var summary, normalized, full, whole []map[string]any
	for detail, into := range map[string]*[]map[string]any{"?detail=summary": &summary, "?detail=normalized": &normalized, "?detail=full": &full, "": &whole} {
		require.NoError(t, json.Unmarshal([]byte(list(detail)), into), detail)
	}
	require.Equal(t, full, whole)
	require.Equal(t, map[string]any{"name": object, "size": 5.0, "lastModified": full[0]["lastModified"], "etag": full[0]["etag"]}, summary[0])
	require.Equal(t, map[string]any{
		"id": id, "name": "skills/foo/SKILL.md", "storage_session_id": session, "size": 5.0, "contentType": full[0]["contentType"],
		"lastModified": full[0]["lastModified"], "read_only": true,
	}, normalized[0])
	require.Equal(t, "skills/foo/SKILL.md", full[0]["metadata"].(map[string]any)["original-filename"])
	require.Equal(t, 3.0, full[0]["version"])
	require.Equal(t, true, full[0]["readOnly"])
	a := s.send(s.key, "GET", "/v1/files/"+session+"?detail=all", nil)
	require.Equal(t, 400, a.status)
	require.Contains(t, a.raw, "detail must be simple, summary, full or normalized.")
	require.Equal(t, 400, s.upload("/upload", map[string]string{"a": "b"}, "read_only", "maybe").status)
}

// Skills are where their names say, and stay what they are whatever a program
// does to them: nothing of it comes back as new, changed or deleted.
func TestSkillsStayWhatTheyAre(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		up := s.upload("/v1/upload/batch", map[string]string{
			"skills/foo/SKILL.md": "# Foo", "skills/foo/scripts/run.py": "print('ran')", "skills/foo/data/x.txt": "x",
		}, "kind", "skill", "id", "665f1f77bcf86cd799439011", "version", "3", "read_only", "true").uploaded(t)
		own := s.upload("/v1/upload", map[string]string{"own.txt": "mine"}, "kind", "user", "id", "u").uploaded(t)
		ids, refs := map[string]string{}, []any{}
		for _, f := range up.Files {
			ids[f.Filename] = f.FileID
			refs = append(refs, map[string]any{
				"id": f.FileID, "name": f.Filename, "storage_session_id": up.StorageSessionID, "kind": "skill", "resource_id": "665f1f77bcf86cd799439011", "version": 3,
			})
		}
		refs = append(refs, map[string]any{"id": own.Files[0].FileID, "name": "own.txt", "storage_session_id": own.SessionID, "kind": "user", "resource_id": "u"})
		const code = `
import os, subprocess
os.chdir("/mnt/data/skills/foo")
print(open("SKILL.md").read(), subprocess.check_output(["python3", "scripts/run.py"], text=True), end="")
try:
    open("SKILL.md", "w")
except PermissionError:
    print("refused")
os.remove("SKILL.md"); open("SKILL.md", "w").write("# Mine")
os.chmod("data/x.txt", 0o644); open("data/x.txt", "w").write("mine, and longer")
os.remove("scripts/run.py")
open("made.txt", "w").write("new")
open("/mnt/data/own.txt", "a").write(" and changed")`
		for path, body := range map[string]map[string]any{"/v1/exec": {"lang": "py"}, "/v1/exec/programmatic": {}} {
			body["code"], body["files"] = code, refs
			e := s.code(path, body)
			require.Equal(t, "# Foo ran\nrefused\n", e.Stdout, e.Stderr)
			require.Empty(t, e.DeletedFiles)
			byName := map[string]file{}
			for _, f := range e.Files {
				byName[f.Name] = f
			}
			require.Len(t, byName, 5)
			for name, id := range ids {
				require.Equal(t, file{ID: id, Name: name, SessionID: up.SessionID, StorageSessionID: up.SessionID, Inherited: true}, byName[name])
			}
			require.NotEmpty(t, byName["own.txt"].ModifiedFrom)
			require.False(t, byName["skills/foo/made.txt"].Inherited)

			next := s.code("/exec", map[string]any{"lang": "bash", "code": "cat skills/foo/SKILL.md skills/foo/data/x.txt own.txt", "session_id": e.SessionID})
			require.Equal(t, "# Foox"+"mine and changed", next.Stdout, next.Stderr)
		}
		require.Equal(t, "# Foo", s.send(s.key, "GET", "/download/"+up.SessionID+"/"+ids["skills/foo/SKILL.md"], nil).raw)
	})
}

// References as hosts write them: the last of a name counts, a file of another
// session of the same user is the user's, and one that is not there any more, or
// never was theirs, stops the request.
func TestReferencesOfHosts(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		one := s.upload("/upload", map[string]string{"a.txt": "one"}, "kind", "user", "id", "u").uploaded(t)
		two := s.upload("/upload", map[string]string{"b.txt": "two"}, "kind", "user", "id", "u").uploaded(t)
		ref := func(up uploaded, name string) map[string]any {
			return map[string]any{"id": up.Files[0].FileID, "name": name, "storage_session_id": up.SessionID, "kind": "user", "resource_id": "u"}
		}
		cat := func(code string, files ...any) ended {
			return s.code("/exec", map[string]any{"lang": "bash", "code": code, "files": files, "session_id": one.SessionID})
		}
		require.Equal(t, "two", cat("cat same.txt", ref(one, "same.txt"), ref(two, "same.txt")).Stdout)
		require.Equal(t, "onetwo", cat("cat a.txt d/e/f.txt", ref(two, "d/e/f.txt")).Stdout, "another session of the same user")

		fine := ref(one, "a.txt")
		lost := func(e ended, name string) {
			t.Helper()
			require.Equal(t, 403, e.code)
			require.Equal(t, "Unauthorized file reference", e.Error)
			require.Contains(t, e.Message, ": "+name+". Upload")
			require.Empty(t, e.Stdout)
		}
		wrong := ref(s.upload("/upload", map[string]string{"c.txt": "three"}).uploaded(t), "wrong.txt")
		wrong["storage_session_id"] = one.SessionID
		lost(cat("cat a.txt", fine, wrong), "wrong.txt")
		require.Equal(t, 200, s.send(s.key, "DELETE", "/files/"+two.SessionID+"/"+two.Files[0].FileID, nil).status)
		lost(cat("cat a.txt", fine, ref(two, "deleted.txt")), "deleted.txt")
		s.exec("UPDATE code_sessions SET expires_at = ? WHERE session_id = ?", time.Now().Add(-time.Minute).UTC(), one.SessionID)
		lost(cat("true", ref(one, "expired.txt")), "expired.txt")
	})
}

// Profiles that this server does not have are refused by name, and routes of
// other profiles are not there.
func TestProfilesAndRoutesOfHosts(t *testing.T) {
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite))
	up := s.upload("/v1/upload", map[string]string{"a": "b"}).uploaded(t)
	for _, route := range []struct{ method, path string }{
		{"GET", "/v1/files/" + up.SessionID}, {"GET", "/v1/sessions/" + up.SessionID + "/objects/" + up.Files[0].FileID}, {"GET", "/v1/download/" + up.SessionID + "/" + up.Files[0].FileID},
	} {
		fine := s.send(s.key, route.method, route.path, nil, "X-CodeAPI-Expected-Profile", "default")
		require.Equal(t, 200, fine.status, route.path)
		require.Equal(t, "default", fine.header.Get("X-CodeAPI-Execution-Profile"))
		other := s.send(s.key, route.method, route.path, nil, "X-CodeAPI-Expected-Profile", "stateful")
		require.Equal(t, 409, other.status)
		require.Contains(t, other.raw, `"error":"execution_profile_mismatch"`)
	}
	for _, path := range []string{
		"/v1/workspace-tools/execute", "/v1/bridge/pair", "/v1/bridge/leases", "/v1/hosted-apps", "/v1/sandbox/npm-unit",
	} {
		require.Equal(t, 404, s.send(s.key, "POST", path, map[string]any{"protocolVersion": 1}).status, path)
	}
	require.Equal(t, 200, s.send("", "GET", "/v1/health", nil).status)
}

// A program over its time limit says so in one line of its errors, in every
// language and on every route, and nothing else that it wrote is lost.
func TestTimeLimitsAreSaidOnEveryRoute(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite), "SANDBOX_MAX_CONCURRENT=8", "SANDBOX_MAX_PER_USER=8")
	const line = `^warned\n\[The program was stopped at its time limit, after 3\d\d\d ms\.\]\n`
	busy := map[string]string{
		"py":   "import sys\nprint('out', flush=True); print('warned', file=sys.stderr, flush=True)\nwhile True: pass",
		"bash": "echo out; echo warned >&2; sleep 60",
		"js":   "console.log('out'); console.error('warned'); setTimeout(() => { for (;;); }, 100)",
	}
	for lang, code := range busy {
		t.Run(lang, func(t *testing.T) {
			t.Parallel()
			e := s.code("/exec", map[string]any{"lang": lang, "code": code, "timeout": 3000})
			require.Equal(t, 200, e.code, lang)
			require.Equal(t, "out\n", e.Stdout, lang)
			require.Regexp(t, line+"$", e.Stderr, lang)
			require.Equal(t, "Time limit exceeded", e.Message)
			require.Equal(t, "timeout", e.ErrorCode)
		})
		if lang == "js" {
			continue // it has no programs that pause
		}
		for _, agent := range []string{"LibreChat/1.0", "curl/8"} {
			t.Run(lang+" with tools for "+agent, func(t *testing.T) {
				t.Parallel()
				calling := map[string]string{"py": "await ask()\n", "bash": "ask >/dev/null\n"}[lang]
				e, _ := s.drive(map[string]any{"lang": lang, "code": calling + code, "tools": tools("ask"), "timeout": 3000}, "User-Agent", agent)
				require.Equal(t, "out\n", e.Stdout, lang)
				require.Regexp(t, line+`\[It had made 1 tool call, which is not undone\.\]\n$`, e.Stderr, lang)
				require.Equal(t, "timeout", e.ErrorCode)
				if agent == "curl/8" {
					require.Equal(t, 408, e.code)
				} else {
					require.Equal(t, []any{200, "Time limit exceeded"}, []any{e.code, e.Error})
				}
			})
		}
	}
	full := s.code("/exec", map[string]any{"lang": "py", "code": "x = bytearray(1 << 40)"})
	require.Equal(t, "Out of memory", full.Message)
	require.Empty(t, s.code("/exec", map[string]any{"lang": "py", "code": "1/0"}).Message)
}

// A tool of the caller that fails ends a program in bash with its message, in
// the words that newer clients know; a program that asks goes on.
func TestFailedToolsEndScripts(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite))
	run := func(code string) ended {
		e := s.code("/exec/programmatic", map[string]any{"lang": "bash", "code": code, "tools": tools("ask"), "timeout": 15000}, "User-Agent", "LibreChat/1.0")
		answers := results(e)
		answers[0]["result"], answers[0]["is_error"], answers[0]["error_message"] = nil, true, "it broke"
		return s.code("/exec/programmatic", map[string]any{"continuation_token": e.ContinuationToken, "tool_results": answers})
	}
	for _, code := range []string{"ask", "x=$(ask)", "ask | cat", "f() { local x=$(ask); echo after; }; f"} {
		e := run("echo before; touch made; " + code + "; echo after")
		require.Equal(t, 200, e.code)
		require.Equal(t, "error", e.Status, code)
		require.Equal(t, "Sandbox exited with code 1", e.Error)
		require.Equal(t, "before\n", e.Stdout, code)
		require.Equal(t, "it broke\n[ask failed, which ended the script. To go on after a failure: ask ... || true]\n[It had made 1 tool call, which is not undone.]\n", e.Stderr, code)
		require.Empty(t, e.Files)
	}
	e := run("x=$(ask) || echo caught; echo after")
	require.Equal(t, "completed", e.Status)
	require.Equal(t, "caught\nafter\n", e.Stdout)
	require.Equal(t, "it broke\n", e.Stderr)
	e = run("PORTICO_TOOL_ERRORS=continue; x=$(ask); echo after $?")
	require.Equal(t, "after 1\n", e.Stdout)
	require.Equal(t, "completed", e.Status)
}
