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
)

const pieces = `{"openapi":"3.1.0","info":{"title":"Pieces","version":"1"},"servers":[{"url":"https://{region}.example.com","variables":{"region":{"default":"eu"}}}],"paths":{
	"/a":{"get":{"operationId":"readA","summary":"Reads  it","parameters":[{"$ref":"%"}]},"post":{"operationId":"writeA"}},"/b":{"get":{"operationId":"readB"}}}}`

// write makes a folder of files.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

func referring(to string) string { return strings.Replace(pieces, "%", to, 1) }

// An import lists before it makes, chooses, and tells what it leaves out, as
// text, as JSON and as an error.
func TestImportTellsWhatItLeavesOut(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{"api.json": referring("#/components/parameters/none")})
	run := func(args ...string) (int, string, string) {
		return portico(t, nil, append([]string{"toolset", "import", "--openapi", filepath.Join(dir, "api.json")}, args...)...)
	}
	code, out, errs := run("--list")
	require.Equal(t, 0, code, errs)
	require.Equal(t, "METHOD  PATH  NAME    READS ONLY  SUMMARY\nGET     /a    readA   yes         Reads it\nPOST    /a    writeA  no          \nGET     /b    readB   yes         \n", out)
	file := filepath.Join(dir, "made.yaml")
	code, out, errs = run("--name", "p", "--out", file, "--server-var", "region=us")
	require.Equal(t, 0, code, errs)
	require.Equal(t, file+": 2 methods\n", out)
	require.Contains(t, errs, "warning: GET /a is left out: #/components/parameters/none refers to nothing\n")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(text), "domain: https://us.example.com\n")
	code, out, errs = run("--name", "p", "--out", file, "--json")
	require.Equal(t, 0, code, errs)
	var answer struct {
		Methods int
		LeftOut []struct{ Operation, Reason string }
	}
	require.NoError(t, json.Unmarshal([]byte(out), &answer))
	require.Equal(t, 2, answer.Methods)
	require.Equal(t, "GET /a", answer.LeftOut[0].Operation)
	code, out, errs = run("--name", "p", "--out", "-", "--json")
	require.Equal(t, 0, code, errs)
	var printed struct{ Content string }
	require.NoError(t, json.Unmarshal([]byte(out), &printed))
	code, out, errs = run("--name", "p", "--out", "-")
	require.Equal(t, 0, code, errs)
	require.Equal(t, out, printed.Content)
	require.Contains(t, out, "name: readB\n")
	require.NoError(t, os.Remove(file))
	code, _, errs = run("--name", "p", "--out", file, "--strict")
	require.NotZero(t, code)
	require.Contains(t, errs, "GET /a is left out")
	require.NoFileExists(t, file)
	code, out, errs = run("--name", "p", "--out", "-", "--read-only")
	require.Equal(t, 0, code, errs)
	require.Contains(t, out, "- name: readB")
	require.NotContains(t, out, "writeA")
	code, _, errs = run("--out", "-")
	require.Equal(t, 2, code)
	require.Contains(t, errs, "--name is missing")
}

// A document refers to files below its own folder and below those that are
// named, and to URLs within the rules of egress; links lead no further.
func TestImportReadsWhatItMay(t *testing.T) {
	t.Parallel()
	const parameter = `{"name":"q","in":"query","schema":{"type":"integer"}}`
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/q.json" {
			_, _ = w.Write([]byte(parameter))
			return
		}
		_, _ = w.Write([]byte(referring("file:///etc/hosts")))
	}))
	t.Cleanup(web.Close)
	dir := write(t, map[string]string{
		"in/beside.json": referring("parts/q.json"), "in/parts/q.json": parameter, "in/above.json": referring("../out/q.json"), "out/q.json": parameter,
		"in/link.json": referring("linked.json"), "in/web.json": referring(web.URL + "/q.json"),
	})
	require.NoError(t, os.Symlink("../out/q.json", filepath.Join(dir, "in", "linked.json")))
	for _, c := range []struct {
		source, refused string
		args            []string
	}{
		{source: dir + "/in/beside.json"},
		{source: dir + "/in/above.json", refused: "--allow-ref"},
		{source: dir + "/in/above.json", args: []string{"--allow-ref", dir + "/out"}},
		{source: dir + "/in/link.json", refused: "escapes"},
		{source: dir + "/in/web.json", refused: "prohibited"},
		{source: dir + "/in/web.json", args: []string{"--egress", "127.0.0.0/8"}},
		{source: web.URL + "/api.json", args: []string{"--egress", "127.0.0.0/8"}, refused: "no kind of location"},
	} {
		code, out, errs := portico(t, nil, append([]string{"toolset", "import", "--openapi", c.source, "--name", "p", "--out", "-"}, c.args...)...)
		require.Equal(t, 0, code, errs)
		if c.refused == "" {
			require.Empty(t, errs, c.source)
			require.Contains(t, out, "type: integer", c.source)
		} else {
			require.Contains(t, errs, c.refused, c.source)
			require.NotContains(t, out, "readA", c.source)
		}
	}
}
