package app_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/testenv"
)

// One quota bounds all that is stored for a user: uploads, outputs of programs
// and files of canvases. What does not fit leaves nothing behind; what expires
// or is deleted makes room; others have their own.
func TestOneQuotaForAllFiles(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		ben := s.another("ben")
		kib := func(n int) string { return strings.Repeat("x", n<<10) }
		objects := func() int {
			keys, err := s.app.Objects.List(t.Context(), "code/")
			require.NoError(t, err)
			return len(keys)
		}
		up := s.upload("/upload", map[string]string{"a.txt": kib(4)}).uploaded(t)
		canvas := s.canvas("Files")
		s.store(canvas, "b.txt", kib(3))
		made := s.code("/exec", map[string]any{"lang": "py", "code": "open('c.txt', 'w').write('x' * 2048)"})
		require.Len(t, made.Files, 1)
		require.Equal(t, 2, objects())

		for path, files := range map[string]map[string]string{
			"/upload": {"d.txt": kib(2)}, "/upload/batch": {"d.txt": kib(1), "e.txt": kib(1)},
		} {
			a := s.upload(path, files)
			require.Equal(t, 413, a.status, a.raw)
			require.Contains(t, a.raw, "E2001")
			require.Contains(t, a.raw, "Your files take 9216 of 10240 bytes; 2048 more do not fit. Delete some.")
		}
		a := s.uploadTo(s.key, canvas, "d.txt", kib(2))
		require.Equal(t, 413, a.status, a.raw)
		require.Contains(t, a.raw, "Your files take 9216 of 10240 bytes")
		for path, body := range map[string]map[string]any{"/exec": {"lang": "py"}, "/exec/programmatic": {}} {
			body["code"] = "print('ran')\nfor name in 'de': open(name, 'w').write('x' * 1024)"
			e := s.code(path, body)
			require.Equal(t, "ran\n", e.Stdout, "it has run, and is not to be run again")
			require.Empty(t, e.Files)
			require.Contains(t, e.Stderr, "2 new files of the program were not kept: Storage quota exceeded")
			require.Equal(t, map[string]any{"code": "artifact_delivery_failed", "status": "failed", "attempted": 2.0, "delivered": 0.0, "failed": 2.0}, e.ArtifactDelivery)
			require.JSONEq(t, `[]`, s.send(s.key, "GET", "/files/"+e.SessionID, nil).raw)
		}
		require.Equal(t, 2, objects(), "nothing is half written")
		require.Equal(t, 2, s.count("SELECT count(*) FROM code_files"))

		theirs := s.codeAs(ben, "/exec", map[string]any{"lang": "py", "code": "open('c.txt', 'w').write('x' * 10240)"})
		require.Len(t, theirs.Files, 1, "ben has room of his own")

		s.exec("UPDATE code_sessions SET expires_at = ? WHERE session_id = ?", time.Now().Add(-time.Hour).UTC(), up.SessionID)
		require.NoError(t, s.app.CodeAPI.Purge(t.Context()))
		s.store(canvas, "d.txt", kib(2))
		require.Equal(t, 200, s.send(s.key, "DELETE", "/files/"+made.SessionID+"/"+made.Files[0].ID, nil).status)
		s.upload("/upload", map[string]string{"f.txt": kib(5)}).uploaded(t)
		require.Equal(t, 413, s.upload("/upload", map[string]string{"g.txt": "x"}).status)
	}, "DRIVE_QUOTA=10KiB", "DRIVE_MAX_FILE=10KiB")
}
