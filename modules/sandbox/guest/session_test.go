package guest_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/bubblewrap"
	"github.com/portico-run/portico/modules/sandbox/guest"
	"github.com/portico-run/portico/modules/sandbox/sandboxtest"
)

// open starts the driver that has the least of its own: nearly all of what runs
// is this package's.
func open(t *testing.T, l sandbox.Limits) *bubblewrap.Driver {
	t.Helper()
	testenv.Sandbox(t, sandboxtest.Root())
	d, err := bubblewrap.New(guest.Config{Root: sandboxtest.Root(), Limits: l})
	require.NoError(t, err)
	require.NoError(t, d.Open(t.Context()))
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

func run(ctx context.Context, t *testing.T, d *bubblewrap.Driver, job sandbox.Job) sandbox.Result {
	t.Helper()
	if job.Timeout == 0 {
		job.Timeout = time.Minute
	}
	c, err := d.Start(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	r, err := c.Run(ctx, job)
	require.NoError(t, err)
	return r
}

func known(content string) func(string) (int64, [sha256.Size]byte, bool) {
	return func(string) (int64, [sha256.Size]byte, bool) {
		return int64(len(content)), sha256.Sum256([]byte(content)), true
	}
}

// A job goes in with its files, arguments and environment, and what it leaves
// comes back within the limits.
func TestAJobGoesInAndComesBack(t *testing.T) {
	t.Parallel()
	d := open(t, sandbox.Limits{})
	require.Contains(t, d.Languages(), sandbox.Python)
	var lines []string
	r := run(t.Context(), t, d, sandbox.Job{
		Code: `
import os, sys
from refly_tools.deep import mod
print(sys.argv[1:], os.environ["NAME"], mod.VALUE, open("in/a.txt").read(), open("fixed").read())
try: open("fixed", "a")
except PermissionError: print("read-only", file=sys.stderr)
open("in/a.txt", "a").write("!")
open("made", "w").write("x" * 10)
os.symlink("/etc/passwd", "link")
os.mkfifo("pipe")
open("bad\nname", "w").close()
os.makedirs("/".join("d" * 20))
open("large", "wb").truncate(2 << 20)`,
		Args: []string{"a", "b"}, Env: map[string]string{"NAME": "value"},
		Files: []sandbox.File{{Path: "__init__.py"}, {Path: "deep/__init__.py"}, {Path: "deep/mod.py", Content: []byte("VALUE = 7")}},
		Inputs: []sandbox.File{
			{Path: "in/a.txt", Content: []byte("hello")},
			{Path: "fixed", Content: []byte("fixed"), ReadOnly: true},
			{Path: "same", Size: 5, Open: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("fixed")), nil }},
		},
		Collect: sandbox.Collect{MaxFiles: 10, MaxBytes: 1 << 20, Known: known("fixed")},
		Output:  func(s sandbox.Stream, line string) { lines = append(lines, fmt.Sprintf("%s %s", s, line)) },
	})
	require.Equal(t, sandbox.Completed, r.Status, r.Stderr)
	require.Equal(t, "['a', 'b'] value 7 hello fixed\n", r.Stdout)
	require.ElementsMatch(t, []string{"stdout ['a', 'b'] value 7 hello fixed", "stderr read-only"}, lines)
	got := map[string]string{}
	for _, f := range r.Outputs {
		got[f.Path] = string(f.Content)
		require.Equal(t, f.Path == "fixed" || f.Path == "same", f.Unchanged, f.Path)
	}
	require.Equal(t, map[string]string{"fixed": "", "same": "", "in/a.txt": "hello!", "made": "xxxxxxxxxx"}, got)
	require.Equal(t, 5, r.OutputsDropped, "a link, a pipe, a name with a line end, a folder that is too deep and a file that is too large")
}

