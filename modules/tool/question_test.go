package tool_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/modules/billing"
	"github.com/portico-run/portico/modules/run/record"
	"github.com/portico-run/portico/modules/tool"
	"github.com/portico-run/portico/modules/tool/approval"
)

// asks begins a call that is sent, and whose tool asks a question; the call waits for
// the answer.
func (f *fixture) asks(ctx context.Context, req tool.Request) (<-chan record.Answer, approval.Approval) {
	f.t.Helper()
	f.upstream.will(func(ctx context.Context, in tool.Invocation) (tool.Outcome, error) {
		if _, err := in.Ask(ctx, approval.Asked{From: "weather", Message: "Really?"}); err != nil {
			return tool.Outcome{}, err
		}
		return tool.Outcome{Data: json.RawMessage(`{"sky":"clear"}`)}, nil
	})
	f.rule(approval.Always) // a call that waited for an approval can ask
	done := f.begin(ctx, req)
	_, err := f.approvals.Decide(f.t.Context(), anna, decide(f.waiting(1)[0].CallID, approval.Allow))
	require.NoError(f.t, err)
	w := f.waiting(1)[0]
	require.NotNil(f.t, w.Question)
	return done, w
}

// A call that was sent holds its price while it waits for an answer, whatever other
// calls do.
func TestQuestionsKeepTheHold(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		f.grant(anna, 100)
		require.NoError(t, f.credits.SetLimits(t.Context(), anna.UID, billing.Limits{Day: new(5 * money.Credit)}))
		done, w := f.asks(t.Context(), request(`{"city":"Oslo"}`))
		f.rule(approval.Never)
		f.upstream.will(nil)
		second, err := f.execute(t.Context(), anna, request(`{"city":"Rome"}`))
		require.NoError(t, err)
		require.Equal(t, record.Success, second.Status, second.Error)
		third, err := f.execute(t.Context(), anna, request(`{"city":"Bern"}`))
		require.NoError(t, err)
		require.Equal(t, tool.CodeSpendingLimit, third.ErrorCode)
		require.Contains(t, third.Error, "4 are spent or in use")

		_, err = f.approvals.Decide(t.Context(), anna, decide(w.CallID, approval.Allow))
		require.NoError(t, err)
		require.Equal(t, record.Success, (<-done).Status)
		require.Equal(t, "96", f.balance(anna))
	})
}

// A call that was sent is not said to have not been, where its process dies while it
// waits for an answer, and where somebody has just given one.
func TestQuestionsOfADeadProcess(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		other := f.again("process-2")
		for _, state := range []approval.State{approval.Waiting, approval.Allowed} {
			ctx, leave := context.WithCancel(t.Context())
			done, w := f.asks(ctx, request(`{"city":"Oslo"}`))
			leave()
			<-done
			// What a process that died would have left.
			tool.Exec(t, f.db, `UPDATE tool_call_results SET status = 'waiting', lease_owner = 'dead', lease_expires_at = ? WHERE call_id = ?`, f.clock().Add(-time.Hour), w.CallID)
			tool.Exec(t, f.db, `UPDATE approvals SET state = ? WHERE call_id = ? AND question IS NOT NULL`, state, w.CallID)
			tool.Exec(t, f.db, `INSERT INTO executing_calls (call_pk, uid) SELECT pk, uid FROM tool_call_results WHERE call_id = ?`, w.CallID)
			require.NoError(t, other.Keeper.Reap(t.Context()))
			c, err := f.records.Call(t.Context(), anna, w.CallID)
			require.NoError(t, err)
			require.Equal(t, record.Failed, c.Status)
			require.Equal(t, record.AskedMessage, c.Error)
			require.Contains(t, string(c.Output), record.CodeInterrupted)
			require.NoError(t, other.approvals.Tend(t.Context()))
		}
	})
}
