package app_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/configs"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/app"
)

// sandboxNode is a process that runs programs of servers.
type sandboxNode struct {
	t       *testing.T
	cmd     *exec.Cmd
	address string
}

// spawnNode starts a sandbox node in production mode, which has nothing in its
// environment that it does not need, and waits until it takes programs.
func spawnNode(t *testing.T, more ...string) *sandboxNode {
	t.Helper()
	n := &sandboxNode{t: t, cmd: exec.CommandContext(t.Context(), os.Args[0]), address: testenv.FreeAddress(t)}
	n.cmd.Env = append([]string{
		victim + "=1", "PORTICO_ROLE=sandbox", "PORTICO_MODE=production", "SANDBOX_NODE_LISTEN=" + n.address, "LOG_LEVEL=error",
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "XDG_DATA_HOME=" + os.Getenv("XDG_DATA_HOME"),
	}, more...)
	n.cmd.Stderr = t.Output()
	require.NoError(t, n.cmd.Start())
	t.Cleanup(func() {
		_ = n.cmd.Process.Kill() // it may be dead already
		_ = n.cmd.Wait()
	})
	require.Eventually(t, func() bool { return n.get("/readyz") != "" }, time.Minute, 20*time.Millisecond, "the node did not start")
	return n
}

// get returns an answer of the node; empty where it has none.
func (n *sandboxNode) get(path string) string {
	r, err := http.NewRequestWithContext(n.t.Context(), http.MethodGet, "http://"+n.address+path, nil)
	if err != nil {
		return ""
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		return ""
	}
	return string(text)
}

// number is a number of the node's metrics.
func (n *sandboxNode) number(name string) int {
	found := regexp.MustCompile(`(?m)^` + name + ` (\d+)$`).FindStringSubmatch(n.get("/metrics"))
	if found == nil {
		return -1
	}
	v, err := strconv.Atoi(found[1])
	require.NoError(n.t, err)
	return v
}

func (n *sandboxNode) kill() {
	require.NoError(n.t, n.cmd.Process.Kill())
	_ = n.cmd.Wait()
}

// split is the environment of a server whose programs run on nodes, and these. Nothing
// for programs is on its own machine.
func split(t *testing.T, nodes int) (env []string, all []*sandboxNode) {
	t.Helper()
	listen := testenv.FreeAddress(t)
	env = environ(t, databasetest.URL(t, database.SQLite), "PORTICO_LISTEN="+listen, "ENDPOINT=http://"+listen, "SANDBOX_NODES=127.0.0.1:1",
		"PORTICO_ROLE=api", "SANDBOX_DRIVER=remote", "SANDBOX_ROOT=/nonexistent", "ENCRYPTION_KEY="+strings.Repeat("5e", 32))
	c, err := configs.Load(configs.Options{Environ: env})
	require.NoError(t, err)
	keys, err := app.NodeKeys(c)
	require.NoError(t, err)
	var addresses []string
	for range nodes {
		n := spawnNode(t, "SANDBOX_NODE_TRUST="+strings.Join(keys, ","))
		all, addresses = append(all, n), append(addresses, n.address)
	}
	return append(env, "SANDBOX_NODES="+strings.Join(addresses, ",")), all
}

// Programs of a server that runs none itself run on nodes: they call tools, pause and go
// on, and keep variables. A node that is killed loses its own programs, which say so, and
// the next ones run on the other.
func TestProgramsRunOnSandboxNodes(t *testing.T) {
	testenv.Slow(t, "a whole server and two sandbox nodes")
	t.Parallel()
	env, nodes := split(t, 2)
	s := serveWith(t, env)
	got := s.run(map[string]any{"code": many})
	require.Equal(t, "completed", got.Status, got.Stderr)
	require.Len(t, got.ToolCalls, 200)
	e, rounds := s.drive(map[string]any{"code": fmt.Sprintf(fiveRounds, 7), "tools": tools("ask")})
	require.Equal(t, "7 10\n", e.Stdout, "%+v", e)
	require.Len(t, rounds, 5)
	first := s.interpret("c", cell("x = 20"))
	require.True(t, first.Fresh)
	again := s.interpret("c", cell("print(x + 1)"))
	require.Equal(t, "21\n", again.Stdout, again.Stderr)
	for _, n := range nodes {
		secretless(t, n.cmd.Process.Pid)
	}
	checks := map[string]bool{}
	for _, f := range s.app.Doctor(t.Context()) {
		checks[f.Name] = f.OK
	}
	require.True(t, checks["sandbox: node "+nodes[0].address], checks)

	paused := s.code("/exec/programmatic", map[string]any{"code": fmt.Sprintf(fiveRounds, 8), "tools": tools("ask")})
	require.Equal(t, "tool_call_required", paused.Status)
	done := make(chan outcome, 1)
	go func() {
		done <- s.run(map[string]any{"code": "print('runs', flush=True)\nimport time\ntime.sleep(120)", "timeoutMs": 120_000})
	}()
	holder := func() *sandboxNode {
		for _, n := range nodes {
			if n.number("portico_sandbox_running") == 1 {
				return n
			}
		}
		return nil
	}
	require.Eventually(t, func() bool { return holder() != nil }, time.Minute, 20*time.Millisecond)
	dies := holder()
	killed := time.Now()
	dies.kill()
	lost := <-done
	require.Less(t, time.Since(killed), 20*time.Second)
	require.NotEqual(t, "completed", lost.Status)
	require.Contains(t, lost.Stderr, "The program was lost: the sandbox node that ran it is gone")
	for range 3 {
		require.Equal(t, "on\n", s.run(map[string]any{"code": "print('on')"}).Stdout)
	}
}

