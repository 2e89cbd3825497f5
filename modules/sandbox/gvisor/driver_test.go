package gvisor_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/guest"
	"github.com/portico-run/portico/modules/sandbox/gvisor"
	"github.com/portico-run/portico/modules/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { sandboxtest.Main(m, driver) }

// config adds what tools/runsc.sh and tools/sandbox-root.sh built for this user.
func config(c guest.Config) guest.Config {
	c.Root, c.Program = sandboxtest.Root(), os.Getenv("PORTICO_RUNSC")
	return c
}

func driver(c guest.Config) (sandbox.Driver, error) { return gvisor.New(config(c)) }

func suite(t *testing.T) sandboxtest.Suite {
	t.Helper()
	testenv.Need(t, "PORTICO_RUNSC", "tools/runsc.sh prints it")
	s := sandboxtest.Of(driver)
	s.OwnKernel = true
	return s
}

func TestConformance(t *testing.T) {
	testenv.Slow(t, "gVisor")
	t.Parallel()
	suite(t).Conformance(t)
	suite(t).Packages(t)
}

func TestAttack(t *testing.T) {
	testenv.Slow(t, "gVisor")
	t.Parallel()
	suite(t).Attack(t)
}

func TestLifecycle(t *testing.T) {
	testenv.Slow(t, "gVisor")
	t.Parallel()
	suite(t).Lifecycle(t)
}

// Sandboxes that come back from one image have random numbers of their own, and
// all that the image had imported.
func TestSandboxesOfOneImage(t *testing.T) {
	testenv.Slow(t, "gVisor")
	t.Parallel()
	d, err := gvisor.New(config(guest.Config{RunDir: sandboxtest.RunDir(t), Preload: gvisor.DefaultPreload()}))
	require.NoError(t, err)
	require.NoError(t, d.Open(t.Context()))
	seen := map[string]bool{}
	for range 3 {
		r := run(t, d, sandbox.Job{Code: `
import sys
print("pandas" in sys.modules, "matplotlib.pyplot" in sys.modules)
import numpy, os, random
print(numpy.random.random()); print(random.random()); print(os.urandom(8).hex())
print(open("/proc/version").read().split()[-1])`})
		words := strings.Fields(r.Stdout)
		require.Len(t, words, 6, r.Stderr)
		require.Equal(t, []string{"True", "True"}, words[:2])
		for _, word := range words[2:5] {
			require.False(t, seen[word], "%s came twice", word)
			seen[word] = true
		}
	}
	require.NoError(t, d.Close())
}

func run(t *testing.T, d sandbox.Driver, job sandbox.Job) sandbox.Result {
	t.Helper()
	c, err := d.Start(t.Context())
	require.NoError(t, err)
	job.Timeout = time.Minute
	r, err := c.Run(t.Context(), job)
	require.NoError(t, err)
	require.NoError(t, c.Close())
	return r
}

// An image outlives its server and serves the next one; it is made again for
// other limits, and removed when nobody has used it for long.
func TestImages(t *testing.T) {
	testenv.Slow(t, "gVisor")
	t.Parallel()
	if os.Geteuid() != 0 {
		// gVisor saves and restores for root only; the rest of the suite shows
		// that nothing depends on it.
		return
	}
	dir := sandboxtest.RunDir(t)
	use := func(l sandbox.Limits) {
		d, err := gvisor.New(config(guest.Config{RunDir: dir, Limits: l}))
		require.NoError(t, err)
		require.NoError(t, d.Open(t.Context()))
		r := run(t, d, sandbox.Job{Code: "print('on')"})
		require.Equal(t, "on\n", r.Stdout, r.Stderr)
		require.NoError(t, d.Close())
	}
	images := func() map[string]uint64 {
		found, err := filepath.Glob(filepath.Join(dir, "*", "image-*", "checkpoint.img"))
		require.NoError(t, err)
		made := map[string]uint64{}
		for _, f := range found {
			var s unix.Stat_t
			require.NoError(t, unix.Stat(filepath.Dir(f), &s))
			made[filepath.Dir(f)] = s.Ino
			require.Zero(t, s.Mode&0o077, "others can read it")
		}
		return made
	}
	use(sandbox.Limits{})
	first := images()
	require.Len(t, first, 1)
	use(sandbox.Limits{})
	require.Equal(t, first, images())

	for path := range first {
		old := time.Now().Add(-25 * time.Hour)
		require.NoError(t, os.Chtimes(path, old, old))
	}
	use(sandbox.Limits{Inodes: 500})
	second := images()
	require.Len(t, second, 1)
	for path := range first {
		require.NotContains(t, second, path)
	}
}

// Whoever asks for a sandbox learns why there is none, and the next one tries
// again.
func TestADriverThatCannotWork(t *testing.T) {
	testenv.Need(t, "PORTICO_RUNSC", "tools/runsc.sh prints it")
	t.Parallel()
	for program, want := range map[string]string{"false": "sandbox", "no-such-program": "not found"} {
		d, err := gvisor.New(guest.Config{Program: program, Root: sandboxtest.Root(), RunDir: sandboxtest.RunDir(t)})
		require.NoError(t, err)
		require.NoError(t, d.Open(t.Context()))
		for range 2 {
			_, err = d.Start(t.Context())
			require.ErrorContains(t, err, want)
		}
		require.NoError(t, d.Close())
	}
	d, err := gvisor.New(config(guest.Config{Preload: []string{"no_such_module"}, RunDir: sandboxtest.RunDir(t)}))
	require.NoError(t, err)
	require.NoError(t, d.Open(t.Context()))
	_, err = d.Start(t.Context())
	require.ErrorContains(t, err, "ModuleNotFoundError")
	require.NoError(t, d.Close())
	_, err = gvisor.New(guest.Config{Limits: sandbox.Limits{Memory: 1}})
	require.ErrorContains(t, err, "memory")
}
