package app_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
)

// foreign is a package as another generator writes it: no manifest, a base class
// of its own that speaks plain HTTP, keeps its connections, by hand or in a
// session of requests, and raises what it likes.
func foreign() map[string]string {
	return map[string]string{
		"__init__.py": "",
		"_toolset.py": `
import http.client, json, os, sys, threading
from urllib.parse import urlsplit

HEADERS = {
    "x-ptc-call-id": "REFLY_PTC_CALL_ID", "x-refly-result-id": "REFLY_RESULT_ID",
    "x-refly-result-version": "REFLY_RESULT_VERSION", "x-refly-canvas-id": "REFLY_CANVAS_ID",
}

class ToolError(Exception):
    pass

class ToolsetBase:
    _toolset_key = ""
    _local = threading.local()

    @classmethod
    def _connection(cls):
        if not hasattr(cls._local, "connection"):
            url = urlsplit(os.environ["REFLY_TOOL_SERVICE_API_URL"])
            assert url.scheme == "http", url
            cls._local.connection = http.client.HTTPConnection(url.hostname, url.port or 80, timeout=60)
        return cls._local.connection

    @classmethod
    def _execute(cls, tool, arguments, chunked=False):
        headers = {name: os.environ[variable] for name, variable in HEADERS.items() if os.environ.get(variable)}
        headers.update({
            "Content-Type": "application/json", "Accept": "*/*", "Accept-Encoding": "gzip, deflate", "Connection": "keep-alive",
            "Authorization": "Bearer " + os.environ["REFLY_TOOL_SERVICE_API_KEY"],
        })
        body = json.dumps({"toolsetKey": cls._toolset_key, "toolName": tool, "arguments": arguments}).encode()
        if chunked:
            headers["Transfer-Encoding"] = "chunked"
            body = iter([body[i:i + 20] for i in range(0, len(body), 20)])
        connection = cls._connection()
        connection.request("POST", "/v1/tool/execute", body, headers, encode_chunked=chunked)
        response = connection.getresponse()
        answer = json.loads(response.read())
        if os.environ.get("REFLY_PTC_DEBUG") == "true":
            print("[ptc]", tool, response.status, file=sys.stderr)
        if not answer["success"]:
            raise ToolError(answer["errMsg"])
        return answer["data"]
`,
		"demo.py": `
from ._toolset import ToolError, ToolsetBase

class Demo(ToolsetBase):
    _toolset_key = "demo"

    @classmethod
    def list_cities(cls, file_name_title, chunked=False):
        """The cities there is data for."""
        return cls._execute("list_cities", {"file_name_title": file_name_title}, chunked)

    @classmethod
    def fail(cls, **arguments):
        answer = cls._execute("fail", arguments)
        if answer["status"] == "error":
            raise ToolError(answer["error"])
        return answer
`,
		"big.py": `
import os, requests
from ._toolset import ToolsetBase

class Big(ToolsetBase):
    _toolset_key = "big"
    _session = requests.Session()

    @classmethod
    def read(cls, file_name_title):
        answer = cls._session.post(
            os.environ["REFLY_TOOL_SERVICE_API_URL"] + "/v1/tool/execute", timeout=60,
            json={"toolsetKey": "big", "toolName": "read", "arguments": {"file_name_title": file_name_title}},
            headers={"Authorization": "Bearer " + os.environ["REFLY_TOOL_SERVICE_API_KEY"]})
        answer.raise_for_status()
        return answer.json()["data"]
`,
		"docs/demo.md": "# Demo\n\nAs another generator documents it: Demo.list_cities lists the cities.\n",
		"docs/big.md":  "# Big\n",
	}
}

