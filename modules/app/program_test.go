package app_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/demo"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/testenv"
)

// event is one event of a stream.
type event struct {
	ID   int64
	Name string `json:"event"`
	PTC  bool   `json:"ptc"`
	Meta struct {
		ToolCallID string `json:"toolCallId"`
		Status     string `json:"status"`
	} `json:"toolCallMeta"`
	Result struct {
		Output json.RawMessage `json:"output"`
		Error  string          `json:"error"`
	} `json:"toolCallResult"`
	Log struct {
		Stream, Content string
	} `json:"log"`
}

// watch reads a run's stream after a number, at most limit events, and
// reports whether the stream ended by itself. A run that is not there yet is
// waited for.
func (s *instance) watch(ctx context.Context, key, resultID string, after int64, limit int) (events []event, ended bool) {
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/v1/action/"+resultID+"/events", nil)
		if err != nil {
			s.t.Error(err)
			return nil, true
		}
		r.Header.Set("X-API-Key", key)
		if after > 0 {
			r.Header.Set("Last-Event-ID", strconv.FormatInt(after, 10))
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			s.t.Error(err)
			return nil, true
		}
		if resp.StatusCode == http.StatusNotFound {
			_ = resp.Body.Close()
			select {
			case <-time.After(5 * time.Millisecond):
				continue
			case <-ctx.Done():
				return nil, true
			}
		}
		events, ended = read(s.t, resp, limit)
		_ = resp.Body.Close()
		return events, ended
	}
}

func read(t testing.TB, resp *http.Response, limit int) (events []event, ended bool) {
	var id int64
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 16<<20)
	for len(events) < limit && lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			id, _ = strconv.ParseInt(text, 10, 64) // 0 fails the comparison later
		}
		if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			e := event{ID: id}
			if err := json.Unmarshal([]byte(text), &e); err != nil {
				t.Error(err)
			}
			events = append(events, e)
		}
	}
	return events, len(events) < limit
}

const many = `
from concurrent.futures import ThreadPoolExecutor
from refly_tools.demo import Demo

def call(n):
    result = Demo.convert_currency(file_name_title="x", amount=n, from_="USD", to="EUR")
    assert result["status"] == "success", result
    return result["data"]["amount"]

with ThreadPoolExecutor(8) as pool:
    print(sum(pool.map(call, range(200))))
`

// The main job, at once and under a client that keeps losing its connection.
func TestTwoHundredCallsOverEightThreads(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		id := ids.New(ids.Run)
		var seen []event
		var watcher sync.WaitGroup
		watcher.Go(func() {
			var last int64
			for range 5 { // five connections that break off
				events, ended := s.watch(t.Context(), s.key, id, last, 30)
				seen = append(seen, events...)
				if ended {
					t.Error("the stream ended before the run")
					return
				}
				last = seen[len(seen)-1].ID
			}
			events, _ := s.watch(t.Context(), s.key, id, last, 1<<30)
			seen = append(seen, events...)
		})
		o := s.run(map[string]any{"code": many, "resultId": id, "toolsets": []string{"demo"}})
		watcher.Wait()
		require.Equal(t, "completed", o.Status, o.Stderr)
		require.Equal(t, "17910.0\n", o.Stdout)
		require.Len(t, o.ToolCalls, 200)

		require.Equal(t, 200, s.count(`SELECT count(*) FROM tool_call_results WHERE ptc_call_id = ? AND status = 'completed' AND type = 'ptc'`, o.CallID))
		require.Equal(t, 200, s.count(`SELECT count(DISTINCT tool_call_id) FROM credit_usages WHERE action_result_id = ?`, id))
		require.Equal(t, 200, s.count(`SELECT count(*) FROM credit_usages WHERE amount = 0.5`))
		a := s.send(s.key, "GET", "/v1/credit/balance", nil)
		require.Contains(t, a.raw, `"creditBalance":-100`)

		ends := map[string]int{}
		for i, e := range seen {
			require.Equal(t, int64(i+1), e.ID, "events are lost, repeated or out of order")
			if e.Name == "tool_call_end" && e.PTC {
				ends[e.Meta.ToolCallID]++
				require.Contains(t, string(e.Result.Output), `"status":"success"`)
			}
		}
		require.Len(t, ends, 200)
		names := make([]string, len(seen))
		for i, e := range seen {
			names[i] = e.Name
		}
		require.Equal(t, "start", names[0])
		require.Equal(t, []string{"tool_call_end", "end"}, names[len(names)-2:])
		require.Equal(t, o.CallID, seen[len(seen)-2].Meta.ToolCallID, "the program ended before its calls")
	}, "PTC_POLL_INTERVAL_MS=60000") // wake-ups alone must do
}

