package app_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
)

type registered struct {
	ResultID, ToolCallID, APIKey string
	Version                      int
	ExpiresAt                    time.Time
}

func (s *instance) register(key string, body map[string]any) registered {
	s.t.Helper()
	a := s.send(key, "POST", "/v1/action/register", body)
	require.Equal(s.t, 200, a.status, a.raw)
	var r registered
	require.NoError(s.t, json.Unmarshal(a.body.Data, &r))
	return r
}

// worker runs the sandbox of another service and returns what its calls answered.
func (s *instance) worker(r registered, canvas string, arguments ...map[string]any) []map[string]any {
	s.t.Helper()
	in, err := json.Marshal(arguments)
	require.NoError(s.t, err)
	python := exec.CommandContext(s.t.Context(), "python3", "testdata/outside.py")
	python.Stdin = bytes.NewReader(in)
	python.Env = []string{
		"REFLY_TOOL_SERVICE_API_URL=" + s.url, "REFLY_TOOL_SERVICE_API_KEY=" + r.APIKey, "REFLY_PTC_CALL_ID=" + r.ToolCallID,
		"REFLY_RESULT_ID=" + r.ResultID, "REFLY_CANVAS_ID=" + canvas,
	}
	out, err := python.Output()
	require.NoError(s.t, err)
	var answers []map[string]any
	for line := range strings.Lines(string(out)) {
		var answer map[string]any
		require.NoError(s.t, json.Unmarshal([]byte(line), &answer))
		answers = append(answers, answer)
	}
	return answers
}

const outsideCall = "0b8f2f6e-6f0e-4c5e-9d2a-3d7f1c2b4a55" // a bare UUID, as other services make

// A sandbox of another service registers its run and program, calls back, and is
// billed and shown as the server's own; a restart in between changes nothing.
func TestSandboxOfAnotherServiceCallsBack(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	for _, d := range databasetest.Of(t) {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			env := environ(t, databasetest.URL(t, d))
			s := serveWith(t, env)
			key := s.key
			body := map[string]any{
				"resultId": "ar-made-elsewhere", "title": "Weather", "canvasId": "c-made-elsewhere", "toolsets": []string{"demo"},
				"toolCallId": outsideCall, "code": "print(1)", "withKey": true,
			}
			r := s.register(key, body)
			require.Equal(t, outsideCall, r.ToolCallID)
			require.WithinDuration(t, time.Now().Add(time.Hour), r.ExpiresAt, time.Minute)
			answers := s.worker(r, "c-made-elsewhere", map[string]any{"city": "Rome"}, map[string]any{"city": "Atlantis"})
			require.Equal(t, "success", answers[0]["status"])
			require.Equal(t, "error", answers[1]["status"])

			s.stop()
			s = serveWith(t, env)
			again := s.register(key, body)
			require.NotEqual(t, r.APIKey, again.APIKey)
			require.Equal(t, r.ExpiresAt, again.ExpiresAt)
			require.EqualValues(t, 401, s.worker(r, "c-made-elsewhere", map[string]any{"city": "Rome"})[0]["status"], "the key before ended")
			r = again
			require.Equal(t, "success", s.worker(r, "c-made-elsewhere", map[string]any{"city": "Rome"})[0]["status"])
			require.Equal(t, 403, s.send(r.APIKey, "GET", "/v1/action/list", nil).status, "the key executes tools only")

			a := s.send(key, "POST", "/v1/action/finish", map[string]any{"resultId": r.ResultID, "toolCallId": outsideCall, "status": "finish", "output": map[string]any{"stdout": "1\n"}})
			require.Equal(t, 200, a.status, a.raw)
			require.JSONEq(t, `{"resultId":"ar-made-elsewhere","version":0,"toolCallId":"`+outsideCall+`","status":"running"}`, string(a.body.Data))
			require.EqualValues(t, 401, s.worker(r, "c-made-elsewhere", map[string]any{"city": "Rome"})[0]["status"])
			r.APIKey = key
			require.EqualValues(t, 409, s.worker(r, "c-made-elsewhere", map[string]any{"city": "Rome"})[0]["status"])
			a = s.send(key, "POST", "/v1/action/finish", map[string]any{"resultId": r.ResultID, "status": "finish"})
			require.Equal(t, 200, a.status, a.raw)

			stream := s.send(key, "GET", "/v1/action/"+r.ResultID+"/events", nil).raw // ends, as the run has
			var events []string
			for _, e := range eventsOf(t, bufio.NewScanner(strings.NewReader(stream))) {
				events = append(events, strings.TrimSpace(fmt.Sprint(e["event"], " ", map[any]string{true: "child"}[e["isPtc"]])))
			}
			require.Equal(t, []string{
				"start", "tool_call_start", "tool_call_start child", "tool_call_end child", "tool_call_start child", "tool_call_error child",
				"tool_call_start child", "tool_call_end child", "tool_call_end", "end",
			}, events)
			require.Contains(t, stream, `"stdout":"1\n"`)
			require.Equal(t, 2, s.count(`SELECT count(*) FROM credit_usages WHERE action_result_id = 'ar-made-elsewhere'`))
			require.Equal(t, 3, s.count(`SELECT count(*) FROM tool_call_results WHERE ptc_call_id = ? AND type = 'ptc' AND canvas_id = 'c-made-elsewhere'`, outsideCall))
			result := s.send(key, "GET", "/v1/action/result?resultId="+r.ResultID, nil)
			require.Contains(t, result.raw, `"status":"finish"`)
			require.Contains(t, result.raw, `"ptcEnabled":true`)
		})
	}
}

