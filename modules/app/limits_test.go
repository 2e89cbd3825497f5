package app_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/run/bound"
)

// What a user has now is counted in all processes and the same at each, others are not
// counted with it, and where a process cannot be asked, the answer says so.
func TestLimitsCountAllProcesses(t *testing.T) {
	testenv.Slow(t, "three whole servers at work")
	t.Parallel()
	url, objects := databasetest.URL(t, database.Postgres), t.TempDir()
	const running, queued, paused = 1, 1, 4
	bounds := []string{"SANDBOX_MAX_PER_USER=1", "SANDBOX_MAX_QUEUE_PER_USER=1", "SANDBOX_MAX_PAUSED_PER_USER=4", "TOOL_MAX_PER_USER=64", "AGENT_MAX_RUNS_PER_USER=64"}
	one := serveWith(t, among(t, url, objects, bounds...))
	other := serveWith(t, among(t, url, objects, bounds...))
	other.key = one.key // it was shown once
	all := []*instance{one, other}
	know(t, all)
	users, err := one.app.Accounts.Service.Users(t.Context())
	require.NoError(t, err)
	enter := func(s *instance, name string) {
		visit, err := s.app.Bounds.Enter(t.Context(), []bound.Limit{{UID: users[0].UID, Name: name, Bound: bound.Bound{AtOnce: 64}}})
		require.NoError(t, err)
		t.Cleanup(visit.Leave)
	}
	for i, s := range all {
		for range i + 1 { // one here, two there
			e := s.code("/exec/programmatic", map[string]any{"code": "await ask()", "tools": tools("ask")})
			require.Equal(t, "tool_call_required", e.Status, "%+v", e)
			enter(s, "user")
		}
		enter(s, "runs")
	}
	share := func(now, most int) map[string]any { return map[string]any{"now": float64(now), "most": float64(most)} }
	for _, s := range all {
		got := s.read(s.key, "GET", "/v1/limits", nil)
		require.Equal(t, share(3, 64), got["calls"])
		require.Equal(t, share(2, 64), got["runs"])
		require.Equal(t, share(3, running+queued+paused), got["programsTogether"])
		require.Equal(t, share(0, 2*running), got["programs"])
		require.Equal(t, share(0, 2*queued), got["programsWaiting"])
		require.Equal(t, share(3, running+queued+paused), got["programsPaused"], "no more than together")
		require.Equal(t, map[string]any{"counted": 2.0, "live": 2.0}, got["processes"])
	}
	others := other.read(one.another("ben"), "GET", "/v1/limits", nil)
	require.Equal(t, share(0, 64), others["calls"])
	require.Equal(t, share(0, 64), others["runs"])
	require.Equal(t, share(0, running+queued+paused), others["programsTogether"])

	silent := serveWith(t, environ(t, url, append([]string{"OBJECT_STORAGE_FOLDER=" + objects}, bounds...)...))
	know(t, []*instance{one, other, silent})
	require.Equal(t, map[string]any{"counted": 2.0, "live": 3.0}, one.read(one.key, "GET", "/v1/limits", nil)["processes"])
	got := silent.read(one.key, "GET", "/v1/limits", nil)
	require.Equal(t, map[string]any{"counted": 1.0, "live": 3.0}, got["processes"])
	require.Equal(t, share(0, running+queued+paused), got["programsTogether"])
}