func TestDemoProgram(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		id := ids.New(ids.Run)
		o := s.run(map[string]any{"code": demo.Program(), "resultId": id, "title": "demo", "toolsets": []string{"demo"}})
		require.Equal(t, "completed", o.Status, o.Stderr)
		require.Len(t, o.ToolCalls, 12)
		require.Empty(t, o.Warnings)
		failed := 0
		for _, c := range o.ToolCalls {
			if c.Status == "failed" {
				failed++
				require.Equal(t, "fail", c.ToolName)
			}
		}
		require.Equal(t, 1, failed)
		events, ended := s.watch(t.Context(), s.key, id, 0, 1<<30)
		require.True(t, ended)
		var log strings.Builder
		for _, e := range events {
			if e.Name == "log" {
				require.Equal(t, "stdout", e.Log.Stream)
				log.WriteString(e.Log.Content + "\n")
			}
		}
		require.Equal(t, o.Stdout, log.String())
		require.Contains(t, o.Stdout, "get_weather(city: str, days?: int) -> {")
		a := s.send(s.key, "GET", "/v1/credit/result?resultId="+id, nil)
		require.Contains(t, a.raw, `"total":18.5`)
	})
}

// Whatever code claims about itself, its calls are its own.
func TestProgramsCannotClaimToBeOthers(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		other := s.another("ben")
		a := s.send(other, "POST", "/v1/sandbox/execute", map[string]any{"code": "pass", "language": "python"})
		var foreign outcome
		require.NoError(t, json.Unmarshal(a.body.Data, &foreign))
		o := s.run(map[string]any{"title": "claims", "code": fmt.Sprintf(`
import http.client, json, os, socket
class Connection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX); self.sock.connect("/run/portico/tool.sock")
def send(path, headers, method="POST"):
    c = Connection("x")
    c.request(method, path, json.dumps({"toolsetKey": "demo", "toolName": "wait", "arguments": {"ms": 0, "file_name_title": "x"}}),
              {"Content-Type": "application/json", **headers})
    r = c.getresponse()
    return r.status, r.read().decode()
print(send("/v1/tool/execute", {"X-API-Key": %q, "x-ptc-call-id": %q, "x-refly-result-id": %q, "Authorization": "Bearer x", "Cookie": "_rf_access=x"})[0])
print(send("/v1/tool/execute", {})[0])
for path, method in (("/v1/auth/cli/api-key", "GET"), ("/v1/credit/balance", "GET"), ("/v1/sandbox/execute", "POST"), ("/healthz", "GET"),
             ("/v1/tool/execute", "GET"), ("/v1/tool/execute/../../auth/cli/api-key", "GET"), ("//v1/tool/execute", "POST")):
    print(send(path, {"X-API-Key": os.environ["REFLY_TOOL_SERVICE_API_KEY"]}, method)[0])
print(sorted(k for k in os.environ if k.startswith("REFLY")))
`, other, foreign.CallID, foreign.ResultID)})
		require.Equal(t, "200\n200\n"+strings.Repeat("404\n", 7)+
			"['REFLY_EXECUTOR_SLIM_INVOKER', 'REFLY_PTC_CALL_ID', 'REFLY_PTC_DEBUG', 'REFLY_RESULT_ID', 'REFLY_TOOL_SERVICE_API_KEY', 'REFLY_TOOL_SERVICE_API_URL']\n",
			o.Stdout, o.Stderr)
		require.Len(t, o.ToolCalls, 2)
		require.Zero(t, s.count(`SELECT count(*) FROM tool_call_results WHERE ptc_call_id = ?`, foreign.CallID))
		// The key that code sees executes tools and nothing else, from anywhere.
		o = s.run(map[string]any{"code": "import os; print(os.environ['REFLY_TOOL_SERVICE_API_KEY'])"})
		temporary := strings.TrimSpace(o.Stdout)
		require.Equal(t, 403, s.send(temporary, "GET", "/v1/credit/balance", nil).status)
		require.Equal(t, 403, s.send(temporary, "POST", "/v1/auth/cli/api-key", map[string]any{"name": "x"}).status)
		require.NotContains(t, s.send(s.key, "GET", "/v1/auth/cli/api-key", nil).raw, "PTC_SESSION")
		require.NotContains(t, s.log.String(), temporary)
		require.NotContains(t, s.log.String(), demo.Key)
	})
}