func TestInputsThatDoNotFit(t *testing.T) {
	t.Parallel()
	d := open(t, sandbox.Limits{Disk: 4 << 20})
	gone := fmt.Errorf("the storage is gone")
	stream := func(content string, err error) func(context.Context) (io.ReadCloser, error) {
		return func(context.Context) (io.ReadCloser, error) {
			return io.NopCloser(io.MultiReader(strings.NewReader(content), broken{err})), nil
		}
	}
	for name, c := range map[string]struct {
		files []sandbox.File
		want  error
		text  string
	}{
		"too large":         {[]sandbox.File{{Path: "a", Content: make([]byte, 8<<20)}}, sandbox.ErrInvalidJob, ""},
		"a file and folder": {[]sandbox.File{{Path: "a"}, {Path: "a/b"}}, sandbox.ErrInvalidJob, ""},
		"shorter than said": {[]sandbox.File{{Path: "a", Size: 5, Open: stream("1", io.EOF)}}, nil, "an input has 1 bytes, not 5"},
		"longer than said":  {[]sandbox.File{{Path: "a", Size: 1, Open: stream("12345", io.EOF)}}, nil, "an input has 2 bytes, not 1"},
		"unreadable":        {[]sandbox.File{{Path: "a", Size: 5, Open: stream("1", gone)}}, gone, ""},
		"not there":         {[]sandbox.File{{Path: "a", Open: func(context.Context) (io.ReadCloser, error) { return nil, gone }}}, gone, ""},
	} {
		c2, err := d.Start(t.Context())
		require.NoError(t, err)
		_, err = c2.Run(t.Context(), sandbox.Job{Code: "x", Timeout: time.Minute, Inputs: c.files})
		require.Error(t, err, name)
		if c.want != nil {
			require.ErrorIs(t, err, c.want, name)
		}
		require.ErrorContains(t, err, c.text, name)
		require.NoError(t, c2.Close())
	}
}

type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

// A program reaches its gateway over the descriptor, the socket and its own
// loopback, with small and with large answers, and nobody else's.
func TestAProgramReachesItsGateway(t *testing.T) {
	t.Parallel()
	d := open(t, sandbox.Limits{})
	var calls atomic.Int64
	large := strings.Repeat("x", 2<<20)
	gateway := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/large":
			w.Header().Set("Content-Length", fmt.Sprint(len(large)))
			_, _ = io.WriteString(w, large)
		case "/short":
			w.Header().Set("Content-Length", fmt.Sprint(len(large)))
			_, _ = io.WriteString(w, "x")
		case "/abort":
			panic(http.ErrAbortHandler)
		default:
			w.Header().Set("X-Name", r.Header.Get("X-Name"))
			w.WriteHeader(http.StatusTeapot)
			_, _ = w.Write(body)
		}
	})
	r := run(t.Context(), t, d, sandbox.Job{Gateway: gateway, Loopback: true, Code: `
import http.client, socket
from portico_runtime import channel
status, headers, body = channel.request("/echo", {"X-Name": "n"}, b"over the descriptor")
print(status, headers["X-Name"], bytes(body).decode())
print(len(channel.request("/large", {}, b"")[2]), channel.request("/abort", {}, b"")[0], channel.request("%zz", {}, b"")[0])
class Unix(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX); self.sock.connect("/run/portico/tool.sock")
for c in Unix("x"), http.client.HTTPConnection("127.0.0.1", 5800):
    c.request("POST", "/echo", "over HTTP")
    a = c.getresponse()
    print(a.status, a.read().decode())
try: print(len(channel.request("/short", {}, b"")[2]))
except Exception as e: print("broke off")`})
	require.Equal(t, "418 n over the descriptor\n2097152 502 400\n418 over HTTP\n418 over HTTP\nbroke off\n", r.Stdout, r.Stderr)
	require.EqualValues(t, 6, calls.Load())
	r = run(t.Context(), t, d, sandbox.Job{Gateway: gateway, Code: "import os\nos.write(3, b'\\xff' * 8)\nprint('no frame')"})
	require.Equal(t, "no frame\n", r.Stdout, r.Stderr)
	require.EqualValues(t, 6, calls.Load())
	r = run(t.Context(), t, d, sandbox.Job{Code: "import os\nprint(os.path.exists('/run/portico/tool.sock'))"})
	require.Equal(t, "False\n", r.Stdout)
}

