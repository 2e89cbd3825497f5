package sandboxtest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/sandbox"
)

func (s Suite) testMemory(t *testing.T) {
	d := s.open(t, sandbox.Limits{Memory: 256 << 20, Disk: 512 << 20, FileSize: 512 << 20})
	for name, code := range map[string]string{
		"one process": "x = []\nwhile True: x.append(bytearray(8 << 20))",
		"many": `
import os, time
for _ in range(6):
    if os.fork() == 0:
        x = []
        try:
            while True: x.append(bytearray(b"x") * (4 << 20)); time.sleep(0.01)
        except MemoryError: time.sleep(60)
time.sleep(60)`,
		"shared": "import mmap, time\nx = []\nwhile True: m = mmap.mmap(-1, 8 << 20); m.write(b'x' * (8 << 20)); x.append(m)",
		"files":  "import os, time\nwith open('/dev/shm/x', 'wb') as f:\n    while True: f.write(b'x' * (4 << 20)); f.flush()",
	} {
		r := run(t, d, sandbox.Job{Code: code, Timeout: 30 * time.Second})
		require.Contains(t, []sandbox.Status{sandbox.OutOfMemory, sandbox.Failed, sandbox.Killed}, r.Status, "%s: %+v", name, r)
		require.Less(t, r.Duration, 20*time.Second, name)
	}
	r := run(t, d, sandbox.Job{Code: "try:\n    x = bytearray(1 << 30)\nexcept MemoryError: print('caught')"})
	require.Equal(t, "caught\n", r.Stdout)
}

func (s Suite) testForks(t *testing.T) {
	d := s.open(t, sandbox.Limits{Processes: 20})
	r := run(t, d, sandbox.Job{Code: `
import os, time
n = 0
try:
    while n < 10000:
        if os.fork() == 0: time.sleep(60)
        n += 1
except OSError as e: print(n < 25, e.errno)`, Timeout: 10 * time.Second})
	require.Equal(t, "True 11\n", r.Stdout, r.Stderr)
	r = run(t, d, sandbox.Job{Code: `
import threading, time
n = 0
try:
    while n < 10000:
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start(); n += 1
except RuntimeError: print(n < 25)
import os; os._exit(0)`, Timeout: 10 * time.Second})
	require.Equal(t, "True\n", r.Stdout, r.Stderr)
	r = run(t, d, sandbox.Job{Code: "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass", Timeout: time.Second})
	require.Equal(t, sandbox.TimedOut, r.Status)
}

func (s Suite) testDisk(t *testing.T) {
	d := s.open(t, sandbox.Limits{FileSize: 1 << 20, Disk: 4 << 20})
	r := run(t, d, sandbox.Job{Code: `
import os, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
def attempt(path):
    written = 0
    try:
        with open(path, "wb", buffering=0) as f:
            while True: written += f.write(b"x" * 65536)
    except OSError as e: return written, e.errno
print(attempt("/tmp/one"))
total = 0
for n in range(20):
    written, code = attempt("/mnt/data/%d" % n)
    total += written
print(total <= 4 << 20, code)
for folder in ("/", "/run", "/etc", "/refly_tools", "/opt/portico"):
    try: open(folder + "/x", "w"); print("wrote", folder)
    except OSError: pass`})
	require.Equal(t, "(1048576, 27)\nTrue 28\n", r.Stdout, r.Stderr)
	r = run(t, d, sandbox.Job{Code: "f = open('/tmp/x', 'wb')\nwhile True: f.write(b'x' * 65536)"})
	require.NotEqual(t, sandbox.Completed, r.Status)
}

func (s Suite) testManyFiles(t *testing.T) {
	d := s.open(t, sandbox.Limits{Inodes: 2000})
	r := run(t, d, sandbox.Job{Timeout: 20 * time.Second, Code: `
import os
try:
    for n in range(2_000_000): os.mkdir("/tmp/%d" % n)
    print("made them all")
except OSError as e: print("refused")`})
	require.NotContains(t, r.Stdout, "made them all")
	require.Less(t, r.Duration, 15*time.Second)
	// A tree too deep and too long for paths does not stop the cleaning up.
	r = run(t, s.open(t, sandbox.Limits{}), sandbox.Job{Code: `
import os
for n in range(2000):
    os.mkdir("d" * 200); os.chdir("d" * 200)
print("deep")`})
	require.Equal(t, "deep\n", r.Stdout, r.Stderr)
}

func (s Suite) testOpenFiles(t *testing.T) {
	r := run(t, s.open(t, sandbox.Limits{OpenFiles: 64}), sandbox.Job{Code: `
import os, resource
opened = []
try:
    while True: opened.append(os.open("/dev/null", 0))
except OSError as e: print(len(opened) < 64, e.errno)
for f in opened: os.close(f)
for which in (resource.RLIMIT_NOFILE, resource.RLIMIT_DATA, resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE):
    soft, hard = resource.getrlimit(which)
    try: resource.setrlimit(which, (hard + 1, hard + 1)); print("raised", which)
    except (ValueError, OSError): pass`})
	require.Equal(t, "True 24\n", r.Stdout, r.Stderr)
}

func (s Suite) testFlood(t *testing.T) {
	d := s.open(t, sandbox.Limits{Output: 1 << 16})
	var longest, lines int
	r := run(t, d, sandbox.Job{
		Code: "import os\nwhile True: os.write(1, b'x' * 65536)", Timeout: time.Second,
		Output: func(_ sandbox.Stream, l string) { longest, lines = max(longest, len(l)), lines+1 },
	})
	require.Equal(t, sandbox.TimedOut, r.Status)
	require.Positive(t, r.StdoutDropped)
	require.LessOrEqual(t, len(r.Stdout), 1<<16+100)
	require.LessOrEqual(t, longest, sandbox.MaxLine)
	require.LessOrEqual(t, lines, 4)
}
