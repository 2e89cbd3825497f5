package app_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/app"
	"github.com/portico-run/portico/modules/cli"
	"github.com/portico-run/portico/modules/connector/mcp/hubtest"
)

// victim makes this program a server that a test kills.
const victim = "PORTICO_TEST_VICTIM"

func TestMain(m *testing.M) {
	hubtest.Main()
	if os.Getenv(victim) != "" {
		os.Exit(cli.Main(context.Background(), []string{"serve"}, os.Environ(), os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// process is a server in a process of its own.
type process struct {
	cmd *exec.Cmd
	url string
	key string
	log bytes.Buffer // whole when the process is waited for
}

// spawn starts a server and waits until it answers.
func spawn(t *testing.T, env []string) *process {
	t.Helper()
	p := &process{cmd: exec.CommandContext(t.Context(), os.Args[0])}
	p.cmd.Env = append(append([]string{}, env...), victim+"=1", "PATH="+os.Getenv("PATH"))
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	p.cmd.Stderr = io.MultiWriter(t.Output(), &p.log)
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may be dead already
		_ = p.cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	for p.url == "" && lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if strings.HasPrefix(line, "rf_") {
			p.key = line
		}
		if before, _, ok := strings.Cut(line, "/docs describes every route"); ok {
			p.url = before
		}
	}
	require.NotEmpty(t, p.url, "the server did not start")
	go func() { _, _ = io.Copy(io.Discard, out) }() // ends with the process
	return p
}

func quote(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // strings always have a JSON form
	}
	return string(b)
}

// A server that is killed in the middle of a program loses nothing: what had
// happened is recorded and billed once, what had not is failed and free.
func TestKilledServer(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	for _, d := range databasetest.Of(t) {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			url := databasetest.URL(t, d)
			listen := testenv.FreeAddress(t)
			env := environ(t, url, "PORTICO_LISTEN="+listen, "ENDPOINT=http://"+listen, "TOOL_LEASE=3s", "LOG_LEVEL=error")
			p := spawn(t, env)
			id := ids.New(ids.Run)
			s := &instance{t: t, url: "http://" + listen, key: p.key}
			go func() {
				body := `{"language":"python","resultId":"` + id + `","code":` + quote(many) + `}`
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/sandbox/execute", strings.NewReader(body))
				if err != nil {
					return
				}
				r.Header.Set("X-API-Key", p.key)
				r.Header.Set("Content-Type", "application/json")
				if resp, err := http.DefaultClient.Do(r); err == nil { // it is cut off
					_ = resp.Body.Close()
				}
			}()
			events, ended := s.watch(t.Context(), p.key, id, 0, 150)
			require.False(t, ended)
			require.NoError(t, p.cmd.Process.Kill())
			_ = p.cmd.Wait()

			again := spawn(t, env)
			require.Empty(t, again.key, "a second first user was made")
			s.url = "http://" + listen
			// The stream goes on where it broke off, and ends.
			more, ended := s.watch(t.Context(), p.key, id, events[len(events)-1].ID, 1<<30)
			require.True(t, ended)
			all := append(events, more...)
			for i, e := range all {
				require.Equal(t, int64(i+1), e.ID)
			}
			require.Equal(t, "end", all[len(all)-1].Name)

			db := databasetest.OpenURL(t, url, nil)
			n := func(sql string, args ...any) int { return app.Count(t, db, sql, args...) }
			require.Zero(t, n(`SELECT count(*) FROM tool_call_results WHERE status = 'executing'`))
			completed := n(`SELECT count(*) FROM tool_call_results WHERE type = 'ptc' AND status = 'completed'`)
			require.Positive(t, completed)
			require.Less(t, completed, 200)
			require.Equal(t, completed, n(`SELECT count(*) FROM credit_usages`))
			require.Equal(t, completed, n(`SELECT count(*) FROM credit_usages u JOIN tool_call_results c ON c.call_id = u.tool_call_id WHERE c.status = 'completed'`))
			require.Equal(t, 1, n(`SELECT count(*) FROM action_results WHERE status = 'error'`))
			usages := n(`SELECT CAST(sum(amount) * 10 AS integer) FROM credit_usages`)
			debts := n(`SELECT CAST(sum(balance) * 10 AS integer) FROM credit_debts`)
			require.Equal(t, completed*5, usages)
			require.Equal(t, usages, debts, "nothing was granted, so that everything is owed")
		})
	}
}

// Two servers on one PostgreSQL: the one that ran nothing shows everything.
func TestAnotherProcessShowsTheRun(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	url := databasetest.URL(t, database.Postgres)
	worker := serve(t, url)
	watcher := serve(t, url, "PTC_POLL_INTERVAL_MS=60000")
	id := ids.New(ids.Run)
	done := make(chan outcome, 1)
	go func() { done <- worker.run(map[string]any{"code": many, "resultId": id}) }()
	events, ended := watcher.watch(t.Context(), worker.key, id, 0, 1<<30)
	require.True(t, ended)
	require.Len(t, (<-done).ToolCalls, 200)
	require.Len(t, events, 1+2+400+1+1) // start, the program, its calls, its line, end
}

func TestStopEndsWhatRuns(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	url := databasetest.URL(t, database.SQLite)
	s := serve(t, url, "PORTICO_SHUTDOWN_GRACE=1s")
	id := ids.New(ids.Run)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		body := `{"code":"import time; time.sleep(60)","language":"python","resultId":"` + id + `"}`
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/sandbox/execute", strings.NewReader(body))
		if err != nil {
			return
		}
		r.Header.Set("X-API-Key", s.key)
		r.Header.Set("Content-Type", "application/json")
		if resp, err := http.DefaultClient.Do(r); err == nil { // it may be cut off
			_ = resp.Body.Close()
		}
	}()
	_, ended := s.watch(t.Context(), s.key, id, 0, 2)
	require.False(t, ended)
	begin := time.Now()
	s.stop()
	<-answered
	require.Less(t, time.Since(begin), 20*time.Second)
	db := databasetest.OpenURL(t, url, nil)
	require.Zero(t, app.Count(t, db, `SELECT count(*) FROM tool_call_results WHERE status = 'executing'`))
	require.Equal(t, 1, app.Count(t, db, `SELECT count(*) FROM action_results WHERE status = 'aborted'`))
}