// What a user aborts is over for the service that executes it, too.
func TestAbortEndsARunOutside(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		r := s.register(s.key, map[string]any{"toolCallId": outsideCall, "canvasId": "c-x", "withKey": true})
		a := s.send(s.key, "POST", "/v1/action/abort", map[string]any{"resultId": r.ResultID})
		require.Equal(t, 200, a.status, a.raw)
		require.EqualValues(t, 409, s.worker(r, "c-x", map[string]any{"city": "Rome"})[0]["status"])
		require.Zero(t, s.count(`SELECT count(*) FROM tool_call_results WHERE status = 'executing'`))
		a = s.send(s.key, "POST", "/v1/action/finish", map[string]any{"resultId": r.ResultID, "status": "finish"})
		require.Equal(t, 409, a.status, a.raw)
	})
}

func TestAnotherUsersRunOutside(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		ben := s.another("ben")
		s.register(s.key, map[string]any{"resultId": "ar-hers", "canvasId": "c-hers", "toolCallId": outsideCall})
		for _, c := range []struct {
			path   string
			body   map[string]any
			status int
		}{
			{"register", map[string]any{"resultId": "ar-hers"}, 404},
			{"register", map[string]any{"resultId": "ar-hers", "version": 1}, 404},
			{"register", map[string]any{"canvasId": "c-hers"}, 404},
			{"register", map[string]any{"toolCallId": outsideCall}, 409},
			{"finish", map[string]any{"resultId": "ar-hers", "status": "aborted"}, 404},
			{"finish", map[string]any{"resultId": "ar-hers", "toolCallId": outsideCall, "status": "finish"}, 404},
		} {
			a := s.send(ben, "POST", "/v1/action/"+c.path, c.body)
			require.Equal(t, c.status, a.status, "%v: %s", c.body, a.raw)
			require.NotContains(t, a.raw, "u-")
		}
		require.Zero(t, s.count(`SELECT count(*) FROM action_results r JOIN users u ON u.uid = r.uid WHERE u.name = 'ben'`))
	})
}

// Where programmatic tool calling is off, it is off for other sandboxes, too.
func TestPolicyHoldsForSandboxesOutside(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite), "PTC_MODE=on", "PTC_TOOLSET_BLOCKLIST=demo")
	a := s.send(s.key, "POST", "/v1/action/register", map[string]any{"toolsets": []string{"demo"}})
	require.Equal(t, 403, a.status, a.raw)
	require.Contains(t, a.body.ErrDetail, "PTC_TOOLSET_BLOCKLIST")
	r := s.register(s.key, map[string]any{"toolCallId": "x", "canvasId": "c-x", "withKey": true})
	require.Contains(t, s.worker(r, "c-x", map[string]any{"city": "Rome"})[0]["error"], "may not be called from code")
	off := serve(t, databasetest.URL(t, database.SQLite), "PTC_MODE=off")
	require.Equal(t, 403, off.send(off.key, "POST", "/v1/action/register", map[string]any{}).status)
}
