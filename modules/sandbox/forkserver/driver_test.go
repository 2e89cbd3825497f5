package forkserver_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/forkserver"
	"github.com/portico-run/portico/modules/sandbox/guest"
	"github.com/portico-run/portico/modules/sandbox/sandboxtest"
)

// victim makes this program a server that a test kills.
const victim = "PORTICO_TEST_VICTIM"

func TestMain(m *testing.M) {
	if dir := os.Getenv(victim); dir != "" {
		serve(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

// root is where tools/sandbox-root.sh builds for this user.
func root() string {
	return guest.DefaultRoot(map[string]string{"HOME": os.Getenv("HOME"), "XDG_DATA_HOME": os.Getenv("XDG_DATA_HOME")})
}

func suite() sandboxtest.Suite {
	return sandboxtest.Suite{New: func(t *testing.T, l sandbox.Limits) sandbox.Driver {
		t.Helper()
		d, err := forkserver.New(forkserver.Config{Root: root(), Limits: l})
		require.NoError(t, err)
		return d
	}}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	suite().Conformance(t)
}

func TestAttack(t *testing.T) {
	t.Parallel()
	suite().Attack(t)
}

// serve runs a program that tries to live on, and says so when it runs.
func serve(dir string) {
	d, err := forkserver.New(forkserver.Config{Root: root(), RunDir: dir})
	if err == nil {
		err = d.Open(context.Background())
	}
	var c sandbox.Capsule
	if err == nil {
		c, err = d.Start(context.Background())
	}
	if err == nil {
		_, err = c.Run(context.Background(), sandbox.Job{
			Timeout: time.Hour,
			Code: `
import os, signal, time
for n in range(3):
    if os.fork() == 0:
        os.setsid(); signal.signal(15, signal.SIG_IGN); signal.signal(1, signal.SIG_IGN)
        time.sleep(600)
print("runs", flush=True)
time.sleep(600)`,
			Output: func(_ sandbox.Stream, line string) { fmt.Fprintln(os.Stdout, line) },
		})
	}
	fmt.Fprintln(os.Stdout, "ended", err)
}

// A server that is killed takes its sandboxes with it, and the next one
// removes what it left.
func TestSandboxesEndWithTheirServer(t *testing.T) {
	t.Parallel()
	dir := runDir(t)
	server := exec.CommandContext(t.Context(), os.Args[0], "-test.run=NONE")
	server.Env = append(os.Environ(), victim+"="+dir)
	out, err := server.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan())
	require.Equal(t, "runs", lines.Text())
	children := descendants(t, server.Process.Pid)
	require.GreaterOrEqual(t, len(children), 5)

	require.NoError(t, server.Process.Kill())
	_ = server.Wait()
	require.Eventually(t, func() bool {
		return !slices.ContainsFunc(children, alive)
	}, 10*time.Second, 10*time.Millisecond)

	left, err := filepath.Glob(filepath.Join(dir, "*", "[0-9]"))
	require.NoError(t, err)
	require.NotEmpty(t, left)
	d, err := forkserver.New(forkserver.Config{Root: root(), RunDir: dir})
	require.NoError(t, err)
	require.NoError(t, d.Open(t.Context()))
	require.NoError(t, d.Close())
	left, err = filepath.Glob(filepath.Join(dir, "*", "[0-9]"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// runDir has a short path, as sockets need, that any user can traverse; the
// folders that tests get have neither.
func runDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "portico-run-") //nolint:usetesting // see above
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	return dir
}

// descendants lists the processes below one.
func descendants(t *testing.T, pid int) []int {
	t.Helper()
	parents := map[int]int{}
	entries, err := os.ReadDir("/proc")
	require.NoError(t, err)
	for _, e := range entries {
		n, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		parents[n], err = strconv.Atoi(fields[1])
		require.NoError(t, err)
	}
	var found []int
	for n := range parents {
		for p := n; p > 1; p = parents[p] {
			if parents[p] == pid {
				found = append(found, n)
				break
			}
		}
	}
	return found
}

// alive reports whether a process runs; one that nobody waited for does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	return !bytes.Contains(stat[bytes.LastIndexByte(stat, ')'):], []byte(" Z "))
}

func TestDriverLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := runDir(t)
	d, err := forkserver.New(forkserver.Config{Root: root(), RunDir: dir})
	require.NoError(t, err)
	require.NoError(t, d.Open(t.Context()))
	require.Error(t, d.Open(t.Context()))
	for range 3 {
		_, err := d.Start(t.Context())
		require.NoError(t, err)
	}
	require.GreaterOrEqual(t, len(inside(t, dir)), 3, "the check does not see what it looks for")
	require.NoError(t, d.Close())
	require.Empty(t, inside(t, dir))
	require.NoError(t, d.Close())
	left, err := filepath.Glob(filepath.Join(dir, "*", "[0-9]"))
	require.NoError(t, err)
	require.Empty(t, left)
	_, err = d.Start(t.Context())
	require.Error(t, err)
}

// A start that is given up, at whatever moment, leaves nothing and does not
// hang.
func TestStartsThatAreGivenUp(t *testing.T) {
	t.Parallel()
	dir := runDir(t)
	d, err := forkserver.New(forkserver.Config{Root: root(), RunDir: dir})
	require.NoError(t, err)
	require.NoError(t, d.Open(t.Context()))
	for n := range 60 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n)*time.Millisecond)
		c, err := d.Start(ctx)
		cancel()
		if err == nil {
			require.NoError(t, c.Close())
		}
	}
	require.NoError(t, d.Close())
	left, err := filepath.Glob(filepath.Join(dir, "*", "[0-9]"))
	require.NoError(t, err)
	require.Empty(t, left)
	require.Empty(t, inside(t, dir))
}

// inside lists the processes whose file system holds something of a folder.
func inside(t *testing.T, dir string) []string {
	t.Helper()
	mounts, err := filepath.Glob("/proc/[0-9]*/mountinfo")
	require.NoError(t, err)
	var found []string
	for _, m := range mounts {
		text, err := os.ReadFile(m)
		if err == nil && strings.Contains(string(text), filepath.Base(dir)) {
			found = append(found, m)
		}
	}
	return found
}

func TestADriverThatCannotWork(t *testing.T) {
	t.Parallel()
	for _, bwrap := range []string{"false", "no-such-program"} {
		d, err := forkserver.New(forkserver.Config{Bwrap: bwrap, Root: root()})
		require.NoError(t, err)
		require.NoError(t, d.Open(t.Context()))
		_, err = d.Start(t.Context())
		require.Error(t, err)
		require.NoError(t, d.Close())
	}
	_, err := forkserver.New(forkserver.Config{Limits: sandbox.Limits{Memory: 1}})
	require.ErrorContains(t, err, "memory")
}

// A fork-server that dies is replaced, and takes its children along.
func TestAForkServerThatDies(t *testing.T) {
	t.Parallel()
	dir := runDir(t)
	d, err := forkserver.New(forkserver.Config{Root: root(), RunDir: dir})
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
	for _, mounts := range inside(t, dir) {
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
