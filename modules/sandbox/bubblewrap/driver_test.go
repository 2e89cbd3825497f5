package bubblewrap_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/bubblewrap"
	"github.com/portico-run/portico/modules/sandbox/guest"
	"github.com/portico-run/portico/modules/sandbox/sandboxtest"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(sandboxtest.Victim); dir != "" {
		sandboxtest.Serve(bubblewrap.New(guest.Config{Root: root(), RunDir: dir}))
		return
	}
	goleak.VerifyTestMain(m)
}

// root is where tools/sandbox-root.sh builds for this user.
func root() string {
	return guest.DefaultRoot(map[string]string{"HOME": os.Getenv("HOME"), "XDG_DATA_HOME": os.Getenv("XDG_DATA_HOME")})
}

func suite() sandboxtest.Suite {
	make := func(t *testing.T, c guest.Config) sandbox.Driver {
		t.Helper()
		c.Root = root()
		testenv.Sandbox(t, c.Root)
		d, err := bubblewrap.New(c)
		require.NoError(t, err)
		return d
	}
	return sandboxtest.Suite{
		New: func(t *testing.T, l sandbox.Limits) sandbox.Driver {
			t.Helper()
			return make(t, guest.Config{Limits: l})
		},
		NewIn: func(t *testing.T, dir string) sandbox.Driver {
			t.Helper()
			return make(t, guest.Config{RunDir: dir})
		},
	}
}

func TestConformance(t *testing.T) {
	testenv.Slow(t, "many sandboxes")
	t.Parallel()
	suite().Conformance(t)
}

func TestAttack(t *testing.T) {
	testenv.Slow(t, "many sandboxes")
	t.Parallel()
	suite().Attack(t)
}

func TestLifecycle(t *testing.T) {
	testenv.Slow(t, "many sandboxes")
	t.Parallel()
	suite().Lifecycle(t)
}

func TestADriverThatCannotWork(t *testing.T) {
	t.Parallel()
	d, err := bubblewrap.New(guest.Config{Program: "false", Root: root()})
	require.NoError(t, err)
	require.NoError(t, d.Open(t.Context()))
	_, err = d.Start(t.Context())
	require.Error(t, err)
	require.NoError(t, d.Close())
	_, err = bubblewrap.New(guest.Config{Limits: sandbox.Limits{Memory: 1}})
	require.ErrorContains(t, err, "memory")
}
