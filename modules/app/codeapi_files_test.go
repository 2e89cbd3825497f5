package app_test

import (
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
)

// ref names a file of an answer to a program, under another name if that is set.
func (f file) ref(name string) map[string]any {
	if name == "" {
		name = f.Name
	}
	return map[string]any{"id": f.ID, "name": name, "storage_session_id": f.StorageSessionID}
}

// Files that a request names belong to the session of its run from then on:
// they are listed, downloaded and found by the next program there, also when
// the run fails, and are gone from it without being gone from where they are.
func TestInputsBelongToTheSession(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		up := s.upload("/upload", map[string]string{"in.txt": "content"}).uploaded(t)
		in := file{ID: up.Files[0].FileID, Name: "in.txt", StorageSessionID: up.SessionID}
		for _, code := range []string{"print(open('given/x.txt').read())", "1/0"} {
			e := s.code("/exec", map[string]any{"lang": "py", "code": code, "files": []any{in.ref("given/x.txt")}})
			require.NotEqual(t, up.SessionID, e.SessionID)
			list := s.send(s.key, "GET", "/files/"+e.SessionID+"?detail=full", nil).raw
			require.Contains(t, list, `"name":"`+e.SessionID+"/"+in.ID+`.txt"`)
			require.Contains(t, list, `"filename":"given/x.txt"`)
			require.Equal(t, "content", s.send(s.key, "GET", "/download/"+e.SessionID+"/"+in.ID, nil).raw)

			next := s.code("/exec/programmatic", map[string]any{"code": "print(open('given/x.txt').read())", "session_id": e.SessionID})
			require.Equal(t, "content\n", next.Stdout, next.Stderr)
			require.Equal(t, e.SessionID, next.SessionID)
			require.True(t, next.Files[0].Inherited)
			again := s.code("/exec", map[string]any{"lang": "bash", "code": "cat y", "files": []any{next.Files[0].ref("y")}})
			require.Equal(t, "content", again.Stdout)

			require.Equal(t, 200, s.send(s.key, "DELETE", "/files/"+e.SessionID+"/"+in.ID, nil).status)
			require.JSONEq(t, `[]`, s.send(s.key, "GET", "/files/"+e.SessionID, nil).raw)
		}
		require.Equal(t, "content", s.send(s.key, "GET", "/download/"+up.SessionID+"/"+in.ID, nil).raw)
	})
}

// Using a file keeps the session that holds it, however long it is used.
func TestUsedFilesDoNotExpire(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		up := s.upload("/upload", map[string]string{"in.txt": "content"}).uploaded(t)
		in := file{ID: up.Files[0].FileID, Name: "in.txt", StorageSessionID: up.SessionID}
		s.exec("UPDATE code_sessions SET expires_at = ? WHERE session_id = ?", time.Now().Add(time.Minute).UTC(), up.SessionID)
		s.code("/exec", map[string]any{"lang": "py", "code": "1", "files": []any{in.ref("")}})
		require.Equal(t, 2, s.count("SELECT count(*) FROM code_sessions WHERE expires_at > ?", time.Now().Add(time.Hour).UTC()))
	})
}

// Files of a program that failed are not kept: nobody knows how complete they
// are.
func TestFilesOfFailedProgramsAreNotKept(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		const code = "open('made.txt', 'w').write('half')\n1/0"
		for path, body := range map[string]map[string]any{"/exec": {"lang": "py", "code": code}, "/exec/programmatic": {"code": code}} {
			e := s.code(path, body)
			require.Contains(t, e.Stderr, "ZeroDivisionError")
			require.Empty(t, e.Files, path)
			require.JSONEq(t, `[]`, s.send(s.key, "GET", "/files/"+e.SessionID, nil).raw)
			next := s.code("/exec", map[string]any{"lang": "bash", "code": "ls", "session_id": e.SessionID})
			require.Empty(t, next.Stdout)
		}
		require.Zero(t, s.count("SELECT count(*) FROM code_files"))
		keys, err := s.app.Objects.List(t.Context(), "code/")
		require.NoError(t, err)
		require.Empty(t, keys)
	})
}

// A request that names files which the user does not have is refused before
// anything runs, with the names that the request gave them. Nothing tells a
// foreign file from one that was deleted, expired or never was.
func TestMissingFilesAreNamed(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		ben := s.another("ben")
		up := s.upload("/upload", map[string]string{"hers.txt": "secret"}).uploaded(t)
		hers := file{ID: up.Files[0].FileID, Name: "hers.txt", StorageSessionID: up.SessionID}
		none := map[string]any{"id": strings.Repeat("a", 21), "name": "none.txt", "session_id": up.SessionID}
		for path, body := range map[string]map[string]any{
			"/exec":              {"lang": "bash", "code": "ls", "files": []any{hers.ref(""), none, map[string]any{"id": "x"}}},
			"/exec/programmatic": {"code": "import os; print(*os.listdir('.'))", "files": []any{hers.ref(""), none, map[string]any{"id": "x"}}},
		} {
			e := s.codeAs(ben, path, body)
			require.Equal(t, 403, e.code)
			require.Equal(t, "error", e.Status)
			require.Equal(t, "Unauthorized file reference", e.Error)
			require.Equal(t, "Unauthorized file reference. Deleted, expired or not yours: hers.txt, none.txt, a file without a name. Upload them again.", e.Message)
			require.Empty(t, e.SessionID)
		}
		require.Equal(t, 1, s.count("SELECT count(*) FROM code_sessions"), "nothing was begun")
		require.Zero(t, s.app.Engine.Stats().Jobs)
		fine := s.code("/exec", map[string]any{"lang": "bash", "code": "cat hers.txt", "files": []any{hers.ref("")}})
		require.Equal(t, "secret", fine.Stdout)
		require.Empty(t, fine.Stderr)
	})
}

