package sandboxtest

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/sandbox"
)

// What one program does to its interpreter, the next does not find: modules,
// built-ins, environment, folders, signal handlers.
func (s Suite) testNoTrace(t *testing.T) {
	d := s.open(t, sandbox.Limits{})
	// Of modules, those that every interpreter has imported.
	first := run(t, d, sandbox.Job{Env: map[string]string{"SECRET": "first"}, Code: `
import asyncio, builtins, csv, json, os, random, signal, socket, sys, threading
asyncio.sleep = csv.DictReader = json.dumps = None
builtins.evil = builtins.print
builtins.open = None
os.environ["EVIL"] = "1"
sys.modules["re"] = None
sys.path.insert(0, "/evil")
signal.signal(signal.SIGTERM, signal.SIG_IGN)
threading.excepthook = None
random.seed(1)
import portico_runtime.calls, portico_runtime.channel
portico_runtime.calls.rounds = portico_runtime.channel.current = "evil"
print("done")`})
	require.Equal(t, "done\n", first.Stdout, first.Stderr)
	second := run(t, d, sandbox.Job{Code: `
import asyncio, builtins, csv, json, os, re, signal, sys
print(callable(asyncio.sleep), callable(csv.DictReader), json.dumps(1), hasattr(builtins, "evil"), open("/etc/hostname", "a") if 0 else callable(open))
print(os.environ.get("EVIL"), os.environ.get("SECRET"), "/evil" in sys.path, signal.getsignal(signal.SIGTERM) == signal.SIG_DFL)
import portico_runtime.calls, portico_runtime.channel
print("evil" in (portico_runtime.calls.rounds, portico_runtime.channel.current))`})
	require.Equal(t, "True True 1 False True\nNone None False True\nFalse\n", second.Stdout, second.Stderr)
}

// spoiling is a program that spoils its own tools, and what comes of it.
type spoiling struct {
	code   string
	status sandbox.Status
	stdout string
}

// What one of another kind of sandbox could make worse.
func (s Suite) testSpoiledStubs(t *testing.T) {
	s.spoil(t, map[string]spoiling{
		"exit inside": {
			"import os, threading\nthreading.Timer(0.2, os._exit, (0,)).start()\nawait slow(n=1)",
			sandbox.Completed, "",
		},
		"closed channel": {
			"import os\nos.close(3)\ntry: get(n=1)\nexcept Exception as e: print(type(e).__name__)",
			sandbox.Completed, "ToolExecutionError\n",
		},
		"closed out": {
			"import os, sys\nos.close(1)\nsys.stdout = None\nget(n=1)",
			sandbox.Completed, "",
		},
		"crash inside": {
			"import ctypes, threading, time\nthreading.Timer(0.2, ctypes.string_at, (1,)).start()\nawait slow(n=1)",
			sandbox.Failed, "",
		},
	})
}

// A program may spoil its own tools, and nobody else's.
func (s Suite) testSpoiledTools(t *testing.T) {
	s.spoil(t, map[string]spoiling{
		"patched": {
			"get = lambda n: 'mine'\nprint(get(1))",
			sandbox.Completed, "mine\n",
		},
		"deleted": {
			"del get\ntry: get(1)\nexcept NameError: print('gone')",
			sandbox.Completed, "gone\n",
		},
		"json": {
			"import json\njson.dumps = None\ntry: get(n=1)\nexcept TypeError: print('own fault')",
			sandbox.Completed, "own fault\n",
		},
		"shadowed": {
			"import os\nos.mkdir('portico_runtime')\nopen('portico_runtime/__init__.py', 'w').write('raise SystemExit(9)')\nopen('json.py', 'w').write('raise SystemExit(9)')\nimport importlib, portico_runtime, json\nprint(get(n=1)['name'])",
			sandbox.Completed, "get-it\n",
		},
		"loop stopped": {
			"import asyncio\nasyncio.get_running_loop().stop()\nawait asyncio.sleep(0)\nprint(await get(n=1))",
			sandbox.Failed, "",
		},
		"no loop": {
			"import asyncio\nasyncio.set_event_loop_policy(None)\nprint((await get(n=1))['name'])",
			sandbox.Completed, "get-it\n",
		},
		"recursion": {
			"import sys\nsys.setrecursionlimit(60)\ndef f(n): return f(n - 1) if n else get(n=1)\ntry: print(f(30))\nexcept RecursionError: print('deep')",
			sandbox.Completed, "{'name': 'get-it', 'input': {'n': 1}}\n",
		},
	})
}

func (s Suite) spoil(t *testing.T, programs map[string]spoiling) {
	t.Helper()
	d := s.open(t, sandbox.Limits{})
	for name, test := range programs {
		h := &host{}
		list := append(stubs(), sandbox.Stub{Identifier: "slow", Name: "slow", Open: true})
		begin := time.Now()
		r := run(t, d, sandbox.Job{
			Code: test.code, Stubs: list, Timeout: 5 * time.Second,
			Gateway: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if strings.Contains(string(body), `"slow"`) {
					<-r.Context().Done()
					return
				}
				r.Body = io.NopCloser(strings.NewReader(string(body)))
				h.ServeHTTP(w, r)
			}),
		})
		require.Less(t, time.Since(begin), 20*time.Second, name)
		require.Equal(t, test.status, r.Status, "%s: %+v", name, r)
		require.Equal(t, test.stdout, r.Stdout, name)
	}
}

