package cli_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/modules/app/apptest"
	"github.com/portico-run/portico/modules/knowledge/knowledgetest"
)

// added is what `knowledge add --json` prints.
type added struct {
	Added, Unchanged, Passages int
	Skipped, Failed            []struct{ Source, Why string }
}

func TestOperatorsFillTheKnowledgeStore(t *testing.T) {
	t.Parallel()
	for _, d := range databasetest.Of(t) {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			service := httptest.NewServer(&knowledgetest.Embeddings{})
			t.Cleanup(service.Close)
			env := apptest.Environ(t, databasetest.URL(t, d), "EMBEDDING_URL="+service.URL, "EMBEDDING_API_KEY="+knowledgetest.Key, "EMBEDDING_MODEL="+knowledgetest.Model)
			good(t, env, "user", "create", "anna")
			good(t, env, "user", "create", "ben")
			folder := filepath.Join(t.TempDir(), "docs")
			require.NoError(t, os.MkdirAll(filepath.Join(folder, ".git"), 0o700))
			for name, content := range map[string]string{"a.md": "# Lamps\nThe lantern is red.", "b.md": "The door.", ".git/c.md": "hidden", "d.bin": "\x00", "e.html": "<p></p>"} {
				require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600))
			}
			add := func(code int, args ...string) (result added) {
				t.Helper()
				got, out, errs := portico(t, env, append([]string{"knowledge", "add", "--json"}, args...)...)
				require.Equal(t, code, got, errs)
				require.NoError(t, json.Unmarshal([]byte(out), &result), out)
				return result
			}
			first := add(1, folder, "--shared", "--collection", "handbook") // one has no text
			require.Equal(t, []int{2, 0, 2}, []int{first.Added, first.Unchanged, first.Passages})
			require.Len(t, first.Skipped, 2)
			require.Len(t, first.Failed, 1)
			require.True(t, strings.HasSuffix(first.Failed[0].Source, "e.html"))
			require.NoError(t, os.Remove(filepath.Join(folder, "e.html")))
			require.Equal(t, 2, add(0, folder, "--shared", "--collection", "handbook").Unchanged)
			archive := add(0, "--docc", "../knowledge/read/testdata/Lantern.doccarchive", "--user", "anna")
			require.Positive(t, archive.Added)

			lamps := filepath.Join(folder, "a.md")
			require.Regexp(t, `handbook +`+lamps+` +Lamps +1 `, good(t, env, "knowledge", "list", "--shared"))
			require.Contains(t, good(t, env, "knowledge", "show", lamps, "--shared", "--collection", "handbook"), "The lantern is red.")
			require.Regexp(t, `(?m)^handbook +2 +2 +2 `, good(t, env, "knowledge", "stats", "--shared"))
			require.Regexp(t, `(?m)^apple `, good(t, env, "knowledge", "stats", "--user", "anna"))
			good(t, env, "knowledge", "remove", lamps, "--shared", "--collection", "handbook", "--yes")
			require.NotContains(t, good(t, env, "knowledge", "list", "--shared"), "Lamps")
			for want, args := range map[int][]string{
				2: {"add", folder},
				3: {"clear", "none", "--shared"},
				4: {"clear", "handbook", "--shared"},
			} {
				code, _, errs := portico(t, env, append([]string{"knowledge"}, args...)...)
				require.Equal(t, want, code, errs)
			}
			good(t, env, "knowledge", "clear", "handbook", "--shared", "--yes")
			require.NotContains(t, good(t, env, "knowledge", "stats", "--shared"), "handbook")
			require.Contains(t, good(t, env, "user", "show", "anna"), "collections of documents")
			good(t, env, "user", "delete", "anna", "--yes")
		})
	}
}

func TestSitesAreAddedByTheirSitemap(t *testing.T) {
	t.Parallel()
	asked := 0
	var site *httptest.Server
	site = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/sitemap.xml":
			_, _ = w.Write([]byte(`<urlset><url><loc>` + site.URL + `/lamps.html</loc></url></urlset>`))
		case "/lamps.html":
			w.Header().Set("ETag", `"one"`)
			w.Header().Set("Content-Type", "text/html")
			if r.Header.Get("If-None-Match") == `"one"` {
				asked++
				w.WriteHeader(http.StatusNotModified)
				return
			}
			_, _ = w.Write([]byte("<title>Lamps</title><article><h1>Lamps</h1>" + strings.Repeat("<p>The lantern of the house is red and hangs at the door.</p>", 5) + "</article>"))
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(site.Close)
	env := apptest.Environ(t, databasetest.URL(t, database.SQLite), "FETCH_EGRESS=127.0.0.0/8")
	require.Contains(t, good(t, env, "knowledge", "add", "--sitemap", site.URL+"/sitemap.xml", "--shared"), "added 1 documents")
	require.Contains(t, good(t, env, "knowledge", "add", site.URL+"/lamps.html", "--shared"), "1 were as they are")
	require.Equal(t, 1, asked, "the page is asked for only if it has changed")
}
