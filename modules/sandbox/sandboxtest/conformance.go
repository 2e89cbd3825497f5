// Package sandboxtest holds what every driver must do, and what no program may
// do under any of them. Drivers run it in their tests.
package sandboxtest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/sandbox"
)

// Suite runs programs on a driver.
type Suite struct {
	// New makes a driver with the given limits.
	New func(t *testing.T, l sandbox.Limits) sandbox.Driver
	// NewIn makes one whose folder is below dir.
	NewIn func(t *testing.T, dir string) sandbox.Driver
	// OwnKernel says that each sandbox has a kernel of its own.
	OwnKernel bool

	shared sandbox.Driver // serves every test under default limits, if it is there
}

// sharing is the suite with one driver for all its tests under default limits, as
// a server has one for all its users.
func (s Suite) sharing(t *testing.T) Suite {
	t.Helper()
	s.shared = s.open(t, sandbox.Limits{})
	return s
}

// open starts a driver for one test, or gives it the one that is shared.
func (s Suite) open(t *testing.T, l sandbox.Limits) sandbox.Driver {
	t.Helper()
	if s.shared != nil && l == (sandbox.Limits{}) {
		return s.shared
	}
	d := s.New(t, l)
	require.NoError(t, d.Open(t.Context()))
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// run runs one job in an interpreter of its own.
func run(t *testing.T, d sandbox.Driver, job sandbox.Job) sandbox.Result {
	t.Helper()
	return runUntil(t.Context(), t, d, job)
}

func runUntil(ctx context.Context, t *testing.T, d sandbox.Driver, job sandbox.Job) sandbox.Result {
	t.Helper()
	if job.Timeout == 0 {
		job.Timeout = 20 * time.Second
	}
	c, err := d.Start(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	r, err := c.Run(ctx, job)
	require.NoError(t, err)
	return r
}

// program runs Python under default limits.
func (s Suite) program(t *testing.T, code string) sandbox.Result {
	t.Helper()
	return run(t, s.open(t, sandbox.Limits{}), sandbox.Job{Code: code})
}

// Conformance tests what programs can rely on, as far as it is the driver's
// doing.
func (s Suite) Conformance(t *testing.T) {
	s = s.sharing(t)
	each(t, map[string]func(t *testing.T){
		"output":       s.testOutput,
		"exit codes":   s.testExitCodes,
		"tracebacks":   s.testTracebacks,
		"source":       s.testSource,
		"environment":  s.testEnvironment,
		"SDK files":    s.testFiles,
		"folders":      s.testFolders,
		"inputs":       s.testInputs,
		"read-only":    s.testReadOnlyInputs,
		"outputs":      s.testOutputs,
		"gateway":      s.testGateway,
		"no gateway":   s.testNoGateway,
		"late calls":   s.testLateCalls,
		"timeout":      s.testTimeout,
		"cancel":       s.testCancel,
		"output limit": s.testOutputLimit,
		"odd output":   s.testOddOutput,
		"single use":   s.testSingleUse,
		"randomness":   s.testRandomness,
		"side by side": s.testSideBySide,
		"threads":      s.testThreads,
		"bash":         s.testBash,
		"javascript":   s.testJavaScript,
		"clock":        s.testClock,
		"together":     s.testTogether,
		"loopback":     s.testLoopback,
		"direct calls": s.testDirectCalls,
		"bash calls":   s.testBashCalls,
		"node calls":   s.testNodeCalls,
		"cells":        s.testCells,
	})
}

// Packages tests what the root brings. Drivers with one kernel and one way to
// bound memory run the same, so that one of them tests it for all.
func (s Suite) Packages(t *testing.T) {
	s = s.sharing(t)
	each(t, map[string]func(t *testing.T){
		"standard libs": s.testLibraries,
		"data science":  s.testDataScience,
		"packages":      s.testPackages,
		"processors":    s.testProcessors,
		"figures":       s.testFigures,
	})
}

// Language tests what the runtime inside makes of a program. Every driver runs
// the same one, so that one of them tests it for all.
func (s Suite) Language(t *testing.T) {
	s = s.sharing(t)
	each(t, map[string]func(t *testing.T){
		"await":         s.testAwait,
		"rounds":        s.testRounds,
		"node":          s.testNode,
		"spoiled tools": s.testSpoiledTools,
		"frames":        s.testFrames,
		"typescript":    s.testTypeScript,
		"call styles":   s.testCallStyles,
		"spaces":        s.testSpaces,
		"spaces js":     s.testSpacesInJavaScript,
		"each":          s.testEach,
		"call errors":   s.testCallErrors,
		"plain values":  s.testPlainValues,
		"later values":  s.testLaterValues,
		"failures":      s.testFailures,
		"the package":   s.testPackage,
		"known names":   s.testKnownNames,
		"wrong code":    s.testWrongCode,
		"arguments":     s.testArguments,
		"bash failures": s.testBashFailures,
		"bash checks":   s.testBashChecks,
	})
}

func each(t *testing.T, tests map[string]func(t *testing.T)) {
	t.Helper()
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

func (s Suite) testEnvironment(t *testing.T) {
	r := run(t, s.open(t, sandbox.Limits{}), sandbox.Job{
		Code: `import os, json; print(json.dumps(dict(os.environ)))`,
		Env:  map[string]string{"REFLY_RESULT_ID": "ar-1", "LANG": "C"},
	})
	var env map[string]string
	require.NoError(t, json.Unmarshal([]byte(r.Stdout), &env))
	require.Equal(t, map[string]string{
		"PATH": "/usr/bin", "HOME": "/mnt/data", "LANG": "C", "TMPDIR": "/tmp", "REFLY_RESULT_ID": "ar-1",
		"MPLBACKEND": "module://portico_figures", "MPLCONFIGDIR": "/tmp/.matplotlib", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1",
		"MALLOC_ARENA_MAX": "2",
	}, env)
	// The environment that the kernel shows is not more.
	r = s.program(t, `print(open("/proc/self/environ").read())`)
	require.NotContains(t, r.Stdout, "GOPATH")
	require.NotContains(t, r.Stdout, "PORTICO")
}

// client is Python that speaks HTTP over the tool socket.
const client = `
import http.client, socket, threading
class Connection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect("/run/portico/tool.sock")
local = threading.local()
def call(path, body=""):
    if not hasattr(local, "c"):
        local.c = Connection("tools")
    local.c.request("POST", path, body)
    r = local.c.getresponse()
    return r.status, r.read().decode()
`

func (s Suite) testGateway(t *testing.T) {
	var calls atomic.Int64
	r := run(t, s.open(t, sandbox.Limits{}), sandbox.Job{
		Gateway: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			calls.Add(1)
			body, _ := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%s %s", r.URL.Path, body)
		}),
		Code: client + `
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(8) as pool:
    results = list(pool.map(lambda n: call("/p%d" % n, "b%d" % n), range(100)))
assert results == [(200, "/p%d b%d" % (n, n)) for n in range(100)], results
print("ok")
`,
	})
	require.Equal(t, "ok\n", r.Stdout, r.Stderr)
	require.Equal(t, int64(100), calls.Load())
}

func (s Suite) testNoGateway(t *testing.T) {
	r := s.program(t, client+`
try:
    call("/x")
except OSError as e:
    print(type(e).__name__)`)
	require.Equal(t, "FileNotFoundError\n", r.Stdout)
}

// A call that is under way when its program dies is ended, and Run returns
// after it.
func (s Suite) testLateCalls(t *testing.T) {
	began := make(chan struct{})
	var ended atomic.Bool
	r := run(t, s.open(t, sandbox.Limits{}), sandbox.Job{
		Gateway: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			close(began)
			<-r.Context().Done()
			ended.Store(true)
		}),
		Code: client + `
import os
threading.Thread(target=call, args=("/x",)).start()
import time; time.sleep(0.3)
os._exit(4)`,
	})
	<-began
	require.Equal(t, 4, r.ExitCode)
	require.True(t, ended.Load(), "Run returned before the call")
}

