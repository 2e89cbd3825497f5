package agent_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/agenttest"
	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/modules/agent"
	"github.com/portico-run/portico/modules/run"
)

// statements changes the database of a server behind its back.
func statements(t *testing.T, s *agenttest.Server, list ...string) {
	t.Helper()
	require.NoError(t, s.DB.InTx(t.Context(), func(tx database.Tx) error {
		for _, sql := range list {
			if err := database.Unscoped(tx.Handle).Exec(sql).Error; err != nil {
				return err
			}
		}
		return nil
	}))
}

func count(t *testing.T, s *agenttest.Server, sql string) (n int) {
	t.Helper()
	require.NoError(t, database.Unscoped(s.DB.Read(t.Context())).Raw(sql).Scan(&n).Error)
	return n
}

// ends waits until a run has ended.
func ends(t *testing.T, s *agenttest.Server, resultID string) run.Run {
	t.Helper()
	require.Eventually(t, func() bool { return s.Run(resultID).Status.Final() }, time.Minute, 10*time.Millisecond)
	return s.Run(resultID)
}

// The end of a run is recorded although the database refuses it at first, also of one
// that was taken over and cannot go on.
func TestTheEndOfARunIsRecordedInTheEnd(t *testing.T) {
	t.Parallel()
	// A sequence of PostgreSQL counts also what is taken back.
	s := agenttest.Serve(t, "- output: [{text: Fine.}]\n", "PTC_MODE=off", "DATABASE_URL="+databasetest.URL(t, database.Postgres))
	statements(
		t, s, "CREATE SEQUENCE tries",
		"CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF nextval('tries') % 3 <> 0 THEN RAISE EXCEPTION 'not now'; END IF; RETURN NEW; END $$",
		"CREATE TRIGGER refuse BEFORE UPDATE ON action_results FOR EACH ROW WHEN (NEW.status IN ('finish', 'error')) EXECUTE FUNCTION refuse()",
	)
	r, err := s.Agents.Service.Invoke(t.Context(), s.User, agent.Request{Query: "Go"})
	require.NoError(t, err)
	require.Equal(t, run.Done, ends(t, s, r.ResultID).Status)
	require.Len(t, s.Model.Requests(), 1)

	statements(
		t, s, "INSERT INTO action_results (result_id, version, uid, title, type, status, lease_expires_at) SELECT 'ar-unread', 0, uid, 'Go', 'skill', 'running', now() FROM users",
		`INSERT INTO agent_turns (uid, result_id, version, step, created_at, body) SELECT uid, 'ar-unread', 0, 0, now(), '{"request":"of no known form"}' FROM users`,
	)
	r = ends(t, s, "ar-unread")
	require.Equal(t, run.Failed, r.Status)
	require.Contains(t, r.Errors[0], "was interrupted")
}

// An abort counts when it was answered with true, also while the process leaves the run,
// and after the model's last answer.
func TestAnAbortCountsToTheEnd(t *testing.T) {
	t.Parallel()
	// PostgreSQL says who waits for a lock.
	s := agenttest.Serve(t, "- on: Wait\n  delay: 10m\n  output: [{text: Late.}]\n- on: Go\n  output: [{text: Fine.}]\n", "PTC_MODE=off", "DATABASE_URL="+databasetest.URL(t, database.Postgres))
	abort := func(r run.Run) bool {
		aborted, err := s.Agents.Service.Abort(t.Context(), s.User, r.ResultID, nil)
		return err == nil && aborted
	}
	r, err := s.Agents.Service.Invoke(t.Context(), s.User, agent.Request{Query: "Wait"})
	require.NoError(t, err)
	answered := make(chan bool, 1)
	require.NoError(t, s.DB.InTx(t.Context(), func(tx database.Tx) error {
		require.NoError(t, database.Unscoped(tx.Handle).Exec("SELECT 1 FROM action_results FOR UPDATE").Error)
		s.Agents.Service.Abandon()
		go func() { answered <- abort(r) }()
		require.Eventually(t, func() bool {
			return len(answered) == 1 || count(t, s, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == 2
		}, time.Minute, 10*time.Millisecond, "the process leaves the run, and the abort ends it")
		return nil
	}))
	require.True(t, <-answered)
	require.Equal(t, run.Aborted, ends(t, s, r.ResultID).Status)

	statements(
		t, s, "CREATE SEQUENCE tries",
		"CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM nextval('tries'); RAISE EXCEPTION 'never'; END $$",
		"CREATE TRIGGER refuse BEFORE UPDATE ON action_results FOR EACH ROW WHEN (NEW.status = 'finish') EXECUTE FUNCTION refuse()",
	)
	r, err = s.Agents.Service.Invoke(t.Context(), s.User, agent.Request{Query: "Go"})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return count(t, s, "SELECT count(*) FROM tries WHERE is_called") == 1 }, time.Minute, 10*time.Millisecond)
	require.True(t, abort(r))
	require.Equal(t, run.Aborted, ends(t, s, r.ResultID).Status)
}

// A run that its model ended ends as it did there in the process that takes it over.
func TestHowARunEndedOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, "- output: [{call: {name: fail, arguments: {reason: It cannot be done.}}}]\n- output: [{text: Never.}]\n",
		"PTC_MODE=off", "AGENT_LIFECYCLE_TOOLS=true", "DATABASE_URL="+databasetest.URL(t, database.Postgres))
	statements(
		t, s, "CREATE SEQUENCE tries",
		"CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM nextval('tries'); RAISE EXCEPTION 'not now'; END $$",
		"CREATE TRIGGER refuse BEFORE UPDATE ON action_results FOR EACH ROW WHEN (NEW.status <> 'running') EXECUTE FUNCTION refuse()",
	)
	r, err := s.Agents.Service.Invoke(t.Context(), s.User, agent.Request{Query: "Go"})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return count(t, s, "SELECT count(*) FROM tries WHERE is_called") == 1 }, time.Minute, 10*time.Millisecond)
	// As if the process had died.
	statements(t, s, "DROP TRIGGER refuse ON action_results", "UPDATE action_results SET lease_owner = NULL, lease_expires_at = now()")
	got := ends(t, s, r.ResultID)
	require.Equal(t, run.Failed, got.Status)
	require.Equal(t, []string{"It cannot be done."}, got.Errors)
	require.Len(t, s.Model.Requests(), 1)
}

// What the user is told of a request is in the record of the run also where its process
// is gone before the model has answered.
func TestNotesOutliveTheirProcess(t *testing.T) {
	t.Parallel()
	for _, d := range databasetest.Of(t) {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			s := agenttest.Serve(t, "- delay: 2s\n  output: [{text: Fine.}]\n", "PTC_MODE=off", "DATABASE_URL="+databasetest.URL(t, d))
			r, err := s.Agents.Service.Invoke(t.Context(), s.User, agent.Request{Query: "Go", Notes: []string{"Toolset x is left out."}})
			require.NoError(t, err)
			s.Agents.Service.Abandon()
			got := ends(t, s, r.ResultID)
			require.Equal(t, run.Done, got.Status, "%v", got.Errors)
			require.Equal(t, []string{"Toolset x is left out."}, got.Warnings)
		})
	}
}
