package sandboxtest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/sandbox"
)

func (s Suite) testFiles(t *testing.T) {
	d := s.open(t, sandbox.Limits{})
	files := []sandbox.File{
		{Path: "__init__.py"},
		{Path: "demo.py", Content: []byte("class Demo:\n    name = 'demo'\n")},
		{Path: "docs/demo.md", Content: []byte("# Demo")},
		{Path: "a/b/c.txt", Content: []byte("deep")},
	}
	r := run(t, d, sandbox.Job{Files: files, Code: `
import errno
from refly_tools.demo import Demo
print(Demo.name, open("/refly_tools/docs/demo.md").read(), open("/refly_tools/a/b/c.txt").read())
for change in (lambda: open("/refly_tools/demo.py", "w"), lambda: open("/refly_tools/new.py", "w"),
               lambda: __import__("os").remove("/refly_tools/demo.py"), lambda: __import__("os").chmod("/refly_tools/demo.py", 0o777)):
    try:
        change()
        print("changed")
    except OSError as e:
        print(e.errno in (errno.EROFS, errno.EACCES, errno.EPERM))
`})
	require.Equal(t, "demo # Demo deep\nTrue\nTrue\nTrue\nTrue\n", r.Stdout, r.Stderr)
	r = run(t, d, sandbox.Job{Code: "import os; print(os.listdir('/refly_tools'))\nimport refly_tools.demo"})
	require.Equal(t, "[]\n", r.Stdout)
	require.Contains(t, r.Stderr, "ModuleNotFoundError")
}

func (s Suite) testFolders(t *testing.T) {
	r := s.program(t, `
import os, tempfile
print(os.getcwd(), tempfile.gettempdir())
open("own.txt", "w").write("x"); open("/tmp/x", "w").write("y")
open("json_.py", "w").write("value = 5")
import json_; print(json_.value)
open("json.py", "w").write("raise SystemExit('shadowed')")
import json; print(json.loads("1"))
for path in ("/x", "/etc/passwd", "/usr/lib/x", "/run/x", "/dev/x", "/proc/sys/kernel/hostname"):
    try:
        open(path, "w").close(); print("wrote", path)
    except OSError:
        pass
`)
	require.Equal(t, "/mnt/data /tmp\n5\n1\n", r.Stdout, r.Stderr)
}

func (s Suite) testInputs(t *testing.T) {
	r := run(t, s.open(t, sandbox.Limits{}), sandbox.Job{
		Inputs:  []sandbox.File{{Path: "data.csv", Content: []byte("a,b\n1,2\n")}, {Path: "deep/er/x.txt", Content: []byte("x")}, {Path: "empty"}},
		Collect: sandbox.Collect{MaxFiles: 10, MaxBytes: 1 << 20},
		Code: `
print(open("data.csv").read().split(), open("/mnt/data/deep/er/x.txt").read(), open("empty").read() == "")
open("data.csv", "a").write("3,4\n")
open("deep/er/new.txt", "w").write("new")
import os; os.remove("empty"); os.rename("deep/er/x.txt", "moved.txt")`,
	})
	require.Equal(t, "['a,b', '1,2'] x True\n", r.Stdout, r.Stderr)
	require.Equal(t, []sandbox.File{
		{Path: "data.csv", Content: []byte("a,b\n1,2\n3,4\n")}, {Path: "deep/er/new.txt", Content: []byte("new")}, {Path: "moved.txt", Content: []byte("x")},
	}, r.Outputs)
	require.Zero(t, r.OutputsDropped)
}

// Nobody in the sandbox writes a read-only input, whatever else they may do in
// its folder.
func (s Suite) testReadOnlyInputs(t *testing.T) {
	r := run(t, s.open(t, sandbox.Limits{}), sandbox.Job{
		Inputs: []sandbox.File{
			{Path: "skills/foo/SKILL.md", Content: []byte("# Foo"), ReadOnly: true},
			{Path: "skills/foo/scripts/run.sh", Content: []byte("echo ran"), ReadOnly: true},
			{Path: "skills/foo/own.txt", Content: []byte("mine")},
		},
		Collect: sandbox.Collect{MaxFiles: 10, MaxBytes: 1 << 20},
		Code: `
import os, subprocess
os.chdir("skills/foo")
print(oct(os.stat("SKILL.md").st_mode & 0o777), open("SKILL.md").read(), subprocess.check_output(["bash", "scripts/run.sh"], text=True), end="")
for mode in ("w", "a", "r+"):
    try:
        open("SKILL.md", mode).write("changed")
    except PermissionError as e:
        print("refused")
print(subprocess.run("echo changed >> SKILL.md", shell=True, stderr=subprocess.DEVNULL).returncode != 0)
open("own.txt", "a").write(" too")
os.remove("scripts/run.sh")`,
	})
	require.Equal(t, "0o444 # Foo ran\nrefused\nrefused\nrefused\nTrue\n", r.Stdout, r.Stderr)
	require.Equal(t, []sandbox.File{
		{Path: "skills/foo/SKILL.md", Content: []byte("# Foo")}, {Path: "skills/foo/own.txt", Content: []byte("mine too")},
	}, r.Outputs)
	require.Zero(t, r.OutputsDropped)
}

func (s Suite) testOutputs(t *testing.T) {
	d := s.open(t, sandbox.Limits{})
	for name, inputs := range map[string][]sandbox.File{
		"a file and a folder": {{Path: "a"}, {Path: "a/b"}},
		"too large":           {{Path: "a", Content: make([]byte, 200<<20)}},
	} {
		c, err := d.Start(t.Context())
		require.NoError(t, err)
		_, err = c.Run(t.Context(), sandbox.Job{Code: "pass", Timeout: time.Second, Inputs: inputs})
		require.ErrorIs(t, err, sandbox.ErrInvalidJob.Do(""), name)
		require.NoError(t, c.Close())
	}
	r := run(t, d, sandbox.Job{Collect: sandbox.Collect{MaxFiles: 3, MaxBytes: 100}, Code: `
for n in range(5): open("f%d" % n, "w").write("x" * 30)`})
	require.Len(t, r.Outputs, 3)
	require.Equal(t, 2, r.OutputsDropped)
	r = run(t, d, sandbox.Job{Collect: sandbox.Collect{MaxFiles: 10, MaxBytes: 100}, Code: `open("big", "w").write("x" * 101); open("small", "w").write("y")`})
	require.Equal(t, []sandbox.File{{Path: "small", Content: []byte("y")}}, r.Outputs)
	r = run(t, d, sandbox.Job{Code: `open("x", "w").write("y")`})
	require.Empty(t, r.Outputs, "files are brought back unasked")
	// Also of a program that was stopped.
	r = run(t, d, sandbox.Job{Collect: sandbox.Collect{MaxFiles: 10, MaxBytes: 100}, Timeout: 500 * time.Millisecond, Code: `
open("x", "w").write("y")
while True: pass`})
	require.Equal(t, sandbox.TimedOut, r.Status)
	require.Len(t, r.Outputs, 1)
}
