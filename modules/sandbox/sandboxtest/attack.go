package sandboxtest

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/sandbox"
)

// Attack tries programs that want more than they may have. Each states what
// the safe outcome is and checks it from outside where it can.
func (s Suite) Attack(t *testing.T) {
	s = s.sharing(t)
	each(t, map[string]func(t *testing.T){
		"identity":            s.testIdentity,
		"system calls":        s.testSystemCalls,
		"socket families":     s.testSocketFamilies,
		"network":             s.testNetwork,
		"loopback":            s.testLoopbackLeadsNowhereElse,
		"loopback flood":      s.testLoopbackFlood,
		"host files":          s.testHostFiles,
		"host processes":      s.testHostProcesses,
		"other executions":    s.testOtherExecutions,
		"open descriptors":    s.testDescriptors,
		"memory":              s.testMemory,
		"forks and threads":   s.testForks,
		"disk":                s.testDisk,
		"files":               s.testManyFiles,
		"open files":          s.testOpenFiles,
		"flood":               s.testFlood,
		"nothing survives":    s.testSurvivors,
		"the interpreter":     s.testInterpreter,
		"the control channel": s.testControl,
		"tool flood":          s.testToolFlood,
		"devices":             s.testDevices,
		"hostile outputs":     s.testHostileOutputs,
		"no trace":            s.testNoTrace,
		"spoiled stubs":       s.testSpoiledStubs,
		"garbage frames":      s.testFrameGarbage,
		"call flood":          s.testCallFlood,
		"uninterruptible":     s.testUninterruptible,
	})
}

// A program that ends leaves no process, however it hides.
func (s Suite) testSurvivors(t *testing.T) {
	mark := "portico-survivor-" + strconv.Itoa(os.Getpid())
	r := s.program(t, fmt.Sprintf(`
import os, signal, sys, time
for n in range(4):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for s in range(1, 32):
                try: signal.signal(s, signal.SIG_IGN)
                except (OSError, ValueError): pass
            os.execv("/usr/bin/python3", ["%s", "-c", "import time; time.sleep(600)"])
        os._exit(0)
time.sleep(0.3)
print("left")`, mark))
	require.Equal(t, "left\n", r.Stdout, r.Stderr)
	require.Empty(t, processes(t, mark))
}

// processes lists the host's processes whose command line holds a mark.
func processes(t *testing.T, mark string) []string {
	t.Helper()
	var found []string
	entries, err := os.ReadDir("/proc")
	require.NoError(t, err)
	for _, e := range entries {
		line, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err == nil && strings.Contains(string(line), mark) && e.Name() != strconv.Itoa(os.Getpid()) {
			found = append(found, e.Name())
		}
	}
	return found
}

// Programs that fight their own interpreter harm nobody else.
func (s Suite) testInterpreter(t *testing.T) {
	d := s.open(t, sandbox.Limits{})
	for name, code := range map[string]string{
		"recursion":   "import sys; sys.setrecursionlimit(10**9)\ndef f(): f()\nf()",
		"bytecode":    "exec(type((lambda: 0).__code__)(0, 0, 0, 0, 0, 0, b'\\x64\\x00' * 1000, (), (), (), '', '', '', 0, b'', b'', (), ()))",
		"closed":      "import os\nfor n in range(100):\n    try: os.close(n)\n    except OSError: pass\nraise ValueError",
		"no builtins": "import builtins\nfor n in list(vars(builtins)):\n    delattr(builtins, n)",
		"kill all":    "import os\nos.kill(-1, 9)",
		"kill init":   "import os\nfor s in (9, 15, 19, 11): os.kill(1, s)\nprint('alive')",
		"hooks":       "import sys, atexit\nsys.excepthook = None\natexit.register(lambda: 1/0)\nsys.stdout = None\nraise ValueError",
	} {
		r := run(t, d, sandbox.Job{Code: code, Timeout: 3 * time.Second})
		require.Less(t, r.Duration, 15*time.Second, "%s: %+v", name, r)
	}
	r := run(t, d, sandbox.Job{Code: "print('fine')"})
	require.Equal(t, "fine\n", r.Stdout)
}

// Neither the job nor anything of the host's side of it is left to read.
func (s Suite) testControl(t *testing.T) {
	r := run(t, s.open(t, sandbox.Limits{}), sandbox.Job{Env: map[string]string{"REFLY_TOOL_SERVICE_API_KEY": "rf_marker"}, Code: `
import gc, os, sys
for fd in range(3, 256):
    try: os.fstat(fd); print("open", fd, os.readlink("/proc/self/fd/%d" % fd))
    except OSError: pass
print(open("/proc/self/cmdline").read().replace("\0", " "))
print([k for k in vars(sys.modules["__main__"]) if not k.startswith("__")])
frame = sys._getframe()
names = set()
while frame: names |= set(frame.f_locals); frame = frame.f_back
print("job" in names)`})
	require.NotContains(t, r.Stdout, "open ")
	require.NotContains(t, r.Stdout, "rf_marker")
	require.True(t, strings.HasSuffix(r.Stdout, "False\n"), r.Stdout)
}

func (s Suite) testToolFlood(t *testing.T) {
	r := run(t, s.open(t, sandbox.Limits{}), sandbox.Job{
		Gateway: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }),
		Code: client + `
import time
sockets = []
try:
    for _ in range(200):
        s = socket.socket(socket.AF_UNIX); s.settimeout(1); s.connect("/run/portico/tool.sock"); sockets.append(s)
except OSError: pass
for s in sockets: s.close()
time.sleep(0.2)
print(call("/x"))
c = Connection("x", timeout=5); c.connect()
c.sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: " + b"x" * (2 << 20))
try: print(c.sock.recv(12))
except OSError: print("reset")`,
	})
	require.Contains(t, r.Stdout, "(200, 'ok')", r.Stderr)
}