func (s Suite) testTimeout(t *testing.T) {
	d := s.open(t, sandbox.Limits{})
	for name, code := range map[string]string{
		"spinning": `while True: pass`,
		"sleeping": `import time; time.sleep(1000)`,
		"deaf":     "import signal\nfor n in range(1, 65):\n    try: signal.signal(n, signal.SIG_IGN)\n    except (OSError, ValueError): pass\nwhile True: pass",
		"forking":  "import os\nfor _ in range(5):\n    if os.fork() == 0: os.setsid()\nwhile True: pass",
		"in C":     `"a" * 3; import re; re.match("(a+)+$", "a" * 60 + "b")`,
	} {
		begin := time.Now()
		r := run(t, d, sandbox.Job{Code: "print('before', flush=True)\n" + code, Timeout: 500 * time.Millisecond})
		require.Equal(t, sandbox.TimedOut, r.Status, name)
		require.Equal(t, sandbox.ExitTimedOut, r.ExitCode, name)
		require.Equal(t, "before\n", r.Stdout, name)
		require.Less(t, time.Since(begin), 10*time.Second, name)
		require.GreaterOrEqual(t, r.Duration, 500*time.Millisecond)
	}
}

func (s Suite) testCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := runUntil(ctx, t, s.open(t, sandbox.Limits{}), sandbox.Job{
		Code:   "print('before', flush=True)\nimport time; time.sleep(1000)",
		Output: func(sandbox.Stream, string) { cancel() },
	})
	require.Equal(t, sandbox.Cancelled, r.Status)
	require.Equal(t, sandbox.ExitKilled, r.ExitCode)
	require.Equal(t, "before\n", r.Stdout)
}

