package cli_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/modules/app/apptest"
	"github.com/portico-run/portico/modules/knowledge/knowledgetest"
)

// A command that is killed in the middle leaves whole documents, the new version
// or the one before, and the same command goes on from there.
func TestKilledAdditionsLeaveWholeDocuments(t *testing.T) {
	t.Parallel()
	for _, d := range databasetest.Of(t) {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			const files, before = 12, 5
			var left atomic.Int64
			stuck := make(chan struct{}, files)
			embeddings := &knowledgetest.Embeddings{}
			service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if left.Add(-1) < 0 {
					_, _ = io.Copy(io.Discard, r.Body) // then the end of the connection is seen
					stuck <- struct{}{}
					<-r.Context().Done()
					return
				}
				embeddings.ServeHTTP(w, r)
			}))
			t.Cleanup(service.Close)
			env := apptest.Environ(t, databasetest.URL(t, d), "EMBEDDING_URL="+service.URL, "EMBEDDING_API_KEY="+knowledgetest.Key, "EMBEDDING_MODEL="+knowledgetest.Model)
			folder := t.TempDir()
			write := func(version string) {
				for i := range files {
					text := fmt.Sprintf("# Part %d\n\n## One\n\nIt is %s.\n\n## Two\n\nIt is %s.\n", i, version, version)
					require.NoError(t, os.WriteFile(filepath.Join(folder, fmt.Sprintf("%02d.md", i)), []byte(text), 0o600))
				}
			}
			add := func() (result added) {
				out := good(t, env, "knowledge", "add", folder, "--shared", "--json")
				require.NoError(t, json.Unmarshal([]byte(out), &result), out)
				return result
			}
			write("red")
			left.Store(files)
			require.Equal(t, files, add().Added)

			write("green")
			left.Store(before)
			command := exec.CommandContext(t.Context(), os.Args[0], "knowledge", "add", folder, "--shared")
			command.Env = append(env, asProgram+"=1")
			require.NoError(t, command.Start())
			<-stuck
			require.NoError(t, command.Process.Kill())
			require.Error(t, command.Wait())

			for i := range files {
				shown := good(t, env, "knowledge", "show", filepath.Join(folder, fmt.Sprintf("%02d.md", i)), "--shared")
				green, red := strings.Count(shown, "green"), strings.Count(shown, "red")
				if i < before {
					require.True(t, green == 2 && red == 0, shown)
				} else {
					require.True(t, green == 0 && red == 2, shown)
				}
			}
			left.Store(files)
			again := add()
			require.Equal(t, []int{files - before, before}, []int{again.Added, again.Unchanged})
			require.Regexp(t, fmt.Sprintf(`(?m)^documents +%d `, files), good(t, env, "knowledge", "stats", "--shared"))
		})
	}
}
