package app_test

import (
	"fmt"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
)

// at is a server in a process of its own, as the owner of a key sees it.
func (p *process) at(t *testing.T, listen, key string) *instance {
	t.Helper()
	return &instance{t: t, url: "http://" + listen, key: key}
}

// A process that is asked to end lets a paused program come to its end, which its
// caller continues meanwhile, and begins nothing new; then it is gone.
func TestAnEndingProcessFinishesItsWork(t *testing.T) {
	testenv.Slow(t, "two whole servers at work")
	t.Parallel()
	url := databasetest.URL(t, database.Postgres)
	other := serve(t, url)
	listen := testenv.FreeAddress(t)
	p := spawn(t, environ(t, url, "PORTICO_LISTEN="+listen, "ENDPOINT=http://"+listen, "DRAIN_DELAY=1s"))
	s := p.at(t, listen, other.key)
	program := map[string]any{"code": "for i in range(3):\n    print(await ask(n=i))", "tools": []map[string]any{
		{"name": "ask", "parameters": map[string]any{"type": "object", "properties": map[string]any{"n": map[string]any{"type": "integer"}}}},
	}}
	paused := s.code("/v1/exec/programmatic", program)
	require.Equal(t, "tool_call_required", paused.Status, "%+v", paused)

	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	ready := func() int { return s.send("", "GET", "/readyz", nil).status }
	require.Eventually(t, func() bool { return ready() == http.StatusServiceUnavailable }, time.Minute, 10*time.Millisecond)
	// New work is refused once balancers know; a call that is made at once is not.
	var refused answer
	require.Eventually(t, func() bool {
		refused = s.send(s.key, "POST", "/v1/sandbox/execute", map[string]any{"language": "python", "code": "print(1)"})
		return refused.status == http.StatusServiceUnavailable
	}, time.Minute, 10*time.Millisecond)
	require.NotEmpty(t, refused.header.Get("Retry-After"))
	require.Contains(t, refused.raw, "another process answers it")
	require.Equal(t, 200, s.send(s.key, "GET", "/v1/canvas/list", nil).status)
	require.Equal(t, 503, s.code("/v1/exec/programmatic", program).code)
	require.Never(t, func() bool {
		conn, err := net.Dial("tcp", listen)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	}, time.Second, 50*time.Millisecond, "it waits for the program, which nobody continues")

	for i := range 3 {
		require.Equal(t, "tool_call_required", paused.Status, "%+v", paused)
		paused = s.code("/v1/exec/programmatic", map[string]any{"continuation_token": paused.ContinuationToken, "tool_results": []map[string]any{
			{"call_id": paused.ToolCalls[0].ID, "result": fmt.Sprint("r", i)},
		}})
	}
	require.Equal(t, "r0\nr1\nr2\n", paused.Stdout, "%+v", paused)
	require.NoError(t, p.cmd.Wait())
	log := p.log.String()
	require.Contains(t, log, "request refused")
	require.NotContains(t, log, "ERROR", "nothing is wrong")
	require.Zero(t, other.count(`SELECT count(*) FROM tool_call_results WHERE status IN ('executing', 'failed')`))
	require.Equal(t, 1, other.count(`SELECT count(*) FROM nodes`), "it is gone at once")
}

// Where processes know each other, a new program that comes to one that ends is begun by
// another one.
func TestAnEndingProcessHandsNewProgramsOn(t *testing.T) {
	testenv.Slow(t, "two whole servers at work")
	t.Parallel()
	url, objects := databasetest.URL(t, database.Postgres), t.TempDir()
	other := serveWith(t, among(t, url, objects))
	listen := testenv.FreeAddress(t)
	p := spawn(t, among(t, url, objects, "PORTICO_LISTEN="+listen, "ENDPOINT=http://"+listen, "DRAIN_DELAY=0s"))
	s := p.at(t, listen, other.key)
	paused := s.code("/v1/exec/programmatic", map[string]any{"code": "print(await ask())", "tools": tools("ask")})
	require.Equal(t, "tool_call_required", paused.Status, "%+v", paused)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Eventually(t, func() bool { return s.send("", "GET", "/readyz", nil).status == 503 }, time.Minute, 10*time.Millisecond)
	before := other.app.Engine.Stats().Jobs
	require.Eventually(t, func() bool {
		e := s.code("/v1/exec/programmatic", map[string]any{"code": "print('new')", "tools": tools("ask")})
		require.Equal(t, "new\n", e.Stdout, "%+v", e)
		return other.app.Engine.Stats().Jobs > before
	}, time.Minute, 10*time.Millisecond)
	require.Equal(t, "completed", s.code("/v1/exec/programmatic", continuing(paused)).Status)
	_, err := p.cmd.Process.Wait()
	require.NoError(t, err)
}

