// Slow under the race detector: make test runs it without.
//go:build !race

package app_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
)

// Programs read pages, and load files of their canvas and of opened folders into
// variables, in any of their functions, awaited or not.
func TestProgramsReadPagesAndLoadFiles(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/private" {
			http.Redirect(w, r, "http://10.0.0.1/", http.StatusFound)
			return
		}
		_, _ = io.WriteString(w, `<html><head><title>Pumps</title></head><body><nav><a href="/">Home</a></nav><main><p>A pump moves <a href="water">water</a>.</p></main></body></html>`)
	}))
	t.Cleanup(web.Close)
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "notes.txt"), []byte("of the folder"), 0o600))
	for _, d := range databasetest.Both() {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			s := serve(t, databasetest.URL(t, d), "FETCH_EGRESS=127.0.0.0/8", "LOAD_FILE_ROOTS="+folder)
			canvas := s.canvas("Sales")
			s.store(canvas, "sales.csv", "region,sold\nNorth,10\nSouth,9\n")
			s.store(canvas, "settings.json", `{"a": [1, 2]}`)
			o := s.run(map[string]any{"canvasId": canvas, "code": `
print(fetch_url("` + web.URL + `/p"))
print((await fetch_url(url="` + web.URL + `/p"))[:7])
def inside():
    return load_file("settings.json", "settings")
print(inside(), settings["a"])
print(type(load_file("sales.parquet", var_name="sales")).__name__, int(sales["sold"].sum()))
await load_file("notes.txt", "notes")
print(notes)
for call in (lambda: fetch_url("` + web.URL + `/private"), lambda: fetch_url("http://[::1]/"), lambda: load_file("/etc/passwd", "x"), lambda: load_file("notes.txt", "class")):
    try:
        call()
    except ToolExecutionError as error:
        print(error.code, error)
`})
			require.Equal(t, "completed", o.Status, o.Stderr)
			require.Regexp(t, `^# Pumps

Source: `+web.URL+`/p

A pump moves \[water\]\(`+web.URL+`/water\)\.

# Pumps
\{'a': \[1, 2\]\} \[1, 2\]
DataFrame 19
of the folder
NOT_AUTHORIZED The address may not be fetched.*
NOT_AUTHORIZED The address may not be fetched.*
NOT_FOUND path names no file.*
INVALID_ARGUMENTS var_name .*
$`, o.Stdout)
			require.Equal(t, 4, s.count("SELECT count(*) FROM tool_call_results WHERE ptc_call_id = ? AND toolset_id = 'portico' AND tool_name = 'fetch_url'", o.CallID))
			require.Equal(t, 0, s.count("SELECT count(*) FROM credit_usages WHERE action_result_id = ? AND amount > 0", o.ResultID))

			code := s.send(s.key, "GET", "/v1/sandbox/stubs?callbackUrl="+s.url, nil).raw + "\nprint(load_file('notes.txt', 'notes'), notes)\n"
			python := exec.CommandContext(t.Context(), "python3", "-I", "-c", code)
			python.Env = []string{"PATH=" + os.Getenv("PATH"), "PORTICO_API_KEY=" + s.key}
			out, err := python.CombinedOutput()
			require.NoError(t, err, string(out))
			require.Equal(t, "of the folder of the folder\n", string(out))
		})
	}
}
