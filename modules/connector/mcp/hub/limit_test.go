package hub_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/connector/mcp/hub"
	"github.com/portico-run/portico/modules/connector/mcp/hubtest"
	"github.com/portico-run/portico/modules/connector/mcp/server"
	"github.com/portico-run/portico/modules/connector/mcp/stdio"
	"github.com/portico-run/portico/modules/sandbox/guest"
)

// greedy is a server with tools that take too much: memory, or processes. With
// AT_ONCE it does so before it has said a word.
const greedy = `
import json, os, sys, time
def memory():
    rows = []
    while True: rows.append(bytearray(os.urandom(1 << 20)))
def processes():
    while True:
        if os.fork() == 0: os.closerange(0, 9), time.sleep(600) # and hold no channel
def child(): # it holds the output of its parent, which ends
    if os.fork(): os._exit(1)
    time.sleep(600)
if os.environ.get("AT_ONCE"): memory()
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m: continue
    r = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "greedy", "version": "1"}}
    if m["method"] == "server/discover":
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "error": {"code": -32601, "message": "no"}}), flush=True); continue
    if m["method"] == "tools/list": r = {"tools": [{"name": n, "inputSchema": {"type": "object"}} for n in ("memory", "processes", "little", "child")]}
    if m["method"] == "tools/call":
        {"memory": memory, "processes": processes, "little": bool, "child": child}[m["params"]["name"]]()
        r = {"content": [{"type": "text", "text": "done"}]}
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}), flush=True)
`

// A server is gone when its first process is, whatever that has started.
func TestAServerEndsWithItsFirstProcess(t *testing.T) {
	t.Parallel()
	f := open(t, func(s *hub.Settings) { s.Call = time.Minute })
	s := server.Server{Name: "parent", Transport: server.Stdio, Command: "/usr/bin/python3", Args: []string{"-c", greedy}, Version: "1"}
	_, failure := f.call(s, "child", `{}`)
	require.NotNil(t, failure)
	require.Contains(t, failure.Message, "ended the connection before it answered")
}

// A server that is a process and takes more memory, or more processes, than
// MCP_MEMORY and MCP_PROCESSES allow ends alone, with that reason; all that it
// started ends, others go on, and it is started again.
func TestAServerOverItsLimitsEndsAlone(t *testing.T) {
	testenv.Slow(t, "uses up memory")
	t.Parallel()
	if os.Geteuid() != 0 && guest.OpenGroups() == nil {
		t.Skip("this user may not make control groups, which count what a server has")
	}
	for _, sandbox := range []bool{false, true} { // one after the other: what they take is taken from other tests
		overLimits(t, sandbox)
	}
}

func overLimits(t *testing.T, sandbox bool) {
	t.Helper()
	f := openWithin(t, 256<<20, nil)
	if sandbox {
		testenv.Sandbox(t, guest.DefaultRoot(map[string]string{"HOME": os.Getenv("HOME"), "XDG_DATA_HOME": os.Getenv("XDG_DATA_HOME")}))
		for dir := f.dir; dir != os.TempDir(); dir = filepath.Dir(dir) {
			require.NoError(t, os.Chmod(dir, 0o711)) // isolated servers have users of their own
		}
	}
	other := hubtest.Process(t, "other", hubtest.Good)
	before := f.where(other).PID
	for tool, setting := range map[string]stdio.Limit{"memory": stdio.MemoryLimit, "processes": stdio.ProcessLimit} {
		s := server.Server{Name: tool, Transport: server.Stdio, Sandbox: sandbox, Command: "/usr/bin/python3", Args: []string{"-c", greedy}, Version: "1"}
		_, failure := f.call(s, "little", `{}`)
		require.Nil(t, failure, "%v %s", failure, f.Health(anna(), s).Stderr)
		_, failure = f.call(s, tool, `{}`)
		require.NotNil(t, failure)
		require.Equal(t, hub.CodeLimit, failure.Code, "%s: %s %s", tool, failure.Message, f.Health(anna(), s).Stderr)
		require.Contains(t, failure.Message, "MCP server "+tool+" ended: it ")
		require.Contains(t, failure.Message, "("+string(setting)+")")
		require.Eventually(t, func() bool { return f.Health(anna(), s).State == server.Degraded }, 30*time.Second, 5*time.Millisecond)
		require.Contains(t, f.Health(anna(), s).Reason, string(setting))
		require.Equal(t, before, f.where(other).PID, "another server is the same process as before")
		require.Eventually(t, func() bool {
			_, failure := f.call(s, "little", `{}`)
			return failure == nil
		}, 60*time.Second, 50*time.Millisecond, "it is started again")
	}
	early := server.Server{Name: "early", Transport: server.Stdio, Sandbox: sandbox, Command: "/usr/bin/python3", Args: []string{"-c", greedy}, Env: map[string]string{"AT_ONCE": "1"}, Version: "1"}
	_, failure := f.call(early, "little", `{}`)
	require.NotNil(t, failure)
	require.Equal(t, hub.CodeLimit, failure.Code, failure.Message)
	require.True(t, strings.Contains(failure.Message, string(stdio.MemoryLimit)), failure.Message)
	require.Equal(t, before, f.where(other).PID)
}
