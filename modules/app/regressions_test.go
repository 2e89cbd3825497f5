package app_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/testenv"
	toolsetfile "github.com/portico-run/portico/modules/toolset/file"
)

// The failures of docs/wire/refly.md#regressions, by their numbers there.

func TestRegression0701BillingIsLinkedToTheCall(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		o := s.run(map[string]any{"code": "from refly_tools.demo import Demo\nfor c in ['Rome', 'Oslo']:\n    Demo.get_weather(city=c, file_name_title='x')"})
		require.Equal(t, "completed", o.Status, o.Stderr)
		require.Equal(t, 2, s.count("SELECT count(*) FROM credit_usages"))
		require.Zero(t, s.count(`SELECT count(*) FROM credit_usages u LEFT JOIN tool_call_results c ON c.call_id = u.tool_call_id AND c.uid = u.uid AND c.status = 'completed'
			WHERE c.call_id IS NULL OR u.tool_call_meta <> '{"toolName":"get_weather","toolsetKey":"demo"}' OR u.action_result_id <> c.result_id`))
	})
}

func TestRegression0702PTCIsWrittenOnTheRun(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		o := s.run(map[string]any{"code": "print(1)"})
		require.Equal(t, 1, s.count("SELECT count(*) FROM action_results WHERE result_id = ? AND ptc_enabled", o.ResultID))
	})
}

func TestRegression0702RunsWithoutPTCSaySo(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	_, env := script(t, "- output: [{text: Hello.}]")
	each(t, func(t *testing.T, s *instance) {
		s.invoke(t, map[string]any{"query": "Hi"})
		require.Equal(t, 1, s.count("SELECT count(*) FROM action_results WHERE NOT ptc_enabled"))
	}, append(env, "PTC_MODE=off")...)
}

// Nobody watches, and a child ends just before its parent.
func TestRegression0703ChildrenAreKeptWithoutAStream(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		o := s.run(map[string]any{"code": "from refly_tools.demo import Demo\nDemo.wait(ms=50, file_name_title='x')"})
		call := o.ToolCalls[0].CallID
		require.Equal(t, 1, s.count("SELECT count(*) FROM run_events WHERE type = 'tool_call_end' AND call_id = ?", call))
		require.Equal(t, 1, s.count(`SELECT count(*) FROM run_events c JOIN run_events p ON p.result_id = c.result_id AND p.seq > c.seq
			WHERE c.type = 'tool_call_end' AND c.call_id = ? AND p.type = 'tool_call_end' AND p.call_id = ?`, call, o.CallID))
	})
}

// A price for a name that is no method was a silent 1, and two calls of one tool
// in one run were one charge.
func TestRegression0704PricesHaveMethodsAndCallsHaveCharges(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		_, err := s.app.ToolsetFiles.Apply(t.Context(), []toolsetfile.File{{Name: "nano.yaml", Content: []byte(
			`{key: nano, name: Nano, billing: {generate-image: 16}, methods: [{name: text-to-image, endpoint: "https://example.com/t"}, {name: image-to-image, endpoint: "https://example.com/i"}]}`)}})
		require.ErrorContains(t, err, `there is a price for "generate-image", which is no method of the toolset`)
		require.ErrorContains(t, err, `method "text-to-image" has no price`)
		o := s.run(map[string]any{"code": "from refly_tools.demo import Demo\nfor n in range(2):\n    Demo.get_weather(city='Rome', file_name_title='x')"})
		require.Equal(t, 2, s.count("SELECT count(DISTINCT tool_call_id) FROM credit_usages WHERE action_result_id = ? AND amount = 2", o.ResultID))
	})
}

// decision asks a server whether programmatic tool calling is on.
func decision(t *testing.T, query string, env ...string) bool {
	t.Helper()
	s := serve(t, databasetest.URL(t, database.SQLite), env...)
	var d struct{ Enabled bool }
	a := s.send(s.key, "GET", "/v1/ptc/decision?"+query, nil)
	require.Equal(t, 200, a.status, a.raw)
	require.NoError(t, json.Unmarshal(a.body.Data, &d))
	return d.Enabled
}

func TestRegression0705DebugOnlyNarrows(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	require.False(t, decision(t, "toolsets=demo&title=useptc", "PTC_MODE=off", "PTC_DEBUG=true"))
	require.True(t, decision(t, "toolsets=demo&title=UsePTC+now", "PTC_MODE=on", "PTC_DEBUG=true"))
	require.False(t, decision(t, "toolsets=demo&title=now", "PTC_MODE=on", "PTC_DEBUG=opt-in"))
}

