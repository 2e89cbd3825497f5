package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/program"
	"github.com/portico-run/portico/modules/sandbox"
)

const (
	sleeping = "import time\ntime.sleep(100)"
	execute  = "/v1/sandbox/execute"
)

// A user who fills a quarter of the turns and of the queue, over whichever
// routes, is told when to come back. Programs of others begin at once.
func TestOneUserDoesNotTakeTheSandbox(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite), "SANDBOX_MAX_CONCURRENT=8", "SANDBOX_MAX_QUEUE=8")
	ben := s.another("ben")
	bodies := map[string]map[string]any{
		"/exec":              {"lang": "py", "code": sleeping},
		"/exec/programmatic": {"code": sleeping},
		execute:              {"language": "python", "code": sleeping},
	}
	ctx, leave := context.WithCancel(t.Context())
	var held sync.WaitGroup
	hold := func(path string) {
		body, err := json.Marshal(bodies[path])
		require.NoError(t, err)
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+path, bytes.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("X-API-Key", s.key)
		r.Header.Set("Content-Type", "application/json")
		held.Go(func() {
			if resp, err := http.DefaultClient.Do(r); err == nil {
				resp.Body.Close()
			}
		})
	}
	hold("/exec")
	hold(execute)
	require.Eventually(t, func() bool { return s.app.Engine.Stats().Running == 2 }, 20*time.Second, time.Millisecond)
	hold("/exec/programmatic")
	hold("/exec")
	require.Eventually(t, func() bool { return s.app.Engine.Stats().Queued == 2 }, 20*time.Second, time.Millisecond)

	for path, body := range bodies {
		a := s.send(s.key, http.MethodPost, path, body)
		require.Equal(t, http.StatusTooManyRequests, a.status, a.raw)
		require.Equal(t, "1", a.header.Get("Retry-After"), path)
	}
	require.Equal(t, "1\n", s.codeAs(ben, "/exec", map[string]any{"lang": "py", "code": "print(1)"}).Stdout)
	stats := s.app.Engine.Stats()
	require.Equal(t, sandbox.Counts{Running: 2, Queued: 2}, stats.Counts, "his began and ended while hers waited")
	leave()
	held.Wait()
}

// A user's interpreters give way to that user's own, so that others keep what
// theirs hold.
func TestOneUserDoesNotTakeTheInterpreters(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite), "AGENT_MAX_INTERPRETERS=4")
	s.another("ben")
	users, err := s.app.Accounts.Service.Users(t.Context())
	require.NoError(t, err)
	run := func(user int, place, code string) bool {
		t.Helper()
		o, err := s.app.Interpreters.Service.Run(t.Context(), actor.Actor{UID: users[user].UID, Scope: actor.Full}, place,
			program.Request{Code: code, Language: sandbox.Python, Plain: true})
		require.NoError(t, err)
		return o.Fresh
	}
	require.True(t, run(0, "his", "x = 1"))
	for _, place := range []string{"a", "b", "c", "d", "e"} {
		require.True(t, run(1, place, "x = 1"))
	}
	require.False(t, run(0, "his", "x"))
	require.True(t, run(1, "d", "x = 1"), "hers is one of four")
}
