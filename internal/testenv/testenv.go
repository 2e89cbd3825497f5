// Package testenv says what a test needs of the machine. Where that is missing,
// the test is skipped; with CI set it fails, so that nothing is skipped there.
package testenv

import (
	"flag"
	"os"
	"os/exec"
	"testing"
)

// EnvSlow names the variable that runs slow tests. `make test` sets it.
const EnvSlow = "PORTICO_TEST_SLOW"

// Slow lets the test run in CI, where EnvSlow is set, and where go test -run asks
// for some tests by name. why says what takes long.
func Slow(t testing.TB, why string) {
	t.Helper()
	if !Thorough() {
		t.Skipf("slow (%s): make test runs it, and so do -run with its name and %s=1", why, EnvSlow)
	}
}

// Thorough reports whether slow tests run. A test of many random cases makes do
// with some of them where they do not.
func Thorough() bool {
	named := flag.Lookup("test.run").Value.String() != ""
	return named || os.Getenv("CI") != "" || os.Getenv(EnvSlow) != ""
}

// Need returns the value of a variable that names something on this machine:
// a server, a folder, a program. how says how it gets there.
func Need(t testing.TB, name, how string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		Missing(t, name+" is not set: make test sets it, and "+how)
	}
	return value
}

// Sandbox is for tests that run programs: they need bubblewrap and the file
// system that tools/setup.sh builds for sandboxes at root.
func Sandbox(t testing.TB, root string) {
	t.Helper()
	_, err := exec.LookPath("bwrap")
	if err == nil {
		_, err = os.Stat(root)
	}
	if err != nil {
		Missing(t, "there is no sandbox here ("+err.Error()+"): run tools/setup.sh")
	}
}

// Missing ends a test whose machine lacks something; says is what and where it
// comes from.
func Missing(t testing.TB, says string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(says)
	}
	t.Skip(says)
}
