package execution_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/modules/codeapi"
	"github.com/portico-run/portico/modules/codeapi/codeapitest"
	"github.com/portico-run/portico/modules/codeapi/execution"
	"github.com/portico-run/portico/modules/sandbox"
)

// The databases of tests keep one goroutine each, which gorm starts and never
// stops.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("gorm.io/gorm/internal/lru.NewLRU[...].func1"))
}

// However a paused program ends, the service keeps nothing of it: no program, no
// timer, and, when all tests have run, no goroutine.
func TestNothingIsLeftOfPausedPrograms(t *testing.T) {
	t.Parallel()
	f := codeapitest.New(t, databasetest.Open(t, database.SQLite, nil), codeapitest.Options{Change: func(s *codeapi.Settings) { s.Programs.Idle = time.Hour }})
	end := make(chan struct{}, 1)
	f.Driver.Does(func(ctx context.Context, job sandbox.Job) sandbox.Result {
		asked, leave := context.WithCancel(ctx)
		defer leave()
		go func() {
			select {
			case <-end: // by itself, while it is paused
				leave()
			case <-asked.Done():
			}
		}()
		codeapitest.Call(asked, job, `{"calls":[{"name":"ask","input":{}}]}`)
		if ctx.Err() != nil {
			return sandbox.Result{Status: sandbox.Cancelled}
		}
		return sandbox.Result{Status: sandbox.Completed}
	})
	begin := func(request string) execution.Reply {
		t.Helper()
		r, err := f.Executions.Start(t.Context(), anna, execution.ProgramRequest{Code: "x", Tools: codeapitest.Tools("ask"), RequestID: request})
		require.NoError(t, err)
		require.True(t, r.Paused())
		return r
	}
	held := func(programs, timers int) func() bool {
		return func() bool {
			p, n := execution.Held(f.Executions)
			return p == programs && n == timers
		}
	}
	r := begin("")
	r, err := f.Executions.Continue(t.Context(), anna, r.Token, codeapitest.Answer(r, echo), "")
	require.NoError(t, err)
	require.False(t, r.Paused())
	require.True(t, held(0, 0)(), "continued")

	begin("cancelled")
	found, err := f.Executions.Cancel(t.Context(), anna, "cancelled")
	require.NoError(t, err)
	require.True(t, found)
	require.Eventually(t, held(1, 1), 5*time.Second, time.Millisecond, "its reply is kept for a while")

	begin("")
	end <- struct{}{}
	require.Eventually(t, held(2, 2), time.Minute, time.Millisecond)
	begin("")
	require.True(t, held(3, 2)())
	require.NoError(t, f.Executions.Stop(t.Context()))
	_, timers := execution.Held(f.Executions)
	require.Zero(t, timers, "nothing waits for the end of their time when the server has stopped")
}
