package isolation_test

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/bubblewrap"
	"github.com/portico-run/portico/modules/sandbox/forkserver"
	"github.com/portico-run/portico/modules/sandbox/guest"
	"github.com/portico-run/portico/modules/sandbox/gvisor"
	"github.com/portico-run/portico/modules/sandbox/isolation"
	"github.com/portico-run/portico/modules/sandbox/sandboxtest"
)

// once runs each job in a capsule of a driver.
type once struct{ driver sandbox.Driver }

func (o once) Run(ctx context.Context, job sandbox.Job) (sandbox.Result, error) {
	if err := o.driver.Open(ctx); err != nil {
		return sandbox.Result{}, err
	}
	c, err := o.driver.Start(ctx)
	if err != nil {
		return sandbox.Result{}, errors.Join(err, o.driver.Close())
	}
	r, err := c.Run(ctx, job)
	return r, errors.Join(err, c.Close(), o.driver.Close())
}

func TestEveryLayerHolds(t *testing.T) {
	t.Parallel()
	forks, err := forkserver.New(guest.Config{Root: sandboxtest.Root()})
	require.NoError(t, err)
	single, err := bubblewrap.New(guest.Config{Root: sandboxtest.Root()})
	require.NoError(t, err)
	testenv.Need(t, "PORTICO_RUNSC", "tools/runsc.sh prints it")
	testenv.Sandbox(t, sandboxtest.Root())
	kernel, err := gvisor.New(guest.Config{Root: sandboxtest.Root(), Program: os.Getenv("PORTICO_RUNSC")})
	require.NoError(t, err)
	for d, want := range map[sandbox.Driver]isolation.Level{forks: isolation.Namespaces, single: isolation.Namespaces, kernel: isolation.Kernel} {
		level, findings := isolation.Probe(t.Context(), once{d})
		require.Equal(t, want, level, "%T: %+v", d, findings)
		require.Len(t, findings, 10)
	}
	for _, f := range isolation.Machine(isolation.Tool{Name: "bubblewrap", Program: "bwrap"}, sandboxtest.Root()) {
		require.True(t, f.OK, "%s: %s", f.Check, f.Text)
	}
}

// run is a runner that answers with one output.
type run struct {
	stdout string
	err    error
}

func (r run) Run(context.Context, sandbox.Job) (sandbox.Result, error) {
	return sandbox.Result{Status: sandbox.Completed, Stdout: r.stdout}, r.err
}

// What a sandbox without a wall would say is recognised.
func TestHolesAreFound(t *testing.T) {
	t.Parallel()
	level, findings := isolation.Probe(t.Context(), run{stdout: `{"uid":0,"capabilities":true,"noNewPrivileges":false,"filters":0,
		"namespaces":{"net":"` + link(t, "net") + `"},"interfaces":["lo","eth0"],"processes":200,"kernel":"Linux","readOnly":false,"hidden":false,"families":[40]}`})
	require.Equal(t, isolation.None, level)
	for _, f := range findings[1:] {
		require.False(t, f.OK, "%s: %s", f.Check, f.Text)
	}
	level, findings = isolation.Probe(t.Context(), run{err: sandbox.ErrUnavailable.With(errors.New("no namespaces here"))})
	require.Equal(t, isolation.None, level)
	require.Contains(t, findings[0].Text, "no namespaces here")

	bad := isolation.Machine(isolation.Tool{Name: "bubblewrap", Program: "no-such-program", Get: "apt-get install bubblewrap"}, t.TempDir())
	require.Contains(t, bad[0].Text, "apt-get install bubblewrap")
	require.Contains(t, bad[1].Text, "tools/sandbox-root.sh")
	require.True(t, isolation.Kernel.AtLeast(isolation.Namespaces))
	require.False(t, isolation.None.AtLeast(isolation.Namespaces))
}

func link(t *testing.T, name string) string {
	t.Helper()
	text, err := os.Readlink("/proc/self/ns/" + name)
	require.NoError(t, err)
	return text
}
