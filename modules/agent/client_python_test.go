package agent_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/agenttest"
	"github.com/portico-run/portico/internal/testenv"
)

// The Python client is built, installed as its users install it, and tried against a
// server by its own tests; its example prints what it says.
func TestThePythonClient(t *testing.T) {
	testenv.Slow(t, "builds a wheel, and a whole server at work")
	t.Parallel()
	python := filepath.Join(testenv.Need(t, "PORTICO_PYTOOLS", "tools/pytools.sh prints it"), "bin", "python")
	source, err := filepath.Abs("../../clients/python")
	require.NoError(t, err)
	work := t.TempDir()
	// A copy, since building leaves files beside the source.
	require.NoError(t, os.CopyFS(filepath.Join(work, "client"), os.DirFS(source)))
	s := agenttest.Serve(t, `
- on: How warm
  output: [{call: {name: execute_code, arguments: {code: "print(get_weather(city='Oslo')['city'])"}}}]
- expect: ["Oslo"]
  output: [{text: "It is warm "}, {text: "in Oslo."}]
- on: List them often
  output: [{text: "I look."}, {call: {name: execute_code, arguments: {code: "await asyncio.gather(*(list_cities() for _ in range(1020)))"}}}]
- output: [{text: "There are some."}]
- on: Does it break
  fail: [{status: 400, message: no such model}]
`)
	url, key := s.Reach()
	run := func(args ...string) string {
		t.Helper()
		command := exec.CommandContext(t.Context(), python, args...)
		command.Dir = filepath.Join(work, "client")
		command.Env = append(os.Environ(), "PORTICO_URL="+url, "PORTICO_API_KEY="+key, "PYTHONPATH="+filepath.Join(work, "installed"), "MYPY_CACHE_DIR="+filepath.Join(work, "mypy"))
		out, err := command.CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}
	pip := []string{"-m", "pip", "--quiet", "--disable-pip-version-check"}
	run(append(pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", work, ".")...)
	wheels, err := filepath.Glob(filepath.Join(work, "*.whl"))
	require.NoError(t, err)
	require.Len(t, wheels, 1)
	run(append(pip, "install", "--no-deps", "--target", filepath.Join(work, "installed"), wheels[0])...)

	run("-m", "ruff", "check", ".")
	run("-m", "ruff", "format", "--check", ".")
	run("-m", "mypy", "src")
	run("-m", "mypy", "tests") // against what is installed
	t.Log(run("-m", "unittest", "-v", "tests.test_client"))

	for file, readme := range map[string]string{"example.py": filepath.Join(source, "README.md"), "rooms.py": "../../README.md"} {
		text, err := os.ReadFile(readme)
		require.NoError(t, err)
		lines := regexp.MustCompile("(?s)```python " + file + "\n(.*?)```").FindSubmatch(text)
		require.NotNil(t, lines, file)
		require.NoError(t, os.WriteFile(filepath.Join(work, "client", file), lines[1], 0o600))
	}
	require.Equal(t, "Fjord Oslo\nHolmen Oslo\nIt is warm in Oslo. finish\n", run("example.py"))
	require.Equal(t, "['Fjord', 'Holmen'] Oslo\n\n", run("rooms.py"))
}