// A call whose answer breaks off was made, and the program is told so.
func TestAnAnswerThatIsLost(t *testing.T) {
	t.Parallel()
	gateway := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(2<<20))
		_, _ = io.WriteString(w, "x")
	})
	r := run(t.Context(), t, open(t, sandbox.Limits{}), sandbox.Job{
		Gateway: gateway, Stubs: []sandbox.Stub{{Identifier: "pay", Name: "pay", Toolset: "x"}},
		Code: "for _ in range(2):\n    try: pay()\n    except ToolExecutionError as e: print(e.code, e)",
	})
	calls := strings.Split(strings.TrimSpace(r.Stdout), "\n")
	require.Len(t, calls, 2, "one over the descriptor, and one over the socket: %s", r.Stderr)
	for _, said := range calls {
		require.Contains(t, said, "E0001 the answer to the call was lost: ")
		require.Contains(t, said, " The tool may still have run: check its effect before calling it again.")
	}
}

// What goes over a limit is ended, and its author is told which.
func TestLimitsEndPrograms(t *testing.T) {
	t.Parallel()
	d := open(t, sandbox.Limits{Memory: 256 << 20, Inodes: 300, Output: 1 << 10, Disk: 64 << 20})
	for name, c := range map[string]struct {
		code    string
		status  sandbox.Status
		exit    int
		stderr  string
		timeout time.Duration
	}{
		"time":      {"while True: pass", sandbox.TimedOut, sandbox.ExitTimedOut, "", time.Second},
		"files":     {"import time\nfor n in range(2000): open(str(n), 'w').close()\ntime.sleep(600)", sandbox.Killed, sandbox.ExitKilled, "more than 300 files", 0},
		"memory":    {"x = bytearray(1 << 30)", sandbox.OutOfMemory, 1, "MemoryError", 0},
		"a signal":  {"import os\nos.kill(os.getpid(), 9)", sandbox.Killed, sandbox.ExitKilled, "", 0},
		"its own":   {"raise SystemExit(3)", sandbox.Failed, 3, "", 0},
		"processes": {"import os, time\nx = [bytearray(100 << 20)]\nfor n in range(5):\n    if os.fork() == 0:\n        x.append(bytearray(b'x') * (100 << 20)); time.sleep(600)\ntime.sleep(600)", sandbox.OutOfMemory, sandbox.ExitKilled, "MiB of memory in use", 0},
	} {
		r := run(t.Context(), t, d, sandbox.Job{Code: c.code, Timeout: c.timeout})
		require.Equal(t, c.status, r.Status, "%s: %s", name, r.Stderr)
		require.Equal(t, c.exit, r.ExitCode, name)
		require.Contains(t, r.Stderr, c.stderr, name)
	}
	r := run(t.Context(), t, d, sandbox.Job{Code: "print('first')\nfor n in range(1000): print(n)\nprint('last')"})
	require.True(t, strings.HasPrefix(r.Stdout, "first\n"))
	require.True(t, strings.HasSuffix(r.Stdout, "999\nlast\n"))
	require.Positive(t, r.StdoutDropped)
}

// What a paused job computes all the same counts.
func TestPausedJobsMayNotCompute(t *testing.T) {
	t.Parallel()
	d := open(t, sandbox.Limits{})
	clock := sandbox.NewClock()
	clock.Pause()
	r := run(t.Context(), t, d, sandbox.Job{Clock: clock, Timeout: time.Second, Code: "while True: pass"})
	require.Equal(t, sandbox.TimedOut, r.Status)
}