// secretless fails where a process has something in its environment that is a secret.
func secretless(t *testing.T, pid int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	require.NoError(t, err)
	require.Contains(t, string(text), "PORTICO_ROLE=sandbox")
	for _, secret := range []string{"ENCRYPTION", "DATABASE", "JWT", "S3_", "TOOLSET_", "API_KEY", strings.Repeat("5e", 32)} {
		require.NotContains(t, string(text), secret)
	}
}

// A server that is killed takes its programs along, wherever they run.
func TestProgramsOnNodesEndWithTheirServer(t *testing.T) {
	testenv.Slow(t, "a whole server and a sandbox node")
	t.Parallel()
	env, nodes := split(t, 1)
	p := spawn(t, env)
	var at string
	for _, e := range env {
		if listen, ok := strings.CutPrefix(e, "PORTICO_LISTEN="); ok {
			at = "http://" + listen
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, at+"/v1/sandbox/execute", strings.NewReader(`{"language":"python","code":"while True: pass","timeoutMs":200000}`))
		if err != nil {
			return
		}
		r.Header.Set("X-API-Key", p.key)
		r.Header.Set("Content-Type", "application/json")
		if answer, err := http.DefaultClient.Do(r); err == nil { // it is cut off
			_ = answer.Body.Close()
		}
	}()
	require.Eventually(t, func() bool { return nodes[0].number("portico_sandbox_running") == 1 }, time.Minute, 20*time.Millisecond)
	require.NoError(t, p.cmd.Process.Kill())
	require.Eventually(t, func() bool { return nodes[0].number("portico_sandbox_running") == 0 }, 20*time.Second, 20*time.Millisecond)
	require.NoError(t, nodes[0].cmd.Process.Signal(syscall.SIGTERM))
	state, err := nodes[0].cmd.Process.Wait()
	require.NoError(t, err)
	require.True(t, state.Success(), "it drains and ends: %s", state)
}

// A sandbox node that is given a secret does not start.
func TestASandboxNodeTakesNoSecret(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{"ENCRYPTION_KEY=" + strings.Repeat("5e", 32), "DATABASE_URL=sqlite:x.db", "JWT_SECRET=" + strings.Repeat("s", 32), "TOOLSET_X_KEY=x", "S3_SECRET_KEY=x", "MODEL_API_KEY=x"} {
		_, err := configs.Load(configs.Options{Environ: []string{"PORTICO_ROLE=sandbox", "PORTICO_MODE=production", secret}})
		name, _, _ := strings.Cut(secret, "=")
		require.ErrorContains(t, err, name)
		require.ErrorContains(t, err, "must not be set where the role is sandbox")
	}
	_, err := configs.Load(configs.Options{Environ: []string{"PORTICO_ROLE=sandbox", "PORTICO_MODE=production"}})
	require.NoError(t, err)
	for _, c := range []struct{ env, problem string }{
		{"PORTICO_ROLE=api", "must be remote"},
		{"PORTICO_ROLE=sandbox SANDBOX_DRIVER=remote", "must not be remote"},
		{"SANDBOX_DRIVER=remote", "must say where sandbox nodes are"},
		{"SANDBOX_DRIVER=remote SANDBOX_NODES=sandbox:5803", "needs an ENCRYPTION_KEY of your own"},
		{"SANDBOX_NODE_TLS_CERT=x", "all three or none"},
	} {
		_, err := configs.Load(configs.Options{Environ: strings.Fields(c.env)})
		require.ErrorContains(t, err, c.problem)
	}
}