// A second signal, and an interrupt, do not wait for a program.
func TestAnEndIsNotWaitedForByWhoDoesNotWant(t *testing.T) {
	testenv.Slow(t, "whole servers at work")
	t.Parallel()
	for name, signals := range map[string][]syscall.Signal{
		"an interrupt":  {syscall.SIGINT},
		"a second time": {syscall.SIGTERM, syscall.SIGTERM},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listen := testenv.FreeAddress(t)
			p := spawn(t, environ(t, databasetest.URL(t, database.SQLite), "PORTICO_LISTEN="+listen, "ENDPOINT=http://"+listen, "PORTICO_SHUTDOWN_GRACE=0s"))
			s := p.at(t, listen, p.key)
			paused := s.code("/v1/exec/programmatic", map[string]any{"code": "print(await ask())", "tools": []map[string]any{{"name": "ask"}}})
			require.Equal(t, "tool_call_required", paused.Status, "%+v", paused)
			for i, signal := range signals {
				require.NoError(t, p.cmd.Process.Signal(signal))
				if i < len(signals)-1 {
					require.Eventually(t, func() bool { return s.send("", "GET", "/readyz", nil).status == 503 }, time.Minute, 10*time.Millisecond)
				}
			}
			_, err := p.cmd.Process.Wait()
			require.NoError(t, err)
		})
	}
}

// Agents of a process that ends go on in another one, from where they are: nothing is
// executed twice, and nothing is interrupted.
func TestAgentsLeaveAnEndingProcess(t *testing.T) {
	testenv.Slow(t, "two whole servers at work")
	t.Parallel()
	upstream, files := noted(t)
	script, env := script(t, `
- output: [{text: "I ask. "}, {call: {name: always_save, arguments: {text: one, file_name_title: x}}}]
- output: [{call: {name: never_save, arguments: {text: two, file_name_title: x}}}]
- expect: ['{"saved":"two"}', '{"saved":"one"}', "I ask."]
  output: [{text: Done.}]
`)
	url := databasetest.URL(t, database.Postgres)
	other := serve(t, url, env...)
	other.apply(t, files)
	listen := testenv.FreeAddress(t)
	p := spawn(t, environ(t, url, append(env, "PORTICO_LISTEN="+listen, "ENDPOINT=http://"+listen, "DRAIN_DELAY=0s")...))
	s := p.at(t, listen, other.key)
	a := s.send(s.key, "POST", "/v1/skill/invoke", map[string]any{"query": "Save.", "toolsets": []string{"always", "never"}, "ptc": "off", "resultId": "ar-leaves"})
	require.Equal(t, 200, a.status, a.raw)
	call := other.waits(1)[0].CallID
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	_, err := p.cmd.Process.Wait()
	require.NoError(t, err, "nobody waits for the person")
	require.Equal(t, 200, other.decide(call, "allow").status)
	r := other.finished(t, other.key, "ar-leaves")
	require.Equal(t, "finish", r.Status, "%v", r.Errors)
	require.Equal(t, []string{"one", "two"}, upstream.all())
	require.Len(t, script.Requests(), 3)
	require.Zero(t, other.count(`SELECT count(*) FROM tool_call_results WHERE status <> 'completed'`))
	require.Zero(t, other.count(`SELECT count(*) FROM agent_turns`))
}
