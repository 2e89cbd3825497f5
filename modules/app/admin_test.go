package app_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/ptc"
)

// read answers with the data of a route, which must succeed.
func (s *instance) read(key, method, path string, body any) map[string]any {
	s.t.Helper()
	a := s.send(key, method, path, body)
	require.Equal(s.t, 200, a.status, "%s %s: %s", method, path, a.raw)
	var data map[string]any
	require.NoError(s.t, json.Unmarshal(a.body.Data, &data))
	return data
}

// Every route below /v1/admin/ is closed to whoever is no administrator, and what
// an administrator asks is in the audit log, with all that was asked for.
func TestRoutesForAdministratorsAreClosedAndRecorded(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		anna := s.another("anna")
		tried := 0
		for _, op := range operations(document(t, s)) {
			if !strings.HasPrefix(op.path, "/v1/admin/") {
				continue
			}
			tried++
			a := s.send(anna, op.method, op.path+"?uid=u-x", `{}`)
			require.Equal(t, 403, a.status, "%s %s: %s", op.method, op.path, a.raw)
			require.Zero(t, s.count("SELECT count(*) FROM audit_events WHERE action LIKE 'ask.%'"), op.path)
		}
		require.GreaterOrEqual(t, tried, 11)

		s.read(s.key, "GET", "/v1/admin/ptc/decision?uid=u-x&title=a%20b&toolsets=demo", nil)
		asked := s.read(s.key, "GET", "/v1/admin/audit?action=ask.admin-ptc-decision", nil)["items"].([]any)
		require.Len(t, asked, 1)
		one := asked[0].(map[string]any)
		require.Equal(t, s.first().UID, one["uid"])
		require.Equal(t, "/v1/admin/ptc/decision", one["subject"])
		require.Equal(t, map[string]any{"uid": "u-x", "title": "a b", "toolsets": "demo"}, one["detail"])
		for _, e := range s.read(s.key, "GET", "/v1/admin/audit", nil)["items"].([]any) {
			require.NotContains(t, e.(map[string]any)["action"], "ask.")
		}
		long := s.send(s.key, "GET", "/v1/admin/audit?subject="+strings.Repeat("x", 5000), nil)
		require.Equal(t, 400, long.status, long.raw)
	})
}

// What an administrator is told of a decision is what the engine decides for that
// user, step by step.
func TestAdministratorsSeeEveryStepOfADecision(t *testing.T) {
	t.Parallel()
	env := []string{"PTC_MODE=partial", "PTC_USER_ALLOWLIST=u-a,u-b", "PTC_TOOLSET_BLOCKLIST=bad", "PTC_ROLLOUT_PERCENT=40", "PTC_DEBUG=opt-out"}
	s := serve(t, databasetest.URL(t, database.SQLite), env...)
	yes := 0
	for _, uid := range []string{"u-a", "u-b", "u-c"} {
		for _, toolsets := range [][]string{{"demo"}, {"demo", "bad"}} {
			for _, title := range []string{"x", "a NONPTC run"} {
				want := s.app.PTC.Service.Decide(ptc.Question{UID: uid, Toolsets: toolsets, Title: title})
				a := s.send(s.key, "GET", fmt.Sprintf("/v1/admin/ptc/decision?uid=%s&toolsets=%s&title=%s", uid, strings.Join(toolsets, ","), strings.ReplaceAll(title, " ", "%20")), nil)
				var got ptc.Decision
				require.NoError(t, json.Unmarshal(a.body.Data, &got), a.raw)
				require.Equal(t, want, got)
				require.Len(t, got.Steps, 6)
				if got.Enabled {
					yes++
				}
			}
		}
	}
	require.Less(t, yes, 3)
	policy := s.read(s.key, "GET", "/v1/admin/ptc/policy", nil)
	require.Equal(t, "partial", policy["mode"])
	require.Equal(t, []any{"u-a", "u-b"}, policy["users"])
	require.Nil(t, policy["toolsetAllowlist"])
	require.InDelta(t, 40, policy["rolloutPercent"], 0)
}

// Administrators see that a run was, and nothing that its user, its model or its
// program wrote.
func TestAdministratorsSeeRunsWithoutWhatWasSaid(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		anna := s.another("anna")
		a := s.send(anna, "POST", "/v1/sandbox/execute", map[string]any{"code": "print('planted-output')  # planted-code", "language": "python", "title": "planted-title"})
		require.Equal(t, 200, a.status, a.raw)
		list := s.send(s.key, "GET", "/v1/admin/runs?status=finish", nil)
		require.NotContains(t, list.raw, "planted")
		items := s.read(s.key, "GET", "/v1/admin/runs?status=finish", nil)["items"].([]any)
		require.Len(t, items, 1)
		run := items[0].(map[string]any)
		require.NotEqual(t, s.first().UID, run["uid"])
		require.Equal(t, []string{"createdAt", "lastEventId", "ptcEnabled", "resultId", "status", "type", "uid", "updatedAt", "version"}, slices.Sorted(maps.Keys(run)))
		require.Empty(t, s.read(s.key, "GET", "/v1/admin/runs?status=running", nil)["items"])
		require.Empty(t, s.read(s.key, "GET", "/v1/admin/runs?uid="+s.first().UID, nil)["items"])
	})
}

