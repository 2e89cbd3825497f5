package app_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/testenv"
)

// started is the answer to a program in the background.
type started struct {
	ResultID, CallID, Status string
	Version                  int
}

func (s *instance) start(key string, body map[string]any) started {
	s.t.Helper()
	body["background"], body["language"] = true, "python"
	a := s.send(key, "POST", "/v1/sandbox/execute", body)
	require.Equal(s.t, 200, a.status, a.raw)
	var b started
	require.NoError(s.t, json.Unmarshal(a.body.Data, &b))
	require.Equal(s.t, "running", b.Status)
	return b
}

// runStatus is how far a run is.
func (s *instance) runStatus(id string) string {
	s.t.Helper()
	var r struct{ Status string }
	require.NoError(s.t, json.Unmarshal(s.send(s.key, "GET", "/v1/action/result?resultId="+id, nil).body.Data, &r))
	return r.Status
}

func (s *instance) callStatus(id string) string {
	s.t.Helper()
	var c struct{ Result struct{ Status string } }
	require.NoError(s.t, json.Unmarshal(s.send(s.key, "GET", "/v1/tool/call/result?toolCallId="+id, nil).body.Data, &c))
	return c.Result.Status
}

func TestAProgramInTheBackgroundOutlivesItsRequest(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		b := s.start(s.key, map[string]any{"title": "later", "toolsets": []string{"demo"}, "code": `from refly_tools.demo import Demo
print(Demo.wait(file_name_title="x", ms=700)["status"])
print("done")`})
		require.Equal(t, "running", s.runStatus(b.ResultID), "it was answered when it had ended")
		require.Eventually(t, func() bool { return s.runStatus(b.ResultID) == "finish" }, 20*time.Second, 50*time.Millisecond)
		a := s.send(s.key, "GET", "/v1/action/"+b.ResultID+"/programs", nil)
		require.Contains(t, a.raw, `"stdout":"success\ndone\n"`)
		require.Contains(t, a.raw, `"callId":"`+b.CallID+`"`)
		require.Equal(t, 1, s.count(`SELECT count(*) FROM tool_call_results WHERE ptc_call_id = ? AND status = 'completed'`, b.CallID))
		// What cannot begin is refused, and nothing is left running.
		require.Equal(t, 404, s.send(s.key, "POST", "/v1/sandbox/execute", map[string]any{"code": "1", "language": "python", "canvasId": "c-none", "background": true}).status)
		require.Equal(t, 404, s.send(s.another("ben"), "POST", "/v1/action/abort", map[string]any{"resultId": b.ResultID}).status)
	})
}

func TestAnAbortEndsAPlainProgramWherever(t *testing.T) {
	testenv.Slow(t, "two servers at work")
	t.Parallel()
	for _, d := range databasetest.Of(t) {
		for _, background := range []bool{false, true} {
			for _, elsewhere := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/background=%v/elsewhere=%v", d, background, elsewhere), func(t *testing.T) {
					t.Parallel()
					url := databasetest.URL(t, d)
					s := serve(t, url)
					aborter := s
					if elsewhere {
						aborter = serve(t, url)
					}
					s.abortEnds(aborter, background)
				})
			}
		}
	}
}

// abortEnds aborts a program of s at another server, or the same, while it waits
// for a call.
func (s *instance) abortEnds(aborter *instance, background bool) {
	t := s.t
	id := ids.New(ids.Run)
	body := map[string]any{"resultId": id, "language": "python", "background": background, "toolsets": []string{"demo"}, "code": `from refly_tools.demo import Demo
print(Demo.wait(file_name_title="x", ms=9000)["status"])`}
	answered := make(chan answer, 1)
	go func() { answered <- s.send(s.key, "POST", "/v1/sandbox/execute", body) }()
	calls := `SELECT count(*) FROM tool_call_results WHERE result_id = ? AND tool_name = 'wait' AND status = 'executing'`
	require.Eventually(t, func() bool { return s.count(calls, id) == 1 }, 20*time.Second, 20*time.Millisecond)
	began := time.Now()
	a := aborter.send(s.key, "POST", "/v1/action/abort", map[string]any{"resultId": id})
	require.Equal(t, 200, a.status, a.raw)
	require.Contains(t, a.raw, `"aborted":true`)
	open := `SELECT count(*) FROM tool_call_results WHERE result_id = ? AND status = 'executing'`
	require.Eventually(t, func() bool { return s.count(open, id) == 0 }, time.Minute, 10*time.Millisecond)
	require.Less(t, time.Since(began), 8*time.Second, "two seconds, on a machine that does nothing else; the calls take nine")
	require.Eventually(t, func() bool { return s.runStatus(id) == "aborted" }, time.Minute, 20*time.Millisecond)
	require.Equal(t, 2, s.count(`SELECT count(*) FROM tool_call_results WHERE result_id = ? AND status = 'failed'`, id))
	require.Zero(t, s.count(`SELECT count(*) FROM credit_usages WHERE action_result_id = ?`, id))
	<-answered
	a = aborter.send(s.key, "POST", "/v1/action/abort", map[string]any{"resultId": id})
	require.Contains(t, a.raw, `"aborted":false`)
}

func TestAServerThatStopsLetsProgramsInTheBackgroundEnd(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	url := databasetest.URL(t, database.SQLite)
	s := serve(t, url, "PORTICO_SHUTDOWN_GRACE=20s")
	soon := s.start(s.key, map[string]any{"code": "import time\ntime.sleep(1)\nprint('ended')"})
	s.stop()
	s = sameUser(s, serve(t, url, "PORTICO_SHUTDOWN_GRACE=200ms"))
	require.Equal(t, "finish", s.runStatus(soon.ResultID))
	late := s.start(s.key, map[string]any{"code": "import time\ntime.sleep(100)"})
	began := time.Now()
	s.stop()
	require.Less(t, time.Since(began), 30*time.Second)
	s = sameUser(s, serve(t, url))
	require.Equal(t, "aborted", s.runStatus(late.ResultID))
	require.Equal(t, "failed", s.callStatus(late.CallID))
}

// sameUser is a later server on the same database.
func sameUser(before, after *instance) *instance {
	after.key = before.key
	return after
}