// publish puts a package where a server that gets the variables finds it.
func publish(t *testing.T, files map[string]string) (env []string) {
	t.Helper()
	storage := t.TempDir()
	for file, content := range files {
		path := filepath.Join(storage, "sdk/v7/refly_tools", file)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	return []string{"OBJECT_STORAGE_FOLDER=" + storage, "SANDBOX_S3LIB_PATH_PREFIX=sdk", "SANDBOX_S3LIB_HASH=v7"}
}

// usesForeign prints what came of each way to call.
const usesForeign = `
from refly_tools import ToolExecutionError
from refly_tools._toolset import ToolsetBase
from refly_tools.demo import Demo, ToolError
from refly_tools.big import Big
from concurrent.futures import ThreadPoolExecutor
Demo.list_cities("a")
socket = Demo._connection().sock
print("kept", socket is not None, [Demo.list_cities(c)["status"] for c in "bc"], Demo._connection().sock is socket)
print("chunked", Demo.list_cities("d", chunked=True)["status"], Demo._connection().sock is socket)
with ThreadPoolExecutor(max_workers=5) as pool:
    print("threads", [a["status"] for a in pool.map(Demo.list_cities, "abcdefghij")])
try: Demo.fail(file_name_title="f")
except ToolError as e: print("raised", len(str(e)) > 0, Demo._connection().sock is socket)
print("no such tool:", Demo._execute("nothing", {})["status"])
print("big", len(Big.read("b")["data"]["text"]), ToolExecutionError.__name__)
import subprocess
print(subprocess.run(["bash", "-c", """exec 5<>/dev/tcp/127.0.0.1/5800
body='{"toolsetKey":"demo","toolName":"list_cities","arguments":{"file_name_title":"x"}}'
printf 'POST /v1/tool/execute HTTP/1.0\\r\\nX-API-Key: %s\\r\\nContent-Type: application/json\\r\\nContent-Length: %d\\r\\n\\r\\n%s' "$REFLY_TOOL_SERVICE_API_KEY" "${#body}" "$body" >&5
head -1 <&5"""], capture_output=True, text=True).stdout.strip())
`

// bigText makes the largest answer of an upstream that may be: 16 MiB.
const bigText = 16<<20 - len(`{"text":""}`)

// A package of another toolchain runs unchanged in every kind of sandbox: it
// speaks plain HTTP to the address in the environment.
func TestPackagesOfOtherToolchains(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"text":"`+strings.Repeat("x", bigText)+`"}`)
	}))
	t.Cleanup(upstream.Close)
	for name, more := range map[string][]string{
		"forkserver": nil,
		"bubblewrap": {"SANDBOX_DRIVER=bubblewrap"},
		"gvisor":     {"SANDBOX_DRIVER=gvisor", "SANDBOX_RUNSC=" + os.Getenv("PORTICO_RUNSC")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "gvisor" {
				testenv.Need(t, "PORTICO_RUNSC", "tools/runsc.sh prints it")
			}
			files := foreign()
			if name != "forkserver" {
				delete(files, "__init__.py") // not everybody writes one
			}
			more := slices.Concat(more, publish(t, files), []string{"PTC_DEBUG=opt-out"})
			s := serve(t, databasetest.URL(t, database.SQLite), more...)
			s.apply(t, map[string]string{"big.yaml": "key: big\nname: Big\ndomain: " + upstream.URL + "\negress: {allow: [127.0.0.0/8]}\nbilling: {read: 0}\n" +
				"methods: [{name: read, endpoint: /read, method: GET, request: {type: object}}]\n"})
			o := s.run(map[string]any{"code": usesForeign, "toolsets": []string{"demo", "big"}})
			require.Equal(t, "completed", o.Status, o.Stderr)
			require.Equal(t, []string{
				"kept True ['success', 'success'] True",
				"chunked success True",
				"threads [" + strings.Repeat("'success', ", 9) + "'success']",
				"raised True True",
				"no such tool: error",
				fmt.Sprint("big ", bigText, " ToolExecutionError"),
				"HTTP/1.0 200 OK",
			}, strings.Split(strings.TrimSpace(o.Stdout), "\n"), o.Stderr)
			require.Equal(t, 16, strings.Count(o.Stderr, "[ptc] "), "REFLY_PTC_DEBUG is true: %s", o.Stderr)
			made := s.count("SELECT count(*) FROM tool_call_results WHERE ptc_call_id = ?", o.CallID)
			require.Equal(t, o.ToolCallsMade, made, "they are this program's")
			require.Equal(t, 18, made)
		})
	}
}

// What a program gets of its tools, in both styles and awaited or not.
func TestStylesOfCalls(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		o := s.run(map[string]any{"toolsets": []string{"demo"}, "code": `
from refly_tools import ToolExecutionError as Same
from refly_tools.demo import Demo
one = await Demo.list_cities()
two, three = await asyncio.gather(Demo.list_cities(), asyncio.create_task(Demo.list_cities()))
print(type(one) is dict, one == two == three == Demo.list_cities(), one["status"])
f = list_cities
data = f()
print(data == one["data"], type(data) is type(one["data"]), json.dumps(data) == json.dumps(one["data"]))
flat = await asyncio.gather(*[f() for _ in range(3)])
print(flat == [data] * 3)
try: fail()
except Same as e:
    print(isinstance(e, ToolExecutionError), e.code, e.message, e.tool, e.status > 0, len(e.request_id) > 0, str(e).count("\n"))
try: Demo.list_citys()
except AttributeError: pass
Demo.list_citys()`})
		require.Equal(t, "failed", o.Status)
		lines := strings.Split(o.Stdout, "\n")
		require.Equal(t, []string{"True True success", "True True True", "True"}, lines[:3], o.Stderr)
		require.Regexp(t, `^True [A-Z_]+ \S.* fail True True 0$`, lines[3], o.Stderr)
		require.True(t, strings.HasSuffix(o.Stderr, "AttributeError: type object 'Demo' has no attribute 'list_citys'. Did you mean: 'list_cities'?\n"), o.Stderr)
		require.Len(t, o.ToolCalls, 9, "each call once")
	})
}

// The documentation of a package of another toolchain is what a model is told
// about its classes, however long it is: nothing else describes them. What the
// package does not hold is not offered as a class.
func TestDocumentsOfOtherToolchainsReachTheModel(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	for name, length := range map[string]int{"short": 0, "longer than plain calls would be": 2000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, env := script(t, `
- expect: [As another generator documents it, "few_tool_0", "## few"]
  reject: [refly_tools.few, "Few("]
  output: [{text: "Read."}]
`)
			files := foreign()
			files["docs/demo.md"] += strings.Repeat("And more of it. ", length)
			s := serve(t, databasetest.URL(t, database.SQLite), slices.Concat(env, publish(t, files))...)
			s.apply(t, map[string]string{"few.yaml": strings.ReplaceAll(toolsetFile("few", 1, ""), "tool_0", "few_tool_0")})
			r := s.invoke(t, map[string]any{"query": "Go", "toolsets": []string{"demo", "few"}})
			require.Equal(t, "finish", r.Status, "%v", r.Errors)
			require.True(t, r.PTCEnabled)
			a := s.send(s.key, "GET", "/v1/ptc/context?toolsets=demo,few", nil)
			require.Contains(t, a.raw, `"missing":["few"]`)
		})
	}
}
