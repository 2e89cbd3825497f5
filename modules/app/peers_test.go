package app_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/sandbox"
)

// among is the environment of a process that the others of its database reach.
func among(t *testing.T, url, objects string, more ...string) []string {
	t.Helper()
	return environ(t, url, append([]string{"OBJECT_STORAGE_FOLDER=" + objects, "PORTICO_PEER_LISTEN=" + testenv.FreeAddress(t)}, more...)...)
}

// together starts processes that share everything, and know each other.
func together(t *testing.T, n int, more ...string) []*instance {
	t.Helper()
	url, objects := databasetest.URL(t, database.Postgres), t.TempDir()
	all := make([]*instance, n)
	for i := range all {
		all[i] = serveWith(t, among(t, url, objects, more...))
		all[i].key = all[0].key // it was shown once
	}
	return all
}

// balanced is all of them behind a load balancer that sends each request to the next.
func balanced(t *testing.T, all []*instance) *instance {
	t.Helper()
	var turn atomic.Int64
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		to, err := url.Parse(all[int(turn.Add(1))%len(all)].url)
		if err != nil {
			panic(err) // it is an address that a server listens on
		}
		r.SetURL(to)
		r.Out.Host = r.In.Host
	}}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// An answer may begin before the proxy has seen the end of the request: it would
		// be cut off.
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	return &instance{t: t, url: web.URL, key: all[0].key}
}

const fiveRounds = "total = 0\nfor n in range(5):\n  r = await ask(n=n)\n  total += r['input']['n']\nprint(%d, total)"

// continuing is the request that continues a program.
func continuing(e ended) map[string]any {
	return map[string]any{"continuation_token": e.ContinuationToken, "tool_results": results(e)}
}

// Programs that pause go on whichever process their continuations come to, and no
// other user reaches them from any of them.
func TestAnyProcessContinuesAProgram(t *testing.T) {
	testenv.Slow(t, "three whole servers at work")
	t.Parallel()
	const programs = 20
	all := together(t, 3, "SANDBOX_MAX_PAUSED_PER_USER=100")
	front := balanced(t, all)
	paused := make([]ended, programs)
	for i := range paused {
		paused[i] = front.code("/exec/programmatic", map[string]any{"code": fmt.Sprintf(fiveRounds, i), "tools": tools("ask")})
		require.Equal(t, "tool_call_required", paused[i].Status, "%+v", paused[i])
	}
	for _, s := range all {
		require.Positive(t, s.app.Engine.Stats().Paused, "each process holds some")
	}
	ben := all[0].another("ben")
	var said []string
	for _, s := range all {
		e := s.codeAs(ben, "/exec/programmatic", continuing(paused[0]))
		said = append(said, fmt.Sprint(e.code, e.Error, e.Message))
	}
	require.Equal(t, []string{said[0], said[0], said[0]}, said)
	require.Contains(t, said[0], "403")
	var working sync.WaitGroup
	for i, e := range paused {
		working.Go(func() {
			for e.Status == "tool_call_required" {
				e = front.code("/exec/programmatic", continuing(e))
			}
			if want := fmt.Sprintf("%d 10\n", i); e.Stdout != want {
				t.Errorf("%q is not %q: %+v", e.Stdout, want, e)
			}
		})
	}
	working.Wait()
	require.Equal(t, programs, all[0].count("SELECT count(*) FROM code_executions WHERE status = 'completed'"))
	for _, s := range all {
		require.Zero(t, s.app.Engine.Stats().Paused)
	}
}

// A cancel ends the program in whichever process it is, and nobody else's.
func TestAnyProcessCancelsAProgram(t *testing.T) {
	testenv.Slow(t, "two whole servers at work")
	t.Parallel()
	all := together(t, 2)
	one, other := all[0], all[1]
	const id = "the-request"
	e := one.code("/exec/programmatic", map[string]any{"code": "await ask()\nprint('ran')", "tools": tools("ask")}, "X-LibreChat-Code-Request-ID", id)
	require.Equal(t, "tool_call_required", e.Status, "%+v", e)
	cancel := map[string]any{"request_id": id}
	require.Equal(t, 200, other.send(one.another("ben"), "POST", "/exec/programmatic/cancel", cancel).status, "it is not theirs")
	require.Equal(t, 1, one.app.Engine.Stats().Paused)
	got := other.send(one.key, "POST", "/exec/programmatic/cancel", cancel)
	require.Equal(t, http.StatusAccepted, got.status, got.raw)
	require.Zero(t, one.app.Engine.Stats().Paused, "nothing of it is left")
	require.Equal(t, "Execution was cancelled", other.code("/exec/programmatic", continuing(e)).Error)
	got = other.send(one.key, "POST", "/exec/programmatic/cancel", cancel)
	require.Equal(t, http.StatusOK, got.status, got.raw)
}

// An answer that its caller never had is given again, by any process, and the program
// does not go on twice.
func TestALostAnswerIsGivenAgain(t *testing.T) {
	testenv.Slow(t, "two whole servers at work")
	t.Parallel()
	all := together(t, 2)
	to, err := url.Parse(all[1].url)
	require.NoError(t, err)
	lossy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) },
		ModifyResponse: func(r *http.Response) error {
			_, err := io.Copy(io.Discard, r.Body)
			return errors.Join(err, errors.New("lost"))
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	})
	t.Cleanup(lossy.Close)
	lost := &instance{t: t, url: lossy.URL, key: all[0].key}
	e := all[0].code("/exec/programmatic", map[string]any{"code": "n = 0\nfor _ in range(3):\n  await ask(n=n)\n  n += 1\nprint(n)", "tools": tools("ask")})
	for e.Status == "tool_call_required" {
		next := continuing(e)
		text, err := json.Marshal(next)
		require.NoError(t, err)
		_, err = lost.do(lost.key, "POST", "/exec/programmatic", string(text), true, nil)
		require.Error(t, err, "the answer is lost")
		there, here := all[1].code("/exec/programmatic", next), all[0].code("/exec/programmatic", next)
		require.Equal(t, 200, there.code, "%+v", there)
		there.header, here.header = nil, nil
		require.Equal(t, here, there)
		e = here
	}
	require.Equal(t, "3\n", e.Stdout)
}

