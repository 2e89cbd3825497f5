package bubblewrap_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/bubblewrap"
	"github.com/portico-run/portico/modules/sandbox/guest"
	"github.com/portico-run/portico/modules/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { sandboxtest.Main(m, driver) }

func driver(c guest.Config) (sandbox.Driver, error) {
	c.Root = sandboxtest.Root()
	return bubblewrap.New(c)
}

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

func TestADriverThatCannotWork(t *testing.T) {
	t.Parallel()
	d, err := bubblewrap.New(guest.Config{Program: "false", Root: sandboxtest.Root()})
	require.NoError(t, err)
	require.NoError(t, d.Open(t.Context()))
	_, err = d.Start(t.Context())
	require.Error(t, err)
	require.NoError(t, d.Close())
	_, err = bubblewrap.New(guest.Config{Limits: sandbox.Limits{Memory: 1}})
	require.ErrorContains(t, err, "memory")
}