func TestProgramsThatDoNotEndWell(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		for name, c := range map[string]struct {
			code, status, run string
			exit              int
		}{
			"fails":     {"print('out'); raise ValueError('oops')", "failed", "error", 1},
			"times out": {"print('out', flush=True)\nwhile True: pass", "timed_out", "error", 124},
			"is killed": {"print('out', flush=True)\nimport os; os.kill(os.getpid(), 9)", "killed", "error", 137},
			"no memory": {"print('out', flush=True)\nx = []\nwhile True: x.append(bytearray(1 << 24))", "out_of_memory", "error", 1},
		} {
			timeout := 60_000
			if c.status == "timed_out" {
				timeout = 2000
			}
			o := s.run(map[string]any{"code": c.code, "timeout": timeout})
			require.Equal(t, c.status, o.Status, name)
			require.Equal(t, c.exit, o.ExitCode, name)
			require.Equal(t, "out\n", o.Stdout, name)
			a := s.send(s.key, "GET", "/v1/action/result?resultId="+o.ResultID, nil)
			require.Contains(t, a.raw, `"status":"`+c.run+`"`, name)
			require.Zero(t, s.count(`SELECT count(*) FROM tool_call_results WHERE status = 'executing'`))
		}
	})
}

// A call that is under way when its program dies is recorded, and a program
// whose caller leaves is over.
func TestCallersThatLeave(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		id := ids.New(ids.Run)
		ctx, leave := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() {
			body := `{"language":"python","resultId":"` + id + `","code":"from refly_tools.demo import Demo\nprint(Demo.wait(file_name_title='x', ms=10000))"}`
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/sandbox/execute", strings.NewReader(body))
			if err == nil {
				r.Header.Set("X-API-Key", s.key)
				r.Header.Set("Content-Type", "application/json")
				_, err = http.DefaultClient.Do(r)
			}
			gone <- err
		}()
		events, ended := s.watch(t.Context(), s.key, id, 0, 3)
		require.False(t, ended)
		require.Equal(t, "tool_call_start", events[2].Name)
		require.True(t, events[2].PTC)
		leave()
		require.Error(t, <-gone)
		events, ended = s.watch(t.Context(), s.key, id, 3, 100)
		require.True(t, ended)
		require.Equal(t, "end", events[len(events)-1].Name)
		require.Zero(t, s.count(`SELECT count(*) FROM tool_call_results WHERE status = 'executing'`))
		require.Zero(t, s.count(`SELECT count(*) FROM credit_usages`))
		require.Equal(t, 1, s.count(`SELECT count(*) FROM action_results WHERE status = 'aborted'`))
	})
}

func TestRunsAreNamedByTheirCallers(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		first := s.run(map[string]any{"code": "pass"})
		again := s.run(map[string]any{"code": "pass", "resultId": first.ResultID})
		require.Equal(t, first.ResultID, again.ResultID)
		require.Equal(t, 2, s.count(`SELECT count(*) FROM action_results WHERE result_id = ?`, first.ResultID))

		canvas := s.send(s.key, "POST", "/v1/canvas/create", map[string]any{"title": "mine"})
		var c struct{ CanvasID string }
		require.NoError(t, json.Unmarshal(canvas.body.Data, &c))
		o := s.run(map[string]any{"code": "import os; print(os.environ['REFLY_CANVAS_ID'])", "canvasId": c.CanvasID})
		require.Equal(t, c.CanvasID+"\n", o.Stdout)

		ben := s.another("ben")
		for body, want := range map[string]int{
			`{"code":"pass","language":"python","resultId":"` + first.ResultID + `"}`: 404,
			`{"code":"pass","language":"python","canvasId":"` + c.CanvasID + `"}`:     404,
			`{"code":"pass","language":"python","canvasId":"none"}`:                   404,
			`{"code":"pass","language":"ruby"}`:                                       400,
			`{"code":"","language":"python"}`:                                         400,
			`{"code":"  ","language":"python"}`:                                       400,
			`{"language":"python"}`:                                                   400,
			`{"code":"pass","language":"python","timeout":999999999}`:                 400,
			`{"code":"pass","language":"python","timeout":-1}`:                        400,
			`{"code":"pass","language":"python","tolsets":["demo"]}`:                  400,
			`{"code":"\u0000","language":"python"}`:                                   400,
		} {
			a := s.send(ben, "POST", "/v1/sandbox/execute", body)
			require.Equal(t, want, a.status, "%s: %s", body, a.raw)
		}
		require.Zero(t, s.count(`SELECT count(*) FROM action_results r JOIN users u ON u.uid = r.uid WHERE u.name = 'ben'`))
	})
}

