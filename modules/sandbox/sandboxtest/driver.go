package sandboxtest

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/guest"
)

// Root is where tools/sandbox-root.sh builds for this user.
func Root() string {
	return guest.DefaultRoot(map[string]string{"HOME": os.Getenv("HOME"), "XDG_DATA_HOME": os.Getenv("XDG_DATA_HOME")})
}

// Make makes a driver of one kind on Root.
type Make func(c guest.Config) (sandbox.Driver, error)

// Main runs the tests of a kind of driver. In the process that Lifecycle starts
// it is a server instead.
func Main(m *testing.M, make Make) {
	if dir := os.Getenv(victim); dir != "" {
		serve(make(guest.Config{RunDir: dir}))
		return
	}
	goleak.VerifyTestMain(m)
}

// Of is the suite for a kind of driver.
func Of(make Make) Suite {
	made := func(t *testing.T, c guest.Config) sandbox.Driver {
		t.Helper()
		testenv.Sandbox(t, Root())
		d, err := make(c)
		require.NoError(t, err)
		return d
	}
	return Suite{
		New: func(t *testing.T, l sandbox.Limits) sandbox.Driver {
			t.Helper()
			return made(t, guest.Config{Limits: l})
		},
		NewIn: func(t *testing.T, dir string) sandbox.Driver {
			t.Helper()
			return made(t, guest.Config{RunDir: dir})
		},
	}
}
