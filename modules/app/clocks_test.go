package app_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/app"
)

// held is an upstream that answers when the test lets it.
func held(t *testing.T) (web *httptest.Server, came chan struct{}, answer chan struct{}) {
	t.Helper()
	came, answer = make(chan struct{}, 10), make(chan struct{})
	web = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		came <- struct{}{}
		select {
		case <-answer:
		case <-r.Context().Done():
		}
		_, _ = w.Write([]byte(`{}`))
	}))
	t.Cleanup(web.Close)
	return web, came, answer
}

// slow is a tool of an upstream.
func slow(web *httptest.Server) map[string]string {
	return map[string]string{"slow.yaml": `{key: slow, name: X, domain: "` + web.URL + `", egress: {allow: [127.0.0.0/8]}, billing: 5, methods: [{name: go, endpoint: /go, request: {type: object}}]}`}
}

const callsSlow = `{"toolsetKey":"slow","toolName":"go"}`

// Machines whose clocks are two minutes apart, with a lease of ten seconds: neither
// gives up what the other one works on, and who asks either sees the same.
func TestClocksMayBeWrong(t *testing.T) {
	testenv.Slow(t, "two whole servers at work")
	t.Parallel()
	url := databasetest.URL(t, database.Postgres)
	web, came, answer := held(t)
	at := func(ahead time.Duration) *instance {
		return serveOptions(t, environ(t, url, "TOOL_LEASE=10s"), app.Options{Wall: func() time.Time { return time.Now().Add(ahead) }})
	}
	ahead, behind := at(time.Minute), at(-time.Minute)
	key := ahead.key
	ahead.apply(t, slow(web))
	done := make(chan answerOf, 2)
	for _, s := range []*instance{ahead, behind} {
		go func() { done <- answerOf{s, s.send(key, "POST", "/v1/tool/execute", callsSlow)} }()
		<-came
	}
	rounds := func(s *instance) int {
		return s.count(`SELECT CAST(extract(epoch FROM max(expires_at) - max(started_at)) AS integer) FROM nodes WHERE node_id = ?`, s.app.Owner)
	}
	for _, s := range []*instance{ahead, behind} { // each looks twice at what others have left behind
		require.Eventually(t, func() bool { return rounds(s) >= 18 }, time.Minute, 50*time.Millisecond)
	}
	require.Equal(t, 2, ahead.count(`SELECT count(*) FROM tool_call_results WHERE status = 'executing'`))
	close(answer)
	for range 2 {
		got := <-done
		require.Equal(t, http.StatusOK, got.status, got.raw)
		require.NotContains(t, got.raw, "errorCode")
	}
	require.Equal(t, 2, ahead.count(`SELECT count(*) FROM tool_call_results WHERE status = 'completed'`))
	require.Equal(t, 2, ahead.count(`SELECT count(*) FROM credit_usages`))
	require.Zero(t, ahead.count(`SELECT count(*) FROM tool_call_results WHERE abs(extract(epoch FROM created_at - now())) > 50`), "times are the database's")
	for _, s := range []*instance{ahead, behind} {
		require.Equal(t, 2, strings.Count(s.send(key, "GET", "/v1/tool/calls?limit=10", nil).raw, `"status":"completed"`))
	}
}

type answerOf struct {
	from *instance
	answer
}

// A process that the machine stops for longer than its lease has lost its work: others
// fail it, uncharged. When it goes on it ends what it had, and serves again.
func TestAStoppedProcessEndsItsWork(t *testing.T) {
	testenv.Slow(t, "two whole servers at work")
	t.Parallel()
	url := databasetest.URL(t, database.Postgres)
	web, came, answer := held(t)
	other := serve(t, url, "TOOL_LEASE=6s")
	other.apply(t, slow(web))
	listen := testenv.FreeAddress(t)
	p := spawn(t, environ(t, url, "PORTICO_LISTEN="+listen, "ENDPOINT=http://"+listen, "TOOL_LEASE=6s"))
	s := &instance{t: t, url: "http://" + listen, key: other.key}
	done := make(chan answerOf, 1)
	go func() { done <- answerOf{s, s.send(other.key, "POST", "/v1/tool/execute", callsSlow)} }()
	<-came
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGSTOP))
	require.Eventually(t, func() bool {
		return other.count(`SELECT count(*) FROM tool_call_results WHERE status = 'failed'`) == 1
	}, time.Minute, 50*time.Millisecond)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGCONT))
	close(answer)
	got := <-done
	require.Contains(t, got.raw, "errorCode", "nobody is told that it was a success")
	require.Zero(t, other.count(`SELECT count(*) FROM credit_usages`))
	require.Equal(t, 1, other.count(`SELECT count(*) FROM tool_call_results`))

	// It is among the others again, and works.
	require.Eventually(t, func() bool {
		return other.count(`SELECT count(*) FROM nodes WHERE expires_at > now()`) == 2
	}, time.Minute, 50*time.Millisecond)
	var again struct{ Status string }
	require.Eventually(t, func() bool {
		a := s.send(other.key, "POST", "/v1/tool/execute", callsSlow)
		return json.Unmarshal(a.body.Data, &again) == nil && strings.EqualFold(again.Status, "success")
	}, time.Minute, 50*time.Millisecond)
	require.Positive(t, other.count(`SELECT count(*) FROM credit_usages`))
}
