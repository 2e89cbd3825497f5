package remote_test

import (
	"testing"

	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/sandbox/sandboxtest"
)

func TestConformance(t *testing.T) {
	testenv.Slow(t, "many sandboxes")
	t.Parallel()
	sandboxtest.Of(driver).Conformance(t)
}

func TestAttack(t *testing.T) {
	testenv.Slow(t, "many sandboxes")
	t.Parallel()
	sandboxtest.Of(driver).Attack(t)
}

func TestLifecycle(t *testing.T) {
	testenv.Slow(t, "many sandboxes")
	t.Parallel()
	sandboxtest.Of(driver).Lifecycle(t)
}
