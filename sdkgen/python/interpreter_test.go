package python_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/testenv"
)

// interpreter is the Python of the machine; the SDK has to work on it.
func interpreter(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("python3")
	require.NoError(t, err, "python3 is needed; install it, for example with: apt-get install python3")
	return path
}

// pytool finds a tool in the environment that tools/pytools.sh makes.
func pytool(t *testing.T, name string) string {
	t.Helper()
	venv := testenv.Need(t, "PORTICO_PYTOOLS", "tools/pytools.sh prints it")
	path := filepath.Join(venv, "bin", name)
	require.FileExists(t, path, "run tools/pytools.sh")
	return path
}

// run executes a command in dir with only the given environment.
func run(t *testing.T, dir string, env []string, name string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "PYTHONUTF8=1"}, env...)
	var out, problems strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &problems
	err = cmd.Run()
	return out.String(), problems.String(), err
}

// materialise writes a case's package as <dir>/refly_tools and returns dir.
func materialise(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, generate(t, name), filepath.Join(dir, "refly_tools"))
	return dir
}

func TestGeneratedCodeCompiles(t *testing.T) {
	testenv.Slow(t, "a Python for each case")
	t.Parallel()
	for _, name := range cases(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, problems, err := run(t, materialise(t, name), nil, interpreter(t), "-W", "error", "-m", "compileall", "-q", "refly_tools")
			require.NoError(t, err, out+problems)
		})
	}
}

func TestGeneratedCodeTypeChecks(t *testing.T) {
	testenv.Slow(t, "a Python for each case")
	t.Parallel()
	for _, name := range cases(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, problems, err := run(t, materialise(t, name), nil, pytool(t, "mypy"), "--strict", "--no-error-summary", "refly_tools")
			require.NoError(t, err, out+problems)
		})
	}
}

func TestGeneratedCodeLints(t *testing.T) {
	t.Parallel()
	for _, name := range cases(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// A long line cannot be helped where a description is long.
			out, problems, err := run(t, materialise(t, name), nil, pytool(t, "ruff"),
				"check", "--isolated", "--no-cache", "--target-version", "py39", "--select", "E,F,W,I,B,PLE", "--ignore", "E501", "refly_tools")
			require.NoError(t, err, out+problems)
		})
	}
}

// inspect imports everything the manifest lists and checks what a program can
// see of it: importable by module and class, callable, with its key, and the
// documentation's code blocks are Python.
const inspect = `
import ast, importlib, inspect, json, re, sys
def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()
manifest = json.loads(read("refly_tools/manifest.json"))
definitions = {d["key"]: d for d in json.loads(read(sys.argv[1]))}
assert [t["key"] for t in manifest["toolsets"]] == sorted(definitions), manifest
for entry in manifest["toolsets"]:
    module = importlib.import_module("refly_tools." + entry["module"])
    cls = getattr(module, entry["class"])
    assert cls._toolset_key == entry["key"]
    sent = []
    cls._call = classmethod(lambda cls, tool, arguments, nulls=(), **options: sent.append((tool, {**arguments, **({"file_name_title": options["title"]} if "title" in options else {})}, nulls)) or {})
    docs = read("refly_tools/" + entry["docs"])
    for block in re.findall(r"(?ms)^${3}python\n((?:from|def) .*?)^${3}$", docs):
        ast.parse(block)
    methods = [n for n, m in vars(cls).items() if isinstance(m, classmethod) and n != "_call"]
    tools = {t["name"]: t for t in definitions[entry["key"]]["tools"]}
    assert len(methods) == len(tools), (entry, methods)
    for name in methods:
        method = getattr(cls, name)
        assert method.__doc__
        required = [p for p in inspect.signature(method).parameters.values() if p.default is p.empty and p.kind != p.VAR_KEYWORD]
        method(*("v%d" % i for i in range(len(required))))
        tool, arguments, nulls = sent.pop()
        schema = tools.pop(tool).get("inputSchema")
        if isinstance(schema, dict) and isinstance(schema.get("properties"), dict):
            assert set(schema["properties"]) <= set(arguments), (tool, arguments)
            assert "anyOf" in schema or set(schema.get("required", [])) >= {k for k, v in arguments.items() if isinstance(v, str) and re.match(r"v\d+$", v)}
    assert not tools, tools
print("checked")
`

func TestGeneratedCodeImports(t *testing.T) {
	testenv.Slow(t, "a Python for each case")
	t.Parallel()
	for _, name := range cases(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			definitions, err := filepath.Abs(filepath.Join("testdata", name, "definitions.json"))
			require.NoError(t, err)
			script := strings.ReplaceAll(inspect, "${3}", "```")
			out, problems, err := run(t, materialise(t, name), nil, interpreter(t), "-W", "error", "-c", script, definitions)
			require.NoError(t, err, problems)
			require.Equal(t, "checked\n", out)
		})
	}
}

// TestImportIsCheap holds that importing a toolset does not load the HTTP
// client: cold sandboxes pay for every import.
func TestImportIsCheap(t *testing.T) {
	t.Parallel()
	out, problems, err := run(t, materialise(t, "simple"), nil, interpreter(t), "-S", "-c",
		`import sys; from refly_tools.fal_image import FalImage; print([m for m in ("http.client", "ssl", "socket", "json", "uuid", "email") if m in sys.modules])`)
	require.NoError(t, err, problems)
	require.Equal(t, "[]\n", out)
}
