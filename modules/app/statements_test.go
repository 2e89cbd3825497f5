package app_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/configs"
	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/app"
	"github.com/portico-run/portico/modules/app/apptest"
	"github.com/portico-run/portico/modules/billing"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/sandbox/guest"
	"github.com/portico-run/portico/modules/tool"
)

// Once its key, run and tool are known, a call in a run is its two transactions.
// Of each that is sent as a whole, the log has the first statement.
func TestACallThatIsKnownReadsNothingBeforeItsTransactions(t *testing.T) {
	t.Parallel()
	const begin, end = `INSERT INTO tool_call_results`, `UPDATE tool_call_results`
	for dialect, want := range map[database.Dialect][]string{
		database.SQLite:   {begin, end},
		database.Postgres: {`WITH one AS (` + begin, `WITH one AS (` + end},
	} {
		t.Run(string(dialect), func(t *testing.T) {
			t.Parallel()
			call := callerThatLogs(t, databasetest.URL(t, dialect))
			var got []string
			for range 50 { // what is known is read again now and then
				got = got[:0]
				for _, s := range call() {
					got = append(got, s[:min(len(s), longest(want))])
				}
				if slices.EqualFunc(got, want, strings.HasPrefix) {
					return
				}
			}
			t.Errorf("no call was as it should be; the last one:\n%s", strings.Join(got, "\n"))
		})
	}
}

func longest(texts []string) int {
	n := 0
	for _, text := range texts {
		n = max(n, len(text))
	}
	return n
}

var loggedStatement = regexp.MustCompile(`msg=statements? .*?(?:sql|first)="((?:[^"\\]|\\.)*)"`)

// callerThatLogs starts a server and returns what makes a call of a priced tool in
// a run, and returns its statements.
func callerThatLogs(t *testing.T, url string) func() []string {
	t.Helper()
	env := environ(t, url)
	testenv.Sandbox(t, guest.DefaultRoot(apptest.Values(env)))
	c, err := configs.Load(configs.Options{Environ: env})
	require.NoError(t, err)
	log := &buffer{}
	a, err := app.Open(t.Context(), app.Options{
		Config: c, Environ: apptest.Values(env), Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: database.LevelStatement})),
	})
	require.NoError(t, err)
	key, err := a.Prepare(t.Context())
	require.NoError(t, err)
	serving, err := a.Start(t.Context(), configs.Options{Environ: env})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, serving.Stop(context.WithoutCancel(t.Context())))
		require.NoError(t, a.Close())
	})
	u, err := a.Accounts.Service.UserByName(t.Context(), app.FirstUser)
	require.NoError(t, err)
	require.NoError(t, a.Credits.Service.Grant(t.Context(), u.UID, billing.Recharge{
		ID: ids.New(ids.Recharge), Amount: 10_000 * money.Credit, Source: "test", ExpiresAt: time.Now().Add(time.Hour),
	}))
	r, err := a.Runs.Service.Create(t.Context(), actor.Actor{UID: u.UID}, run.CreateParams{Title: "test"})
	require.NoError(t, err)
	return func() []string {
		trace := ids.New(ids.Run)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+serving.Addr().String()+tool.ExecutePath,
			strings.NewReader(`{"toolsetKey":"demo","toolName":"get_weather","arguments":{"city":"Oslo"}}`))
		require.NoError(t, err)
		for name, value := range map[string]string{
			"X-API-Key": key.Reveal(), "Content-Type": "application/json", "X-Request-Id": trace, "x-refly-result-id": r.ResultID,
		} {
			req.Header.Set(name, value)
		}
		answer, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer answer.Body.Close()
		var body struct{ Data struct{ Status string } }
		require.NoError(t, json.NewDecoder(answer.Body).Decode(&body))
		require.Equal(t, "success", body.Data.Status)
		var statements []string
		for line := range strings.Lines(log.String()) {
			if s := loggedStatement.FindStringSubmatch(line); s != nil && strings.Contains(line, "traceId="+trace) {
				statements = append(statements, strings.NewReplacer(`\"`, "", "`", "").Replace(s[1]))
			}
		}
		return statements
	}
}
