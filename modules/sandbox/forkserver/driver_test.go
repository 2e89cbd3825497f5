package forkserver_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/forkserver"
	"github.com/portico-run/portico/modules/sandbox/guest"
	"github.com/portico-run/portico/modules/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { sandboxtest.Main(m, driver) }

func driver(c guest.Config) (sandbox.Driver, error) {
	c.Root = sandboxtest.Root()
	return forkserver.New(c)
}

func TestConformance(t *testing.T) {
	testenv.Slow(t, "many sandboxes")
	t.Parallel()
	sandboxtest.Of(driver).Conformance(t)
	sandboxtest.Of(driver).Packages(t)
	sandboxtest.Of(driver).Language(t)
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
	for _, bwrap := range []string{"false", "no-such-program"} {
		d, err := forkserver.New(guest.Config{Program: bwrap, Root: sandboxtest.Root()})
		require.NoError(t, err)
		require.NoError(t, d.Open(t.Context()))
		_, err = d.Start(t.Context())
		require.Error(t, err)
		require.NoError(t, d.Close())
	}
	_, err := forkserver.New(guest.Config{Limits: sandbox.Limits{Memory: 1}})
	require.ErrorContains(t, err, "memory")
}

// The random numbers of a module that was imported before the fork are each
// child's own.
func TestChildrenHaveRandomNumbersOfTheirOwn(t *testing.T) {
	t.Parallel()
	d, err := forkserver.New(guest.Config{Root: sandboxtest.Root(), Preload: []string{"numpy.random"}})
	require.NoError(t, err)
	require.NoError(t, d.Open(t.Context()))
	seen := map[string]bool{}
	for range 3 {
		c, err := d.Start(t.Context())
		require.NoError(t, err)
		r, err := c.Run(t.Context(), sandbox.Job{Code: "import numpy, random\nprint(numpy.random.random())\nprint(random.random())", Timeout: time.Minute})
		require.NoError(t, err)
		require.Len(t, strings.Fields(r.Stdout), 2, r.Stderr)
		for word := range strings.FieldsSeq(r.Stdout) {
			require.False(t, seen[word], "%s came twice", word)
			seen[word] = true
		}
		require.NoError(t, c.Close())
	}
	require.NoError(t, d.Close())
}

// A fork-server that dies is replaced, and takes its children along.
func TestAForkServerThatDies(t *testing.T) {
	t.Parallel()
	dir := sandboxtest.RunDir(t)
	d, err := forkserver.New(guest.Config{Root: sandboxtest.Root(), RunDir: dir})
	require.NoError(t, err)
	require.NoError(t, d.Open(t.Context()))
	c, err := d.Start(t.Context())
	require.NoError(t, err)
	killed := make(chan sandbox.Result, 1)
	running := make(chan struct{})
	go func() {
		r, err := c.Run(t.Context(), sandbox.Job{
			Code: "print('on', flush=True)\nimport time; time.sleep(60)", Timeout: time.Minute,
			Output: func(sandbox.Stream, string) { close(running) },
		})
		if err != nil {
			t.Error(err)
		}
		killed <- r
	}()
	<-running
	for _, pid := range pythons(t, dir) {
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		break // the oldest is the fork-server
	}
	r := <-killed
	require.Equal(t, sandbox.Killed, r.Status)
	require.NoError(t, c.Close())
	c, err = d.Start(t.Context())
	require.NoError(t, err)
	r, err = c.Run(t.Context(), sandbox.Job{Code: "print('again')", Timeout: time.Minute})
	require.NoError(t, err)
	require.Equal(t, "again\n", r.Stdout, r.Stderr)
	require.NoError(t, c.Close())
	require.NoError(t, d.Close())
}

