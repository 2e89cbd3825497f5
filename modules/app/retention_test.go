// Slow under the race detector: make test runs it without.
//go:build !race

package app_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/run/retention/holdings"
)

// What is kept no longer is gone for every reader, and none of them fails for it: first
// the events of a run, then the run, and calls outside of runs. What was charged is
// reported as before.
func TestReadersDoNotMissWhatIsKeptNoLonger(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		o := s.run(map[string]any{"code": "print('large ' * 5000)\nfor c in ['Oslo', 'Rome']:\n    demo.get_weather(city=c)", "toolsets": []string{"demo"}})
		alone := s.send(s.key, "POST", "/v1/tool/execute", map[string]any{"toolsetKey": "demo", "toolName": "get_weather", "arguments": map[string]any{"city": "Oslo"}})
		require.Equal(t, 200, alone.status, alone.raw)
		before, err := s.app.Holdings.Verify(t.Context())
		require.NoError(t, err)
		require.Equal(t, holdings.Report{Named: 1}, before, "the whole of what the program printed")
		charged := s.send(s.key, "GET", "/v1/credit/usage", nil)
		require.Equal(t, 200, charged.status)
		reported := s.send(s.key, "GET", "/v1/credit/report", nil).raw
		age := func(days int) {
			at := time.Now().Add(-time.Duration(days) * 24 * time.Hour).UTC()
			s.exec("UPDATE action_results SET updated_at = ?", at)
			s.exec("UPDATE tool_call_results SET created_at = ?, updated_at = ?", at, at)
			require.NoError(t, s.app.Retention.Round(t.Context()))
		}
		read := func(status int) {
			for _, path := range []string{"/v1/action/result?resultId=" + o.ResultID, "/v1/action/" + o.ResultID + "/events", "/v1/credit/result?resultId=" + o.ResultID} {
				a := s.send(s.key, "GET", path, nil)
				if status == 404 && path[:10] == "/v1/credit" {
					require.Equal(t, 200, a.status, "what it cost is known: %s", a.raw)
					continue
				}
				require.Equal(t, status, a.status, "%s: %s", path, a.raw)
			}
			for _, path := range []string{"/v1/action/list", "/v1/tool/call/list", "/v1/credit/usage", "/v1/credit/balance", "/runs", "/calls", "/credits"} {
				require.NotEqual(t, 500, s.send(s.key, "GET", path, nil).status, path)
			}
			require.Equal(t, charged.raw, s.send(s.key, "GET", "/v1/credit/usage", nil).raw)
			require.Equal(t, reported, s.send(s.key, "GET", "/v1/credit/report", nil).raw)
		}
		age(20)
		events, ended := s.watch(t.Context(), s.key, o.ResultID, 0, 100)
		require.True(t, ended)
		require.Greater(t, len(events), 3)
		read(200)
		age(40)
		events, ended = s.watch(t.Context(), s.key, o.ResultID, 0, 100)
		require.True(t, ended, "a stream of a run without events ends as well")
		require.Len(t, events, 1)
		read(200)
		age(70)
		read(404)
		require.Zero(t, s.count("SELECT count(*) FROM tool_call_results"))
		require.Zero(t, s.count("SELECT count(*) FROM run_events"))
		require.Positive(t, s.count("SELECT count(*) FROM credit_usages"))
		_, wrong, err := s.app.Credits.Reports.Verify(t.Context())
		require.NoError(t, err)
		require.Empty(t, wrong)
		got, err := s.app.Holdings.Verify(t.Context())
		require.NoError(t, err)
		require.Equal(t, holdings.Report{}, got)
		numbers := s.send("", "GET", "/metrics", nil).raw
		for _, table := range []string{"action_results", "run_events", "tool_call_results"} {
			require.Contains(t, numbers, fmt.Sprintf("portico_retention_deleted_total{table=%q}", table))
			require.Contains(t, numbers, fmt.Sprintf("portico_retention_due_seconds{table=%q} 0", table))
		}
	}, "RETENTION_RUN_EVENTS=30d", "RETENTION_RUNS=60d", "RETENTION_CALLS=60d", "TOOL_OUTPUT_CAP=10KiB")
}