// What comes over the channel in ways that kinds of sandboxes have of their own.
func (s Suite) testFrameGarbage(t *testing.T) {
	s.garbage(t, map[string]string{
		"noise":        "os.write(3, os.urandom(100000))",
		"nobody reads": "for n in range(5000): os.write(3, frame({'id': n, 'path': '/x', 'headers': {}}))",
		"shut down":    "socket.socket(fileno=os.dup(3)).shutdown(2)",
		"descriptors":  "socket.send_fds(socket.socket(fileno=os.dup(3)), [b'x'], [0, 1, 2])",
		"out of band":  "socket.socket(fileno=os.dup(3)).send(b'x', socket.MSG_OOB)",
	})
}

// Whatever comes over the channel, the host takes it or hangs up: it is one
// reader for all drivers.
func (s Suite) testFrames(t *testing.T) {
	s.garbage(t, map[string]string{
		"long header": "os.write(3, struct.pack('>II', 1 << 31, 0))",
		"long body":   "os.write(3, struct.pack('>II', 2, 1 << 31) + b'{}')",
		"large body":  "os.write(3, struct.pack('>II', 2, 60 << 20) + b'{}' + b'x' * 1000)",
		"no JSON":     "os.write(3, struct.pack('>II', 3, 0) + b'{{{')",
		"a list":      "os.write(3, struct.pack('>II', 2, 0) + b'[]')",
		"half":        "os.write(3, b'ab')",
		"odd path":    "os.write(3, frame({'id': 1, 'path': 'http://evil/x', 'headers': {}}))",
		"bad path":    "os.write(3, frame({'id': 1, 'path': '%zz\\n', 'headers': {}}))",
		"bad headers": "os.write(3, frame({'id': 1, 'path': '/x', 'headers': {'a\\nb': 'c\\r\\nd'}}))",
		"same ids":    "for _ in range(50): os.write(3, frame({'id': 1, 'path': '/x', 'headers': {}}))",
		"negative id": "os.write(3, frame({'id': -1, 'path': '/x', 'headers': {}}))",
	})
}

func (s Suite) garbage(t *testing.T, programs map[string]string) {
	t.Helper()
	var served atomic.Int64
	gateway := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served.Add(1)
		fmt.Fprintf(w, "%s %s", r.URL.Path, r.Header.Get("X-API-Key"))
	})
	d := s.open(t, sandbox.Limits{})
	for name, code := range programs {
		r := run(t, d, sandbox.Job{Gateway: gateway, Timeout: 3 * time.Second, Code: `
import json, os, socket, struct
def frame(head, body=b""):
    text = json.dumps(head).encode()
    return struct.pack(">II", len(text), len(body)) + text + body
try:
    ` + strings.ReplaceAll(code, "\n", "\n    ") + `
except OSError: pass
print("on")`})
		require.Contains(t, []sandbox.Status{sandbox.Completed, sandbox.TimedOut}, r.Status, "%s: %+v", name, r)
		require.Less(t, r.Duration, 10*time.Second, name)
	}
	r := run(t, d, sandbox.Job{Gateway: gateway, Code: "from portico_runtime import channel\nprint(channel.request('/x', {'X-API-Key': 'k'}, b'{}')[2])"})
	require.Equal(t, "b'/x k'\n", r.Stdout, r.Stderr)
}

// A flood of calls is taken a few at a time and costs nobody else anything.
func (s Suite) testCallFlood(t *testing.T) {
	var running, most atomic.Int64
	r := run(t, s.open(t, sandbox.Limits{}), sandbox.Job{
		Stubs: []sandbox.Stub{{Identifier: "get", Name: "get", Toolset: "x", Open: true}}, Timeout: 30 * time.Second,
		Gateway: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			fmt.Fprintf(w, `{"success":true,"data":{"status":"success","data":%q}}`, strings.Repeat("y", 20_000))
		}),
		// Large both ways, so that neither side can send all before it reads.
		Code: "rs = await asyncio.gather(*[get(n='x' * 20000) for n in range(1500)])\nprint(sum(len(r) for r in rs))",
	})
	require.Equal(t, "30000000\n", r.Stdout, r.Stderr)
	require.LessOrEqual(t, most.Load(), int64(64))
}

// A process that waits where signals do not reach it is killed all the same.
func (s Suite) testUninterruptible(t *testing.T) {
	d := s.open(t, sandbox.Limits{})
	for name, code := range map[string]string{
		"vfork":   "import ctypes, time\nif ctypes.CDLL(None).vfork() == 0:\n    while True: time.sleep(1)",
		"stopped": "import os, signal\nif os.fork() == 0:\n    os.kill(os.getppid(), signal.SIGSTOP)\n    while True: pass\nwhile True: pass",
		"pipe":    "import os\nr, w = os.pipe()\nos.read(r, 1)",
		"futex":   "import threading\nl = threading.Lock(); l.acquire(); l.acquire()",
	} {
		begin := time.Now()
		r := run(t, d, sandbox.Job{Code: code, Timeout: 500 * time.Millisecond})
		require.Equal(t, sandbox.TimedOut, r.Status, name)
		require.Less(t, time.Since(begin), 10*time.Second, name)
	}
	r := s.program(t, `print(open("/proc/self/oom_score_adj").read().strip())`)
	require.Equal(t, "1000\n", r.Stdout, "the kernel would rather kill the server")
}
