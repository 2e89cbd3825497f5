package eval

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/services/tasks"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/modules/cli/shell"
)

// What was done is added up by form and task, in the order of the plan, and what is
// not a success is told with its reason.
func TestTablesSayWhatIsKnown(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	c := &shell.Shell{Stdout: &out}
	p := plan{tasks: tasks.All()[:2], forms: forms()[:3], repeat: 2, parallel: 1, budget: new(5 * money.Credit)}
	b := newBench(c, p)
	b.model, b.stopped = "large", "It was interrupted."
	b.outcomes = []outcome{
		{Form: "lines", Task: "one-call", Attempt: 1, Requests: 3, Input: 300, Output: 30, Credits: money.Credit, Seconds: 9, Reason: "the answer lacks 3", Warnings: []string{"Model large gave no answer."}},
		{Form: "plain", Task: "lookup-fan-out", Attempt: 1, Success: true, Requests: 2, Input: 200, Cached: 50, Output: 20, Credits: money.Credit / 2, Seconds: 3},
		{Form: "plain", Task: "one-call", Attempt: 2, Success: true, Requests: 1, Input: 100, Cached: 10, Output: 10, Credits: money.Credit / 4, Seconds: 1},
		{Form: "plain", Task: "one-call", Attempt: 1, Reason: "the answer lacks 3", Requests: 1, Input: 100, Output: 10, Credits: money.Credit / 4, Seconds: 2},
	}
	b.ledger.spent = 2 * money.Credit
	r := b.report()
	require.ErrorIs(t, r.verdict(p), errPartial)
	require.NoError(t, r.print(c, p))
	require.Equal(t, `Model large

PARTIAL: 4 of 12 runs were made. It was interrupted.

FORM   SUCCESS  REQUESTS  TOKENS IN  CACHED  TOKENS OUT  CREDITS  SECONDS (P50)
plain  2/3      4         400        60      40          1        2.00
lines  0/1      3         300        0       30          1        9.00
docs   -        0         0          0       0           0        0.00

TASK            PLAIN  LINES  DOCS
one-call        1/2    0/1    -
lookup-fan-out  1/1    -      -

plain, one-call, attempt 1: the answer lacks 3

lines, one-call, attempt 1: the answer lacks 3

lines, one-call, attempt 1, warning: Model large gave no answer.

2 of 5 credits were spent.
`, out.String())
}

// Runs that are under way at once are allowed no more than the budget together, and
// none begins that may not be paid.
func TestABudgetIsShared(t *testing.T) {
	t.Parallel()
	l := newLedger(new(12*money.Credit), 3)
	var held [3]money.Amount
	for i := range held {
		var ok bool
		held[i], ok = l.take()
		require.True(t, ok)
		require.Equal(t, 4*money.Credit, held[i])
	}
	// A fourth waits for one of them.
	waiting := make(chan money.Amount)
	go func() {
		n, _ := l.take()
		waiting <- n
	}()
	require.False(t, l.settle(held[0], money.Credit))
	require.Equal(t, 3*money.Credit, <-waiting)
	require.True(t, l.settle(held[1], 4*money.Credit), "it has spent all that it was allowed")
	require.False(t, l.settle(held[2], 3*money.Credit))
	require.False(t, l.settle(3*money.Credit, money.Credit))
	_, ok := l.take() // 3 are left, and the dearest cost 4
	require.False(t, ok)
	require.Equal(t, "The budget of 12 credits does not hold another run: 9 are spent, and the dearest run cost 4.", l.why())

	n, ok := newLedger(nil, 1).take()
	require.True(t, ok)
	require.Equal(t, plenty, n)
}