// pythons lists the interpreters whose file system holds something of a
// folder, the oldest first.
func pythons(t *testing.T, dir string) []int {
	t.Helper()
	var pids []int
	for _, mounts := range sandboxtest.Inside(t, dir) {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(mounts)))
		require.NoError(t, err)
		name, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "comm"))
		if err == nil && strings.HasPrefix(string(name), "python") {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// A signal to the group of a program reaches no other program, nor the
// fork-server.
func TestAProgramSignalsItsOwnGroupOnly(t *testing.T) {
	t.Parallel()
	d, err := forkserver.New(guest.Config{Root: sandboxtest.Root(), Preload: []string{"json"}})
	require.NoError(t, err)
	require.NoError(t, d.Open(t.Context()))
	waits, err := d.Start(t.Context())
	require.NoError(t, err)
	c, err := d.Start(t.Context())
	require.NoError(t, err)
	r, err := c.Run(t.Context(), sandbox.Job{Code: "import os\nos.kill(0, 9)", Timeout: time.Minute})
	require.NoError(t, err)
	require.Equal(t, sandbox.Killed, r.Status, r.Stderr)
	require.NoError(t, c.Close())
	// It may also make a session of its own, as a program that is nobody's leader.
	r, err = waits.Run(t.Context(), sandbox.Job{Code: "import os\nprint(os.getpgrp(), os.getpid())\nos.setsid()", Timeout: time.Minute})
	require.NoError(t, err)
	require.Equal(t, "1 2\n", r.Stdout, r.Stderr)
	require.NoError(t, waits.Close())
	require.NoError(t, d.Close())
}

// Where there are control groups, process 1 and the program are both in that of
// their sandbox, and in no other's.
func TestProgramsAreInTheirControlGroup(t *testing.T) {
	t.Parallel()
	groups := guest.OpenGroups() != nil
	d, err := forkserver.New(guest.Config{Root: sandboxtest.Root(), Preload: []string{"json"}})
	require.NoError(t, err)
	require.NoError(t, d.Open(t.Context()))
	seen := map[string]bool{}
	for range 2 {
		c, err := d.Start(t.Context())
		require.NoError(t, err)
		r, err := c.Run(t.Context(), sandbox.Job{Code: "for pid in (1, 2): print(*sorted(l.split(':')[2].strip() for l in open('/proc/%d/cgroup' % pid) if '/portico/' in l))", Timeout: time.Minute})
		require.NoError(t, err)
		one, program, _ := strings.Cut(strings.TrimSpace(r.Stdout), "\n")
		require.Equal(t, one, program, r.Stderr)
		require.Equal(t, groups, one != "", r.Stdout)
		require.False(t, groups && seen[one], "two share a group")
		seen[one] = true
		require.NoError(t, c.Close())
	}
	require.NoError(t, d.Close())
}

// Process 1 of a sandbox has the program's user; its memory is no program's to
// look at.
func TestProgramsCannotLookIntoProcessOne(t *testing.T) {
	t.Parallel()
	d, err := forkserver.New(guest.Config{Root: sandboxtest.Root(), Preload: []string{"json"}})
	require.NoError(t, err)
	require.NoError(t, d.Open(t.Context()))
	c, err := d.Start(t.Context())
	require.NoError(t, err)
	r, err := c.Run(t.Context(), sandbox.Job{Code: "for name in ('mem', 'maps', 'environ'):\n    try: open('/proc/1/' + name, 'rb'); print('open')\n    except PermissionError: print('refused')", Timeout: time.Minute})
	require.NoError(t, err)
	require.Equal(t, "refused\nrefused\nrefused\n", r.Stdout, r.Stderr)
	require.NoError(t, c.Close())
	require.NoError(t, d.Close())
}

// Two programs share no namespace.
func TestProgramsHaveNamespacesOfTheirOwn(t *testing.T) {
	t.Parallel()
	d, err := forkserver.New(guest.Config{Root: sandboxtest.Root(), Preload: []string{"json"}})
	require.NoError(t, err)
	require.NoError(t, d.Open(t.Context()))
	seen := map[string]bool{}
	var open []sandbox.Capsule // or the kernel gives the same numbers again
	for range 2 {
		c, err := d.Start(t.Context())
		require.NoError(t, err)
		open = append(open, c)
	}
	for _, c := range open {
		r, err := c.Run(t.Context(), sandbox.Job{Code: "import os\nfor kind in ('user', 'mnt', 'pid', 'net', 'ipc', 'uts'): print(os.readlink('/proc/self/ns/' + kind))", Timeout: time.Minute})
		require.NoError(t, err)
		require.Len(t, strings.Fields(r.Stdout), 6, r.Stderr)
		for namespace := range strings.FieldsSeq(r.Stdout) {
			require.False(t, seen[namespace], "two are in %s", namespace)
			seen[namespace] = true
		}
	}
	for _, c := range open {
		require.NoError(t, c.Close())
	}
	require.NoError(t, d.Close())
}