// The first version of a run is not named, as the SDK expects; the next one is.
func TestVersionsInTheEnvironment(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite))
	const code = "import os; print(sorted((k, os.environ[k]) for k in os.environ if k in ('REFLY_RESULT_ID', 'REFLY_RESULT_VERSION', 'REFLY_CANVAS_ID')))"
	require.Equal(t, "[('REFLY_RESULT_ID', 'ar-again')]\n", s.run(map[string]any{"code": code, "resultId": "ar-again"}).Stdout)
	require.Equal(t, "[('REFLY_RESULT_ID', 'ar-again'), ('REFLY_RESULT_VERSION', '1')]\n", s.run(map[string]any{"code": code, "resultId": "ar-again"}).Stdout)
}

// A program is refused toolsets that are not on the list of those that may be
// called from code, and so are the calls of one that names none.
func TestTheAllowlistHoldsForCalls(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite), "PTC_TOOLSET_ALLOWLIST=other")
	a := s.send(s.key, "POST", "/v1/sandbox/execute", map[string]any{"code": "pass", "language": "python", "toolsets": []string{"demo"}})
	require.Equal(t, 403, a.status, a.raw)
	o := s.run(map[string]any{"code": "from refly_tools.demo import Demo\nprint(Demo.wait(ms=0, file_name_title='x')['errorCode'])"})
	require.Equal(t, "TOOLSET_NOT_ALLOWED\n", o.Stdout, o.Stderr)
	require.Zero(t, s.count("SELECT count(*) FROM tool_call_results WHERE type = 'ptc' AND status = 'completed'"))
}

func TestThePolicyIsEnforced(t *testing.T) {
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite), "PTC_MODE=on", "PTC_TOOLSET_BLOCKLIST=demo", "PTC_DEBUG=opt-out")
	a := s.send(s.key, "POST", "/v1/sandbox/execute", map[string]any{"code": "pass", "language": "python", "toolsets": []string{"demo"}})
	require.Equal(t, 403, a.status)
	require.Contains(t, a.body.ErrDetail, "demo")
	a = s.send(s.key, "POST", "/v1/sandbox/execute", map[string]any{"code": "pass", "language": "python", "title": "test nonptc"})
	require.Equal(t, 403, a.status, a.raw)
	require.Zero(t, s.count(`SELECT count(*) FROM action_results`))
	// A program that names no toolsets runs, and its calls meet the list.
	o := s.run(map[string]any{"code": "from refly_tools.demo import Demo\nprint(Demo.wait(file_name_title='x')['error'])\nimport os; print(os.environ['REFLY_PTC_DEBUG'])"})
	require.Equal(t, "Toolset demo may not be called from code: the administrator's lists exclude it.\ntrue\n", o.Stdout, o.Stderr)
	a = s.send(s.key, "GET", "/v1/ptc/decision?toolsets=demo", nil)
	require.Contains(t, a.raw, `"enabled":false`)

	off := serve(t, databasetest.URL(t, database.SQLite), "PTC_MODE=off")
	a = off.send(off.key, "POST", "/v1/sandbox/execute", map[string]any{"code": "pass", "language": "python"})
	require.Equal(t, 403, a.status)
	require.Contains(t, a.body.ErrDetail, "PTC_MODE is off")
}

func TestMissingSDKIsReported(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite), "SANDBOX_S3LIB_HASH=v0", "SANDBOX_S3LIB_PATH_PREFIX=sdk")
	o := s.run(map[string]any{"code": "import refly_tools.demo", "toolsets": []string{"demo"}})
	require.Equal(t, "failed", o.Status)
	require.Len(t, o.Warnings, 1)
	require.Contains(t, o.Warnings[0], "There is no SDK")
	a := s.send(s.key, "GET", "/v1/ptc/context", nil)
	require.Equal(t, 503, a.status)

	s = serve(t, databasetest.URL(t, database.SQLite))
	o = s.run(map[string]any{"code": "pass", "toolsets": []string{"demo", "gmail", "web_search"}})
	require.Equal(t, []string{"Toolset gmail is not in the SDK and cannot be imported."}, o.Warnings)
	a = s.send(s.key, "GET", "/v1/ptc/context?toolsets=demo,gmail", nil)
	require.Contains(t, a.raw, `"missing":["gmail"]`)
	require.Contains(t, a.raw, "class Demo")
}
