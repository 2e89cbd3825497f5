package app_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/testenv"
)

// A canvas says what is in it, is renamed by its owner, and is deleted with its
// files, but not by accident and not while somebody works in it.
func TestACanvasIsReadRenamedAndDeletedWithItsFiles(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		ben := s.another("ben")
		id := s.canvas("hers")
		path := "/v1/canvas/" + id
		file := s.store(id, "a.txt", "12345")
		s.store(id, "b.txt", "123")
		s.run(map[string]any{"code": "print(1)", "canvasId": id})
		for _, c := range []map[string]any{s.read(s.key, "GET", path, nil), s.read(s.key, "GET", "/v1/canvas/list", nil)["items"].([]any)[0].(map[string]any)} {
			require.Equal(t, "hers", c["title"])
			require.EqualValues(t, 2, c["files"])
			require.EqualValues(t, 8, c["bytes"])
			require.EqualValues(t, 1, c["runs"])
		}
		for _, title := range []string{"", strings.Repeat("x", 201)} {
			require.Equal(t, 400, s.send(s.key, "PATCH", path, map[string]string{"title": title}).status)
		}
		require.Equal(t, "new", s.read(s.key, "PATCH", path, map[string]string{"title": "new"})["title"])
		for method, body := range map[string]any{"GET": nil, "PATCH": map[string]string{"title": "his"}, "DELETE": nil} {
			foreign := s.send(ben, method, path+"?force=true", body)
			absent := s.send(ben, method, "/v1/canvas/c-none?force=true", body)
			require.Equal(t, 404, foreign.status, foreign.raw)
			require.Equal(t, []any{absent.status, absent.body.ErrCode, absent.body.ErrMsg, absent.body.ErrDetail}, []any{foreign.status, foreign.body.ErrCode, foreign.body.ErrMsg, foreign.body.ErrDetail})
		}
		require.Equal(t, 409, s.send(s.key, "DELETE", path, nil).status, "it has files")
		s.exec("UPDATE action_results SET status = 'running' WHERE target_id = ?", id)
		require.Equal(t, 409, s.send(s.key, "DELETE", path+"?force=true", nil).status, "a run of it goes on")
		require.Len(t, s.files(id), 2, "nothing is deleted then")
		s.exec("UPDATE action_results SET status = 'finish' WHERE target_id = ?", id)
		require.Equal(t, 200, s.send(s.key, "DELETE", path+"?force=true", nil).status)
		require.Equal(t, 404, s.send(s.key, "GET", path, nil).status)
		require.Equal(t, 404, s.send(s.key, "GET", "/v1/drive/file/content/"+file.FileID, nil).status)
		require.EqualValues(t, 0, s.read(s.key, "GET", "/v1/limits", nil)["storage"].(map[string]any)["usedBytes"])
		require.Len(t, s.read(s.key, "GET", "/v1/action/list", nil)["items"], 1, "its runs stay")
	})
}

// The beginning of a file is shown as what it is, as data and never as a page.
func TestFilesArePreviewed(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		id := s.canvas("files")
		preview := func(f driveFile) map[string]any { return s.read(s.key, "GET", "/v1/drive/file/preview/"+f.FileID, nil) }

		table := preview(s.store(id, "t.csv", "n,name\n"+strings.Repeat("9007199254740993,Åsa\n", 150))) // kept as Parquet
		require.Equal(t, "table", table["kind"])
		require.Equal(t, false, table["whole"])
		rows := table["table"].(map[string]any)["rows"].([]any)
		require.Len(t, rows, 100)
		require.Equal(t, "Åsa", rows[99].([]any)[1])
		require.EqualValues(t, 150, table["table"].(map[string]any)["totalRows"])
		raw := s.send(s.key, "GET", "/v1/drive/file/preview/"+s.files(id)[0].FileID, nil)
		require.Contains(t, raw.raw, "[9007199254740993,", "numbers are exact")

		s.run(map[string]any{"canvasId": id, "code": "open('own.csv','w').write('a,b\\n' + '1,\"x, y\"\\n' * 3)\nopen('long.csv','w').write('a\\n' + ('é' * 500 + '\\n') * 3000)\nopen('bin.csv','wb').write(b'a\\xff\\n')"})
		named := map[string]driveFile{}
		for _, f := range s.files(id) {
			named[f.Name] = f
		}
		own := preview(named["own.csv"])
		require.Equal(t, true, own["whole"])
		require.Equal(t, []any{"1", "x, y"}, own["table"].(map[string]any)["rows"].([]any)[2])
		require.Len(t, preview(named["long.csv"])["table"].(map[string]any)["rows"], 100)
		require.Equal(t, "binary", preview(named["bin.csv"])["kind"])

		page := s.send(s.key, "GET", "/v1/drive/file/preview/"+s.store(id, "p.html", "<script>alert(1)</script>").FileID, nil)
		require.Equal(t, "application/json", strings.Split(page.header.Get("Content-Type"), ";")[0])
		long := preview(s.store(id, "l.txt", strings.Repeat("é", 40_000)))
		require.Equal(t, strings.Repeat("é", 32<<10), long["text"])
		require.Equal(t, false, long["whole"])
		cut := preview(s.store(id, "c.txt", "x"+strings.Repeat("é", 40_000)))
		require.Equal(t, "x"+strings.Repeat("é", 32<<10-1), cut["text"], "a character that is cut is left out")
		require.Equal(t, "binary", preview(s.store(id, "b.bin", "\x00\x01\x02"))["kind"])
		require.Equal(t, "image", preview(s.store(id, "i.png", "\x89PNG\r\n\x1a\n"))["kind"])
		require.Equal(t, 404, s.send(s.another("ben"), "GET", "/v1/drive/file/preview/"+named["own.csv"].FileID, nil).status)
	})
}