// The file of a user is resolved for that user, on the way of a program too.
func TestRegression0706FilesOfAUserReachATool(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		s.apply(t, map[string]string{"studio.yaml": studio(t)})
		canvas := s.canvas("pictures")
		f := s.store(canvas, "cat.png", "\x89PNG\r\n\x1a\nof a cat")
		o := s.run(map[string]any{"canvasId": canvas, "code": "from refly_tools.studio import Studio\nprint(Studio.measure(image='" + f.FileID + "', file_name_title='x')['data']['bytes'])"})
		require.Equal(t, "16\n", o.Stdout, o.Stderr)
	})
}

func TestRegression0707CallIdsSuitModels(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	safe := regexp.MustCompile(`^ptc_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	s := serve(t, databasetest.URL(t, database.SQLite), "PTC_CALL_ID_SEPARATOR=_")
	o := s.run(map[string]any{"code": "from refly_tools.demo import Demo\nDemo.wait(ms=0, file_name_title='x')"})
	require.Regexp(t, safe, o.ToolCalls[0].CallID)
	origin, ok := ids.OriginOf("ptc:00000000-0000-4000-8000-000000000000")
	require.True(t, ok)
	require.Equal(t, ids.PTC, origin)
}

func TestRegression0708ConcurrentCallsChargeExactly(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		before := s.count("SELECT CAST(COALESCE(SUM(balance), 0) AS integer) FROM credit_recharges")
		o := s.run(map[string]any{"code": `
from concurrent.futures import ThreadPoolExecutor
from refly_tools.demo import Demo
with ThreadPoolExecutor(5) as pool:
    print(sum(r["status"] == "success" for r in pool.map(lambda n: Demo.get_weather(city="Rome", file_name_title="x"), range(40))))
`})
		require.Equal(t, "40\n", o.Stdout, o.Stderr)
		require.Equal(t, 40, s.count("SELECT count(*) FROM credit_usages WHERE amount = 2"))
		_, wrong, err := s.app.Credits.Reports.Verify(t.Context())
		require.NoError(t, err)
		require.Empty(t, wrong)
		after := s.count("SELECT CAST(COALESCE(SUM(balance), 0) AS integer) FROM credit_recharges") - s.count("SELECT CAST(COALESCE(SUM(balance), 0) AS integer) FROM credit_debts")
		require.Equal(t, 80, before-after)
	})
}

func TestRegression0709ThePercentageOnlyNarrows(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	require.False(t, decision(t, "toolsets=demo", "PTC_MODE=on", "PTC_ROLLOUT_PERCENT=0"))
	require.True(t, decision(t, "toolsets=demo", "PTC_MODE=on", "PTC_ROLLOUT_PERCENT=100"))
	require.False(t, decision(t, "toolsets=demo", "PTC_MODE=off", "PTC_ROLLOUT_PERCENT=100"))
}

// A program that runs into its time limit: what its calls completed is billed,
// what comes after is not made.
func TestRegression0710CallsOfAProgramThatTimedOut(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		o := s.run(map[string]any{"timeout": 2000, "code": "import time\nfrom refly_tools.demo import Demo\nDemo.get_weather(city='Rome', file_name_title='x')\ntime.sleep(30)"})
		require.NotEqual(t, "completed", o.Status)
		require.Equal(t, 1, s.count("SELECT count(*) FROM credit_usages WHERE action_result_id = ?", o.ResultID))
		a := s.send(s.key, "POST", "/v1/tool/execute", `{"toolsetKey":"demo","toolName":"get_weather","arguments":{"city":"Rome"}}`, "x-ptc-call-id", o.CallID)
		require.Equal(t, 409, a.status, a.raw)
		require.Equal(t, 1, s.count("SELECT count(*) FROM credit_usages"))
		require.Zero(t, s.count("SELECT count(*) FROM tool_call_results WHERE status = 'executing'"))
	})
}

// Lists name keys. What a toolset is called for people is on no list.
func TestRegression0711ListsAreOfKeys(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	require.True(t, decision(t, "toolsets=demo", "PTC_MODE=on", "PTC_TOOLSET_BLOCKLIST=Demo"))
	require.False(t, decision(t, "toolsets=demo", "PTC_MODE=on", "PTC_TOOLSET_BLOCKLIST=demo"))
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x.yaml"), []byte("{key: x-1, name: demo, billing: 0, methods: [{name: go, endpoint: 'https://example.com/'}]}"), 0o600))
	require.True(t, decision(t, "toolsets=x-1", "PTC_MODE=on", "PTC_TOOLSET_BLOCKLIST=demo", "TOOLSETS_DIR="+dir))
}
