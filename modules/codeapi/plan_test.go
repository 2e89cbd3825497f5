package codeapi_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/codeapi/codeapitest"
	"github.com/portico-run/portico/modules/codeapi/execution"
	"github.com/portico-run/portico/modules/codeapi/session"
	"github.com/portico-run/portico/modules/sandbox"
)

// limits are those of users, by uid.
type limits map[string]execution.PlanLimits

func (l limits) LimitsOf(_ context.Context, uid string) (execution.PlanLimits, error) {
	if uid == "u-unreadable" {
		return execution.PlanLimits{}, errors.New("the plan cannot be read")
	}
	return l[uid], nil
}

func run(t *testing.T, f *codeapitest.Fixture, timeout time.Duration) error {
	t.Helper()
	_, err := f.Executions.Exec(t.Context(), anna, execution.ExecRequest{Language: "py", Code: "x", Timeout: timeout})
	return err
}

func TestPlansBoundPrograms(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		plans := limits{anna.UID: {Timeout: 5 * time.Second, MaxFile: 10}}
		f := codeapitest.New(t, db, codeapitest.Options{Plans: plans})
		var got time.Duration
		f.Driver.Does(func(_ context.Context, job sandbox.Job) sandbox.Result {
			got = job.Timeout
			return sandbox.Result{Status: sandbox.Completed, Outputs: []sandbox.File{
				{Path: "small", Content: []byte("0123456789")}, {Path: "large", Content: []byte("0123456789a")},
			}}
		})
		for asked, want := range map[time.Duration]time.Duration{0: 5 * time.Second, 3 * time.Second: 3 * time.Second, time.Minute: 5 * time.Second} {
			require.NoError(t, run(t, f, asked))
			require.Equal(t, want, got)
		}
		r, err := f.Executions.Exec(t.Context(), anna, execution.ExecRequest{Language: "py", Code: "x"})
		require.NoError(t, err)
		require.Len(t, r.Produced.Files, 1)
		require.Equal(t, 1, r.Produced.Dropped)
		_, _, problems, err := f.Sessions.Upload(t.Context(), anna, session.FileOwner{}, []session.Upload{codeapitest.Upload("a", "0123456789"), codeapitest.Upload("b", "0123456789a")})
		require.NoError(t, err)
		require.NoError(t, problems[0])
		require.Equal(t, errs.TooLarge, errs.CodeOf(problems[1]))

		// Another user has the limits of all.
		r, err = f.Executions.Exec(t.Context(), ben, execution.ExecRequest{Language: "py", Code: "x"})
		require.NoError(t, err)
		require.Len(t, r.Produced.Files, 2)
		require.Equal(t, time.Minute, got)

		plans[anna.UID] = execution.PlanLimits{PerMinute: 2}
		require.NoError(t, run(t, f, 0))
		require.NoError(t, run(t, f, 0))
		refused, ok := errors.AsType[*errs.Error](run(t, f, 0))
		require.True(t, ok)
		require.ErrorIs(t, refused, execution.ErrPlan)
		require.Equal(t, 30*time.Second, refused.RetryAfter)
		f.Now = f.Now.Add(refused.RetryAfter)
		require.NoError(t, run(t, f, 0))
		require.ErrorIs(t, run(t, f, 0), execution.ErrPlan)
		plans[anna.UID] = execution.PlanLimits{PerMinute: 3}
		require.NoError(t, run(t, f, 0), "a new plan begins anew")
	})
}

func TestPlansBoundWhatIsHeldAtOnce(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := codeapitest.New(t, db, codeapitest.Options{Plans: limits{anna.UID: {AtOnce: 1}}})
		hold := make(chan struct{})
		f.Driver.Does(func(ctx context.Context, job sandbox.Job) sandbox.Result {
			if job.Code == "pause" {
				return codeapitest.Pausing(ctx, job, hold)
			}
			return sandbox.Result{Status: sandbox.Completed}
		})
		for range 100 {
			require.NoError(t, run(t, f, 0), "the one before it has ended")
		}
		paused, err := f.Executions.Start(t.Context(), anna, execution.ProgramRequest{Code: "pause", Tools: codeapitest.Tools("ask")})
		require.NoError(t, err)
		require.True(t, paused.Paused())
		require.ErrorIs(t, run(t, f, 0), execution.ErrPlan, "a paused program is held")
		_, err = f.Executions.Exec(t.Context(), ben, execution.ExecRequest{Language: "py", Code: "x"})
		require.NoError(t, err)
		close(hold)
		ended, err := f.Executions.Continue(t.Context(), anna, paused.Token, codeapitest.Answer(paused), "")
		require.NoError(t, err)
		require.False(t, ended.Paused())
		require.NoError(t, run(t, f, 0))
	})
}

// A plan that cannot be read lets nothing through.
func TestAPlanThatCannotBeReadRefuses(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := codeapitest.New(t, db, codeapitest.Options{Plans: limits{}})
		who := anna
		who.UID = "u-unreadable"
		f.Driver.Does(func(context.Context, sandbox.Job) sandbox.Result {
			t.Error("the program ran")
			return sandbox.Result{Status: sandbox.Completed}
		})
		_, err := f.Executions.Exec(t.Context(), who, execution.ExecRequest{Language: "py", Code: "x"})
		require.ErrorContains(t, err, "cannot be read")
		_, _, _, err = f.Sessions.Upload(t.Context(), who, session.FileOwner{}, []session.Upload{codeapitest.Upload("a", "b")})
		require.ErrorContains(t, err, "cannot be read")
	})
}
