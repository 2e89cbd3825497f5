package app_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/objectstore/objectstoretest"
	"github.com/portico-run/portico/internal/testenv"
)

// What a host stores and forgets goes by itself, from the object storage and
// from its user's quota; what programs still use stays, and so does what it was
// made of. What is deleted makes room at once.
func TestForgottenStorageIsFreed(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	for _, d := range databasetest.Of(t) {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			c := objectstoretest.S3Config(t)
			env := environ(t, databasetest.URL(t, d), "OBJECT_STORAGE_DRIVER=s3", "S3_ENDPOINT="+c.Endpoint, "S3_REGION="+c.Region, "S3_BUCKET="+c.Bucket,
				"S3_ACCESS_KEY="+c.AccessKey, "S3_SECRET_KEY="+c.SecretKey, "DRIVE_QUOTA=10KiB", "DRIVE_MAX_FILE=10KiB")
			s := serveWith(t, env)
			users, err := s.app.Accounts.Service.Users(t.Context())
			require.NoError(t, err)
			objects := func() int {
				keys, err := s.app.Objects.List(t.Context(), "code/"+users[0].UID+"/")
				require.NoError(t, err)
				return len(keys)
			}
			full := func(taken string) {
				t.Helper()
				a := s.upload("/upload", map[string]string{"more.txt": strings.Repeat("x", 10<<10)})
				require.Equal(t, 413, a.status)
				require.Contains(t, a.raw, "Your files take "+taken+" of 10240 bytes")
			}
			kib := func(n int) string { return strings.Repeat("x", n<<10) }
			used := s.upload("/upload", map[string]string{"used.txt": kib(4)}).uploaded(t)
			forgotten := s.upload("/upload", map[string]string{"forgotten.txt": kib(3)}).uploaded(t)
			ref := file{ID: used.Files[0].FileID, Name: "used.txt", StorageSessionID: used.SessionID}.ref("")
			run := s.code("/exec", map[string]any{"lang": "py", "code": "open('made.txt', 'w').write('x' * 1024)", "files": []any{ref}})
			require.Equal(t, 3, objects())
			full("8192")

			// The end of their life is near for all of them, and a program uses the
			// session that has one of the files.
			s.exec("UPDATE code_sessions SET expires_at = ?", time.Now().Add(time.Minute).UTC())
			require.Equal(t, "4096 used.txt\n", s.code("/exec", map[string]any{"lang": "bash", "code": "wc -c used.txt", "session_id": run.SessionID}).Stdout)
			s.exec("UPDATE code_sessions SET expires_at = ? WHERE expires_at < ?", time.Now().Add(-time.Hour).UTC(), time.Now().Add(time.Hour).UTC())
			key := s.key
			s.stop()
			s = serveWith(t, env) // it looks when it starts, and every hour
			s.key = key
			require.Eventually(t, func() bool { return objects() == 2 }, 30*time.Second, 10*time.Millisecond)
			require.Eventually(t, func() bool { return s.count("SELECT count(*) FROM code_sessions") == 2 }, 30*time.Second, 10*time.Millisecond)
			require.Equal(t, 2, s.count("SELECT count(*) FROM code_files"))
			full("5120")
			require.Equal(t, 404, s.send(s.key, "GET", "/download/"+forgotten.SessionID+"/"+forgotten.Files[0].FileID, nil).status)
			require.Equal(t, kib(4), s.send(s.key, "GET", "/download/"+run.SessionID+"/"+used.Files[0].FileID, nil).raw)

			// Taking a file out of a session that was given it frees nothing.
			require.Equal(t, 200, s.send(s.key, "DELETE", "/files/"+run.SessionID+"/"+used.Files[0].FileID, nil).status)
			full("5120")
			require.Equal(t, 200, s.send(s.key, "DELETE", "/sessions/"+used.SessionID+"/objects/"+used.Files[0].FileID, nil).status)
			full("1024")
			require.Equal(t, 200, s.send(s.key, "DELETE", "/files/"+run.SessionID+"/"+run.Files[0].ID, nil).status)
			require.Zero(t, objects())
			s.upload("/upload", map[string]string{"more.txt": kib(10)}).uploaded(t)
		})
	}
}