func (s Suite) testSingleUse(t *testing.T) {
	d := s.open(t, sandbox.Limits{})
	c, err := d.Start(t.Context())
	require.NoError(t, err)
	_, err = c.Run(t.Context(), sandbox.Job{Code: "pass", Timeout: time.Second})
	require.NoError(t, err)
	_, err = c.Run(t.Context(), sandbox.Job{Code: "pass", Timeout: time.Second})
	require.ErrorIs(t, err, sandbox.ErrCapsuleGone)
	require.NoError(t, c.Close())
	require.NoError(t, c.Close())

	// What one leaves, the next does not find.
	r := run(t, d, sandbox.Job{Code: "open('/tmp/left', 'w'); open('/mnt/data/left', 'w'); open('/dev/shm/left', 'w')"})
	require.Equal(t, sandbox.Completed, r.Status, r.Stderr)
	r = run(t, d, sandbox.Job{Code: "import os; print(os.listdir('/tmp'), os.listdir('/mnt/data'), os.listdir('/dev/shm'))"})
	require.Equal(t, "[] [] []\n", r.Stdout)
}

func (s Suite) testRandomness(t *testing.T) {
	d := s.open(t, sandbox.Limits{})
	seen := map[string]bool{}
	for range 3 {
		r := run(t, d, sandbox.Job{Code: "import random, uuid, os; print(random.random(), uuid.uuid4(), os.urandom(8).hex())"})
		for word := range strings.FieldsSeq(r.Stdout) {
			require.False(t, seen[word], "%s came twice", word)
			seen[word] = true
		}
	}
}

func (s Suite) testSideBySide(t *testing.T) {
	d := s.open(t, sandbox.Limits{})
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			c, err := d.Start(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			r, err := c.Run(t.Context(), sandbox.Job{Code: fmt.Sprintf("open('x','w').write('%d'); print(open('x').read())", n), Timeout: 20 * time.Second})
			if err != nil || r.Stdout != fmt.Sprintf("%d\n", n) {
				t.Errorf("%d: %+v %v", n, r, err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

func (s Suite) testThreads(t *testing.T) {
	r := s.program(t, `
import threading
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(32) as pool:
    print(sum(pool.map(lambda n: n * n, range(1000))))
def broken(): raise ValueError("in a thread")
thread = threading.Thread(target=broken, name="worker"); thread.start(); thread.join()
print("goes on")`)
	require.Equal(t, "332833500\ngoes on\n", r.Stdout)
	require.Contains(t, r.Stderr, "Exception in thread worker")
	require.Equal(t, 0, r.ExitCode)
}

func (s Suite) testLibraries(t *testing.T) {
	r := s.program(t, `
import asyncio, bz2, csv, datetime, decimal, hashlib, json, lzma, math, re, sqlite3, ssl, statistics, subprocess, unicodedata, urllib.request, xml.dom.minidom, zlib, zoneinfo
print(hashlib.sha256(b"").hexdigest()[:8], sqlite3.connect(":memory:").execute("select 1").fetchone(), asyncio.run(asyncio.sleep(0, 5)))`)
	require.Equal(t, "e3b0c442 (1,) 5\n", r.Stdout, r.Stderr)
}

// listen serves on the host's loopback for programs that should not reach it.
func listen(t *testing.T) (address string, reached *atomic.Bool) {
	t.Helper()
	reached = &atomic.Bool{}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			reached.Store(true)
			c.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return l.Addr().String(), reached
}