// memory is what a process holds at the moment, or held at most since reset, in
// MiB.
func (p *process) memory(t *testing.T, field string) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			kib, err := strconv.Atoi(strings.Fields(rest)[0])
			require.NoError(t, err)
			return kib >> 10
		}
	}
	t.Fatalf("no %s", field)
	return 0
}

// reset makes the process' peak what it holds now.
func (p *process) reset(t *testing.T) {
	t.Helper()
	require.NoError(t, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.cmd.Process.Pid), []byte("5"), 0))
}

// zeros sends a file of so many bytes without holding it.
func zeros(t *testing.T, s *instance, name string, size int64) file {
	t.Helper()
	r, w := io.Pipe()
	form := multipart.NewWriter(w)
	go func() {
		part, err := form.CreateFormFile("file", name)
		if err == nil {
			_, err = io.CopyN(part, zero{}, size)
		}
		if err == nil {
			err = form.Close()
		}
		_ = w.CloseWithError(err)
	}()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/upload", r)
	require.NoError(t, err)
	req.Header.Set("X-API-Key", s.key)
	req.Header.Set("Content-Type", form.FormDataContentType())
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	up := answer{status: resp.StatusCode, raw: string(raw)}.uploaded(t)
	return file{ID: up.Files[0].FileID, Name: name, StorageSessionID: up.SessionID}
}

type zero struct{}

func (zero) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// Files that are too large together are refused by what is known of them, and
// one that fits goes into the sandbox in pieces: the server holds neither.
func TestLargeInputsAreNotHeld(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	listen := testenv.FreeAddress(t)
	p := spawn(t, environ(t, databasetest.URL(t, database.SQLite), "PORTICO_LISTEN="+listen, "ENDPOINT=http://"+listen, "LOG_LEVEL=error"))
	s := &instance{t: t, url: "http://" + listen, key: p.key}
	const most = 20 // MiB
	s.code("/exec", map[string]any{"lang": "bash", "code": "true"})
	start := p.memory(t, "VmRSS")
	p.reset(t)
	big := zeros(t, s, "big.bin", 60<<20)
	require.Less(t, p.memory(t, "VmHWM")-start, most, "an upload")

	for _, name := range []string{"big-%d.bin", "same.bin"} {
		var refs []any
		for i := range 25 {
			name := name
			if strings.Contains(name, "%") {
				name = fmt.Sprintf(name, i)
			}
			refs = append(refs, big.ref(name))
		}
		for path, body := range map[string]map[string]any{"/exec": {"lang": "bash"}, "/exec/programmatic": {"lang": "bash"}} {
			body["code"], body["files"] = "ls", refs
			e := s.code(path, body)
			require.Equal(t, 413, e.code, "%+v", e)
			require.Contains(t, e.Error, "1572864000 bytes together")
		}
	}
	require.Less(t, p.memory(t, "VmHWM")-start, most, "25 references")

	e := s.code("/exec", map[string]any{"lang": "bash", "code": "wc -c < big.bin", "files": []any{big.ref("")}})
	require.Equal(t, strconv.Itoa(60<<20)+"\n", e.Stdout, e.Stderr)
	require.True(t, e.Files[0].Inherited)
	require.Less(t, p.memory(t, "VmHWM")-start, most, "one that fits")
}

// A file that a session has of another one is its user's as any other.
func TestLinksOfAnotherUser(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		ben := s.another("ben")
		up := s.upload("/upload", map[string]string{"hers.txt": "secret"}).uploaded(t)
		hers := file{ID: up.Files[0].FileID, Name: "hers.txt", StorageSessionID: up.SessionID}
		run := s.code("/exec", map[string]any{"lang": "bash", "code": "true", "files": []any{hers.ref("")}})
		require.Equal(t, 404, s.send(ben, "GET", "/download/"+run.SessionID+"/"+hers.ID, nil).status)
		require.Equal(t, 404, s.send(ben, "GET", "/sessions/"+run.SessionID+"/objects/"+hers.ID, nil).status)
		require.Equal(t, 404, s.send(ben, "DELETE", "/files/"+run.SessionID+"/"+hers.ID, nil).status)
		require.JSONEq(t, `[]`, s.send(ben, "GET", "/files/"+run.SessionID, nil).raw)
		theirs := s.codeAs(ben, "/exec", map[string]any{"lang": "bash", "code": "ls", "session_id": run.SessionID})
		require.Empty(t, theirs.Stdout)
		require.Equal(t, "secret", s.send(s.key, "GET", "/download/"+run.SessionID+"/"+hers.ID, nil).raw)
	})
}