// A limit that an administrator sets is in force, listed, and in the audit log.
func TestAdministratorsSetLimits(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		anna := s.another("anna")
		uid := s.read(anna, "GET", "/v1/auth/me", nil)["uid"].(string)
		before := s.read(anna, "GET", "/v1/limits", nil)
		require.Nil(t, before["credits"].(map[string]any)["dayLimit"])
		set := s.read(s.key, "PUT", "/v1/admin/limits/"+uid, map[string]any{"day": 3.5, "run": 1})
		require.Equal(t, "3.5", fmt.Sprint(set["day"]))
		credits := s.read(anna, "GET", "/v1/limits", nil)["credits"].(map[string]any)
		require.Equal(t, "3.5", fmt.Sprint(credits["dayLimit"]))
		require.Equal(t, "1", fmt.Sprint(credits["runLimit"]))
		listed := s.read(s.key, "GET", "/v1/admin/limits", nil)["items"].([]any)
		require.Len(t, listed, 1)
		require.Equal(t, uid, listed[0].(map[string]any)["uid"])
		require.Len(t, s.read(s.key, "GET", "/v1/admin/audit?action=limits.set&subject="+uid, nil)["items"], 1)
		s.read(s.key, "PUT", "/v1/admin/limits/"+uid, map[string]any{})
		require.Empty(t, s.read(s.key, "GET", "/v1/admin/limits", nil)["items"])
		require.Equal(t, 403, s.send(anna, "PUT", "/v1/admin/limits/"+uid, map[string]any{"day": 9}).status)
	})
}

// The limits of a user are what was used by that user, and by nobody else.
func TestUsersSeeWhatTheyUseOfTheirLimits(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		s.store(s.canvas("c"), "a.txt", "12345")
		a := s.send(s.key, "POST", "/v1/tool/execute", `{"toolsetKey":"demo","toolName":"get_weather","arguments":{"city":"Oslo","file_name_title":"x"}}`)
		require.Equal(t, 200, a.status, a.raw)
		mine, others := s.read(s.key, "GET", "/v1/limits", nil), s.read(s.another("anna"), "GET", "/v1/limits", nil)
		require.EqualValues(t, 5, mine["storage"].(map[string]any)["usedBytes"])
		require.EqualValues(t, 0, others["storage"].(map[string]any)["usedBytes"])
		require.Equal(t, s.app.Config.Drive.Quota, int64(mine["storage"].(map[string]any)["quotaBytes"].(float64)))
		report := s.read(s.key, "GET", "/v1/credit/report?by=day", nil)
		require.Equal(t, fmt.Sprint(report["charged"]), fmt.Sprint(mine["credits"].(map[string]any)["spentToday"]))
		require.NotEqual(t, "0", fmt.Sprint(mine["credits"].(map[string]any)["spentToday"]))
		require.Equal(t, "0", fmt.Sprint(others["credits"].(map[string]any)["spentToday"]))
		require.Len(t, report["lines"], 1)
		require.Equal(t, time.Now().UTC().Format(time.DateOnly), report["lines"].([]any)[0].(map[string]any)["day"])
		require.Equal(t, "free", mine["plan"])
		require.EqualValues(t, s.app.Config.Tool.MaxPerUser, mine["calls"].(map[string]any)["most"])
	})
}

// The sandbox and the state of the process are what they are.
func TestAdministratorsSeeTheSandboxAndTheProcess(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite))
	s.run(map[string]any{"code": "print(1)"})
	box := s.read(s.key, "GET", "/v1/admin/sandbox?probe=true", nil)
	require.GreaterOrEqual(t, box["programs"], 1.0)
	require.Equal(t, "namespaces", box["isolation"])
	checks := map[string]bool{}
	for _, l := range box["layers"].([]any) {
		layer := l.(map[string]any)
		checks[layer["check"].(string)] = layer["ok"].(bool)
	}
	require.True(t, checks["isolation"], checks)
	require.Greater(t, len(checks), 6)
	require.NotContains(t, s.read(s.key, "GET", "/v1/admin/sandbox", nil), "layers")
	status := s.read(s.key, "GET", "/v1/admin/status", nil)
	for _, c := range status["checks"].([]any) {
		require.Equal(t, true, c.(map[string]any)["ok"], c)
	}
	require.Empty(t, status["stoppedUpstreams"])
	toolsets := s.read(s.key, "GET", "/v1/admin/toolsets", nil)
	require.Empty(t, toolsets["problems"])
	require.Contains(t, fmt.Sprint(toolsets["toolsets"]), "demo")
}
