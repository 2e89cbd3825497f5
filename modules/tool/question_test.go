package tool_test

import (
	"context"
	"encoding/json"
	"testing"

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
