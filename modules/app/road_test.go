package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/internal/database"
	"github.com/portico-run/portico/modules/internal/database/databasetest"
)

// foreign is a package as another generator writes it: no manifest, plain HTTP
// of the standard library, an exception of its own.
const foreign = `
import json, os, urllib.request

class ToolError(Exception):
    pass

class Demo:
    @staticmethod
    def _execute(tool, arguments):
        request = urllib.request.Request(
            os.environ["REFLY_TOOL_SERVICE_API_URL"] + "/v1/tool/execute",
            json.dumps({"toolsetKey": "demo", "toolName": tool, "arguments": arguments}).encode(),
            {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["REFLY_TOOL_SERVICE_API_KEY"],
             "x-ptc-call-id": os.environ["REFLY_PTC_CALL_ID"], "x-refly-result-id": os.environ["REFLY_RESULT_ID"]})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)["data"]

    @classmethod
    def list_cities(cls, file_name_title):
        return cls._execute("list_cities", {"file_name_title": file_name_title})

    @classmethod
    def fail(cls, **arguments):
        answer = cls._execute("fail", arguments)
        if answer["status"] == "error":
            raise ToolError(answer["error"])
        return answer
`

const usesForeign = `
from refly_tools import ToolExecutionError
from refly_tools.demo import Demo, ToolError
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(4) as pool:
    print([a["status"] for a in pool.map(Demo.list_cities, "abcd")])
try: Demo.fail(code="X", message="no", file_name_title="f")
except ToolError as e: print(type(e).__name__)
print(ToolExecutionError.__name__)
import subprocess
print(subprocess.run(["bash", "-c", """exec 5<>/dev/tcp/127.0.0.1/5800
body='{"toolsetKey":"demo","toolName":"list_cities","arguments":{"file_name_title":"x"}}'
printf 'POST /v1/tool/execute HTTP/1.0\\r\\nX-API-Key: %s\\r\\nContent-Type: application/json\\r\\nContent-Length: %d\\r\\n\\r\\n%s' "$REFLY_TOOL_SERVICE_API_KEY" "${#body}" "$body" >&5
head -1 <&5"""], capture_output=True, text=True).stdout.strip())
`

// A package of another toolchain runs unchanged in every kind of sandbox: it
// speaks plain HTTP to the address in the environment.
func TestPackagesOfOtherToolchains(t *testing.T) {
	t.Parallel()
	for name, more := range map[string][]string{
		"forkserver": nil,
		"bubblewrap": {"SANDBOX_DRIVER=bubblewrap"},
		"gvisor":     {"SANDBOX_DRIVER=gvisor", "SANDBOX_RUNSC=" + os.Getenv("PORTICO_RUNSC")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storage := t.TempDir()
			for file, content := range map[string]string{"__init__.py": "", "demo.py": foreign, "docs/demo.md": "# Demo\n"} {
				path := filepath.Join(storage, "sdk/v7/refly_tools", file)
				require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
				require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
			}
			more = append(more, "OBJECT_STORAGE_FOLDER="+storage, "SANDBOX_S3LIB_PATH_PREFIX=sdk", "SANDBOX_S3LIB_HASH=v7")
			s := serve(t, databasetest.URL(t, database.SQLite), more...)
			o := s.run(map[string]any{"code": usesForeign, "toolsets": []string{"demo"}})
			require.Equal(t, "completed", o.Status, o.Stderr)
			require.Equal(t, "['success', 'success', 'success', 'success']\nToolError\nToolExecutionError\nHTTP/1.0 200 OK\n", o.Stdout, o.Stderr)
			require.Len(t, o.ToolCalls, 6)
			require.Equal(t, 6, s.count("SELECT count(*) FROM tool_call_results WHERE ptc_call_id = ?", o.CallID), "they are this program's")
		})
	}
}

// What a program gets of its tools, in both styles and awaited or not.
func TestStylesOfCalls(t *testing.T) {
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
