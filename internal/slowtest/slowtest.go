// Package slowtest marks tests that take longer than a developer waits for.
package slowtest

import (
	"os"
	"testing"
)

// Env names the variable that runs slow tests. `make test` sets it.
const Env = "PORTICO_TEST_SLOW"

// Only lets the test run where Env is set, and skips it elsewhere. why says
// what takes long.
func Only(t testing.TB, why string) {
	t.Helper()
	if os.Getenv(Env) == "" {
		t.Skipf("slow (%s): make test runs it, and so does %s=1", why, Env)
	}
}