func TestJobsThatAreEnded(t *testing.T) {
	t.Parallel()
	d := open(t, sandbox.Limits{})
	ctx, cancel := context.WithCancel(t.Context())
	r := run(ctx, t, d, sandbox.Job{Code: "print('begun', flush=True)\nimport time\ntime.sleep(600)", Output: func(sandbox.Stream, string) { cancel() }})
	require.Equal(t, sandbox.Cancelled, r.Status)
	require.Equal(t, sandbox.ExitKilled, r.ExitCode)

	c, err := d.Start(t.Context())
	require.NoError(t, err)
	_, err = c.Run(t.Context(), sandbox.Job{Code: "x"})
	require.ErrorIs(t, err, sandbox.ErrInvalidJob)
	require.NoError(t, c.Close())
	_, err = c.Run(t.Context(), sandbox.Job{Code: "x", Timeout: time.Minute})
	require.ErrorIs(t, err, sandbox.ErrCapsuleGone)

	left, err := bubblewrap.New(guest.Config{Root: sandboxtest.Root()})
	require.NoError(t, err)
	_, err = left.Start(t.Context())
	require.ErrorContains(t, err, "not open")
	require.NoError(t, left.Open(t.Context()))
	require.ErrorContains(t, left.Open(t.Context()), "opened twice")
	_, err = left.Start(t.Context())
	require.NoError(t, err)
	require.NoError(t, left.Close(), "it ends what nobody closed")
	require.NoError(t, left.Close())
}

// A start that fails says why, in the words of whoever knows, and leaves
// nothing.
func TestStartsThatFail(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, c := range map[string]struct {
		config guest.Config
		want   string
	}{
		"no program":              {guest.Config{Program: "no-such-program", Root: sandboxtest.Root(), RunDir: dir}, "no-such-program"},
		"another program":         {guest.Config{Program: "false", Root: sandboxtest.Root(), RunDir: dir}, "did not start"},
		"no root":                 {guest.Config{Root: filepath.Join(dir, "none"), RunDir: dir}, "none"},
		"a root of no use":        {guest.Config{Root: dir, RunDir: dir}, "did not start"},
		"a preload that is wrong": {guest.Config{Root: sandboxtest.Root(), RunDir: dir, Preload: []string{"no_such_module"}}, ""},
	} {
		d, err := bubblewrap.New(c.config)
		require.NoError(t, err)
		require.NoError(t, d.Open(t.Context()))
		x, err := d.Start(t.Context())
		if c.want == "" && err == nil {
			require.NoError(t, x.Close())
		} else {
			require.ErrorContains(t, err, c.want, name)
		}
		require.NoError(t, d.Close())
		slots, err := filepath.Glob(filepath.Join(dir, "portico-sandbox-*", "[0-9]*[0-9]"))
		require.NoError(t, err)
		require.Empty(t, slots, name)
	}
	d := open(t, sandbox.Limits{})
	ended, end := context.WithCancel(t.Context())
	end()
	_, err := d.Start(ended)
	require.Error(t, err)
	_, err = bubblewrap.New(guest.Config{Limits: sandbox.Limits{Memory: 1}})
	require.ErrorContains(t, err, "memory")
}

// Interpreters find the runtime compiled, which the first of a machine does for
// all, and what it is compiled from says what is in it.
func TestTheRuntimeIsCompiledOnce(t *testing.T) {
	t.Parallel()
	dir := sandboxtest.RunDir(t)
	var made map[string]time.Time
	for range 2 {
		d, err := bubblewrap.New(guest.Config{Root: sandboxtest.Root(), RunDir: dir})
		require.NoError(t, err)
		require.NoError(t, d.Open(t.Context()))
		r := run(t.Context(), t, d, sandbox.Job{Timeout: time.Minute, Code: `
import os, sys
for name, module in sorted(sys.modules.items()):
    if name.startswith("portico_runtime"):
        print(name, os.path.exists(module.__cached__), module.__spec__.loader.get_code(name).co_filename == module.__file__)`})
		require.Contains(t, r.Stdout, "portico_runtime.program True True\n", r.Stderr)
		require.NotContains(t, r.Stdout, "False")
		require.NoError(t, d.Close())
		found, err := filepath.Glob(filepath.Join(dir, "*", "runtime-*", "portico_runtime", "__pycache__", "*.pyc"))
		require.NoError(t, err)
		require.NotEmpty(t, found)
		times := map[string]time.Time{}
		for _, f := range found {
			info, err := os.Stat(f)
			require.NoError(t, err)
			times[f] = info.ModTime()
		}
		if made == nil {
			made = times
		}
		require.Equal(t, made, times)
	}
}
