package sandboxtest

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
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/sandbox"
)

// victim names the variable that makes a test's own program a server, which
// calls Serve with a driver in the folder it holds.
const victim = "PORTICO_TEST_VICTIM"

// Lifecycle checks what drivers leave when they end, or are ended.
func (s Suite) Lifecycle(t *testing.T) {
	for name, test := range map[string]func(t *testing.T){
		"server killed":  s.testServerKilled,
		"leaves nothing": s.testLeavesNothing,
		"given up":       s.testGivenUp,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// serve is the server that a test kills: it runs a program that tries to live
// on, and says so when it runs.
func serve(d sandbox.Driver, err error) {
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
func (s Suite) testServerKilled(t *testing.T) {
	dir := RunDir(t)
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
	d := s.NewIn(t, dir)
	require.NoError(t, d.Open(t.Context()))
	require.NoError(t, d.Close())
	left, err = filepath.Glob(filepath.Join(dir, "*", "[0-9]"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// RunDir has a short path, as sockets need, that any user can traverse; the
// folders that tests get have neither.
func RunDir(t *testing.T) string {
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

func (s Suite) testLeavesNothing(t *testing.T) {
	dir := RunDir(t)
	d := s.NewIn(t, dir)
	require.NoError(t, d.Open(t.Context()))
	require.Error(t, d.Open(t.Context()))
	for range 3 {
		_, err := d.Start(t.Context())
		require.NoError(t, err)
	}
	require.GreaterOrEqual(t, len(Inside(t, dir)), 3, "the check does not see what it looks for")
	require.NoError(t, d.Close())
	require.Empty(t, Inside(t, dir))
	require.NoError(t, d.Close())
	left, err := filepath.Glob(filepath.Join(dir, "*", "[0-9]"))
	require.NoError(t, err)
	require.Empty(t, left)
	_, err = d.Start(t.Context())
	require.Error(t, err)
}

// A start that is given up, at whatever moment, leaves nothing and does not
// hang.
func (s Suite) testGivenUp(t *testing.T) {
	dir := RunDir(t)
	d := s.NewIn(t, dir)
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
	require.Empty(t, Inside(t, dir))
}

// Inside lists the processes whose file system holds something of a folder.
func Inside(t *testing.T, dir string) []string {
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
