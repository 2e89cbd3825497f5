// make test runs it without the race detector.
//go:build !race

package app_test

import (
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/testenv"
)

// behindHAProxy is processes behind the balancer of configs/compose.
func behindHAProxy(t *testing.T, key string, processes ...string) *instance {
	t.Helper()
	program := testenv.Need(t, "PORTICO_HAPROXY", "tools/haproxy.sh prints it")
	address := testenv.FreeAddress(t)
	command := exec.Command(program, "-db", "-f", filepath.Join(root, "configs", "compose", "haproxy.cfg")) // Cleanup ends it
	command.Env = []string{"BALANCER=" + address}
	for n, to := range processes {
		command.Env = append(command.Env, fmt.Sprintf("API_%d=%s", n+1, to))
	}
	command.Stderr = t.Output()
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	front := &instance{t: t, url: "http://" + address, key: key}
	require.Eventually(t, func() bool {
		answer, err := front.do(key, http.MethodGet, "/healthz", "", false, nil)
		return err == nil && answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
	}, 30*time.Second, 50*time.Millisecond)
	return front
}

// Programs of three processes go on at whichever process the balancer chooses, a stream
// comes as it is written, and one process that ends meanwhile loses nothing.
func TestThreeProcessesBehindTheBalancer(t *testing.T) {
	testenv.Slow(t, "three whole servers at work")
	t.Parallel()
	const programs, rounds = 30, 3
	url, objects := databasetest.URL(t, database.Postgres), t.TempDir()
	var key string
	var all []*process
	var addresses []string
	for range 3 {
		address := testenv.FreeAddress(t)
		p := spawn(t, among(t, url, objects, "PORTICO_LISTEN="+address, "SANDBOX_MAX_PAUSED_PER_USER=100", "SANDBOX_POOL=1", "DRAIN_DELAY=3s", "LOG_LEVEL=error"))
		if p.key != "" {
			key = p.key
		}
		all, addresses = append(all, p), append(addresses, address)
	}
	front := behindHAProxy(t, key, addresses...)
	require.Equal(t, http.StatusNotFound, front.send(key, http.MethodGet, "/metrics", nil).status)

	paused := make([]ended, programs)
	for i := range paused {
		paused[i] = front.code("/exec/programmatic", map[string]any{"code": fmt.Sprintf(fewRounds, rounds, i), "tools": tools("ask")})
		require.Equal(t, "tool_call_required", paused[i].Status, "%+v", paused[i])
	}
	// A stream has its first event long before its run ends.
	id := ids.New(ids.Run)
	streamed := make(chan string, 1)
	go func() {
		streamed <- front.run(map[string]any{"code": "import time\nprint('begun', flush=True)\ntime.sleep(6)\nprint('done')", "resultId": id}).Status
	}()
	events, over := front.watch(t.Context(), key, id, 0, 1)
	require.NotEmpty(t, events)
	require.False(t, over)
	require.Empty(t, streamed, "the event came while its run went on")

	require.NoError(t, all[0].cmd.Process.Signal(syscall.SIGTERM))
	var working sync.WaitGroup
	var completed atomic.Int64
	for i, e := range paused {
		working.Go(func() {
			for e.Status == "tool_call_required" {
				e = front.code("/exec/programmatic", continuing(e))
			}
			if want := fmt.Sprintf("%d 3\n", i); e.Stdout != want {
				t.Errorf("%q is not %q: %+v", e.Stdout, want, e)
				return
			}
			completed.Add(1)
		})
	}
	working.Wait()
	require.EqualValues(t, programs, completed.Load())
	require.Equal(t, "completed", <-streamed)
	done := make(chan error, 1)
	go func() { done <- all[0].cmd.Wait() }()
	for ended := false; !ended; { // new programs meanwhile, and after it has gone
		select {
		case err := <-done:
			require.NoError(t, err, "the process that was asked to end")
			ended = true
		default:
		}
		require.Equal(t, "ok\n", front.code("/exec", map[string]any{"lang": "py", "code": "print('ok')"}).Stdout)
	}
}

const fewRounds = "total = 0\nfor n in range(%d):\n  r = await ask(n=n)\n  total += r['input']['n']\nprint(%d, total)"