// A program of a process that was killed is lost when the lease of that process is over,
// and not before, whoever has its address meanwhile. So is the answer of one that had
// ended.
func TestProgramsOfAKilledProcess(t *testing.T) {
	testenv.Slow(t, "three whole servers at work")
	t.Parallel()
	url, objects := databasetest.URL(t, database.Postgres), t.TempDir()
	s := serveWith(t, among(t, url, objects, "TOOL_LEASE=10s"))
	listen, reused := testenv.FreeAddress(t), "PORTICO_PEER_LISTEN="+testenv.FreeAddress(t)
	victim := spawn(t, among(t, url, objects, "TOOL_LEASE=10s", "PORTICO_LISTEN="+listen, "LOG_LEVEL=error", reused))
	there := &instance{t: t, url: "http://" + listen, key: s.key}
	e := there.code("/exec/programmatic", map[string]any{"code": "for _ in range(9): await ask()\nprint('ran')", "tools": tools("ask")})
	require.Equal(t, "tool_call_required", e.Status, "%+v", e)
	e = s.code("/exec/programmatic", continuing(e))
	require.Equal(t, "tool_call_required", e.Status, "%+v", e)
	// Of this one, the last answer gets lost.
	last := there.code("/exec/programmatic", map[string]any{"code": "await ask()", "tools": tools("ask")})
	require.Equal(t, http.StatusOK, there.code("/exec/programmatic", continuing(last)).code)
	require.NoError(t, victim.cmd.Process.Kill())
	require.Error(t, victim.cmd.Wait())

	got := s.code("/exec/programmatic", continuing(e))
	require.Equal(t, http.StatusServiceUnavailable, got.code, "%+v", got)
	require.NotEmpty(t, got.header.Get("Retry-After"))
	heir := serveWith(t, among(t, url, objects, "TOOL_LEASE=10s", reused))
	heir.key = s.key
	for _, s := range []*instance{s, heir} {
		require.Eventually(t, func() bool {
			got = s.code("/exec/programmatic", continuing(e))
			return got.code != http.StatusServiceUnavailable
		}, time.Minute, 100*time.Millisecond)
		require.Equal(t, http.StatusNotFound, got.code, "%+v", got)
		require.Contains(t, got.Error, "Execution was lost")
		require.Contains(t, got.Message, "Run the program again")
		got = s.code("/exec/programmatic", continuing(last))
		require.Equal(t, http.StatusNotFound, got.code, "%+v", got)
		require.Contains(t, got.Message, "It has ended (completed), and its answer was lost with the server process. Find out what it has done")
	}
	require.Equal(t, "ok\n", strings.ToLower(heir.code("/exec", map[string]any{"lang": "py", "code": "print('ok')"}).Stdout))
}

// A program that finds the queue of its process full is begun by another one, once, and
// goes on there; where all are full, it is refused as ever.
func TestAFullProcessLetsAnotherOneBegin(t *testing.T) {
	testenv.Slow(t, "two whole servers at work")
	t.Parallel()
	all := together(t, 2, "SANDBOX_MAX_CONCURRENT=1", "SANDBOX_MAX_QUEUE=0", "SANDBOX_MAX_PAUSED=1", "TOOL_LEASE=6s")
	one, other := all[0], all[1]
	require.Eventually(t, func() bool { return one.count("SELECT count(*) FROM nodes WHERE capacity > 0") == 2 }, time.Minute, 10*time.Millisecond)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	var working sync.WaitGroup
	occupy := func(s *instance) {
		working.Go(func() {
			_, _ = s.app.Engine.Run(ctx, sandbox.Job{Code: "import time\ntime.sleep(600)", Language: sandbox.Python, Timeout: time.Hour})
		})
		require.Eventually(t, func() bool { return s.app.Engine.Stats().Running == 1 }, time.Minute, time.Millisecond)
	}
	occupy(one)
	for range 2 {
		require.Equal(t, "there\n", one.code("/exec", map[string]any{"lang": "py", "code": "print('there')"}).Stdout)
		require.Equal(t, "there\n", one.run(map[string]any{"code": "print('there')"}).Stdout)
	}
	require.Zero(t, one.app.Engine.Stats().Refused)
	e := other.code("/exec/programmatic", map[string]any{"code": "await ask()\nprint('ran')", "tools": tools("ask")})
	require.Equal(t, "tool_call_required", e.Status, "%+v", e)
	require.Equal(t, "ran\n", one.code("/exec/programmatic", continuing(e)).Stdout, "a continuation goes where its program is")
	require.Contains(t, one.send("", "GET", "/metrics", nil).raw, "portico_sandbox_spilled_total 4")

	occupy(other)
	got := one.code("/exec", map[string]any{"lang": "py", "code": "print(1)"})
	require.Equal(t, http.StatusTooManyRequests, got.code, "%+v", got)
	require.Equal(t, 1, other.app.Engine.Stats().Refused)
	require.Zero(t, one.app.Engine.Stats().Refused)
	leave()
	working.Wait()
}
