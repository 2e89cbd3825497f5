package app_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
)

// write puts a toolset file into a folder.
func write(t *testing.T, dir, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
}

// verbose is what /readyz?verbose says about toolset files.
func verbose(t *testing.T, s *instance) string {
	t.Helper()
	a := s.send("", "GET", "/readyz?verbose", nil)
	require.Equal(t, 200, a.status, a.raw)
	var body struct {
		Invalid json.RawMessage `json:"invalidToolsetFiles"`
	}
	require.NoError(t, json.Unmarshal(a.body.Data, &body))
	return string(body.Invalid)
}

// One file that is not valid leaves the server, the other files and what its
// own toolsets were before.
func TestAnInvalidToolsetFileStopsNeitherServerNorOthers(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	for _, d := range databasetest.Of(t) {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			url, dir := databasetest.URL(t, d), t.TempDir()
			write(t, dir, "a.yaml", priced("a"))
			write(t, dir, "b.yaml", priced("b"))
			upstream := "DEMO_LISTEN=" + testenv.FreeAddress(t)
			s := serve(t, url, "TOOLSETS_DIR="+dir, upstream)
			require.Empty(t, verbose(t, s))
			s.stop()

			const secret = "hunter2hunter2"
			write(t, dir, "a.yaml", "# a comment\nkey: a\nname: A\ndomain: https://user:${TOOLSET_PASSWORD}@a.test\nbiling: 1\nmethods: [{name: get, endpoint: /x}]\n")
			write(t, dir, "b.yaml", strings.Replace(priced("b"), "billing: 2", "billing: 3", 1))
			write(t, dir, "c.yaml", "key: c\n  name: [")
			write(t, dir, "d.yaml", priced("d"))
			require.NoError(t, os.Symlink(filepath.Join(dir, "nothing"), filepath.Join(dir, "e.yaml")))
			env := environ(t, url, "TOOLSETS_DIR="+dir, "TOOLSET_PASSWORD="+secret, upstream)
			s = serveWith(t, env)
			command := func(args ...string) (code int, said string) {
				code, out, errs := portico(t, env, args...)
				return code, out + errs
			}
			_, key, _ := portico(t, env, "key", "create", "--user", "admin")
			s.key = strings.TrimSpace(key)
			for toolset, price := range map[string]int{"a": 2, "b": 3, "d": 2} {
				a := s.send(s.key, "POST", "/v1/tool/execute", map[string]any{"toolsetKey": toolset, "toolName": "get", "arguments": map[string]string{"file_name_title": "x"}})
				require.Contains(t, a.raw, `"status":"success"`, toolset)
				require.Equal(t, 1, s.count("SELECT count(*) FROM credit_usages u JOIN tool_call_results c ON c.call_id = u.tool_call_id WHERE c.toolset_id = ? AND u.amount = ?", toolset, price), toolset)
			}

			require.JSONEq(t, `[{"file":"a.yaml","line":2},{"file":"c.yaml","line":2},{"file":"e.yaml","line":1}]`, verbose(t, s))
			require.NotContains(t, s.send("", "GET", "/readyz", nil).raw, "yaml")
			log := s.log.String()
			require.Contains(t, log, "a toolset file is not valid")
			require.Contains(t, log, `unknown key \"biling\"`)
			require.NotContains(t, log, secret)

			code, said := command("doctor")
			require.NotZero(t, code)
			require.Contains(t, said, "a.yaml:5: unknown key")
			require.Contains(t, said, "c.yaml:2")
			require.Contains(t, said, "e.yaml:1: the file cannot be read")
			require.NotContains(t, said, secret)
			before := s.count("SELECT count(*) FROM toolset_inventory")
			code, said = command("toolset", "apply", "-f", dir)
			require.NotZero(t, code)
			require.Contains(t, said, "a.yaml:5: unknown key")
			require.Contains(t, said, "c.yaml:2")
			require.Equal(t, before, s.count("SELECT count(*) FROM toolset_inventory"), "all or nothing")
		})
	}
}

// A toolset that cannot be read any more fails where it is asked for, and says
// so; runs and programs that never named it go on.
func TestABrokenToolsetFailsOnlyWhoNamesIt(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	_, env := script(t, `
- expect: [execute_code]
  output: [{call: {name: execute_code, arguments: {code: "print(6 * 7)", timeout: null}}}]
- output: [{text: "Done."}]
`)
	s := serve(t, databasetest.URL(t, database.SQLite), env...)
	s.apply(t, map[string]string{"broken.yaml": priced("broken")})
	s.exec("UPDATE toolset_inventory SET egress = '{' WHERE key = 'broken'")
	r := s.invoke(t, map[string]any{"query": "Count the cities.", "toolsets": []string{"demo"}})
	require.Equal(t, "finish", r.Status, "%v", r.Errors)
	o := s.run(map[string]any{"code": "from refly_tools.demo import Demo\nprint(Demo.list_cities(file_name_title='x')['status'])"})
	require.Equal(t, "success\n", o.Stdout, o.Stderr)

	a := s.send(s.key, "POST", "/v1/tool/execute", `{"toolsetKey":"broken","toolName":"get","arguments":{"file_name_title":"x"}}`)
	require.Contains(t, a.raw, "Toolset broken cannot be used")
	require.NotContains(t, a.raw, "JSON")
	require.Contains(t, s.log.String(), "a stored toolset cannot be read")
	list := s.send(s.key, "GET", "/v1/tool/list", nil)
	require.Equal(t, 200, list.status, list.raw)
}
