package loop_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/agent/loop"
	"github.com/portico-run/portico/modules/model"
)

const conversation = `
- output: [{text: "First."}, {call: {name: echo, arguments: {n: 1}}}, {call: {name: wait, arguments: {n: 2}}}, {call: {name: echo, arguments: {n: 3}}}]
- expect: ["got {\"n\":1}", "waited for 2", "got {\"n\":3}", "Go"]
  output: [{call: {name: echo, arguments: {n: 4}}}]
- expect: ["got {\"n\":4}", "First."]
  output: [{text: "Done."}]
`

// A turn that was left at a call goes on from its last step: what was made is not made
// again, what was left is, and the model is told the same as it would have been.
func TestContinue(t *testing.T) {
	t.Parallel()
	waits := tool("wait", func(context.Context, loop.Call) (string, error) { return "", loop.ErrLeft })
	first := set(t, conversation, tool("echo", echo), waits)
	var steps []loop.Step
	first.Keep = func(_ context.Context, s loop.Step) error {
		steps = append(steps, s)
		return nil
	}
	_, err := first.Turn(t.Context(), nil, "Go")
	require.ErrorIs(t, err, loop.ErrLeft)
	require.Len(t, first.server.Requests(), 1, "the model is not asked")
	require.Len(t, steps, 1)

	second := set(t, conversation, tool("echo", echo))
	second.Keep = func(_ context.Context, s loop.Step) error {
		steps = append(steps, s)
		return nil
	}
	var begun []string
	o, err := second.Continue(t.Context(), steps[0].Items, steps[0], func(_ context.Context, c loop.Call) (string, bool, error) {
		switch string(c.Arguments) {
		case `{"n":1}`:
			return `got {"n":1}`, true, nil
		case `{"n":2}`:
			return "waited for 2", true, errors.New("it failed")
		}
		begun = append(begun, string(c.Arguments))
		return "", false, nil
	})
	require.NoError(t, err)
	require.Equal(t, "Done.", o.Text)
	require.Equal(t, []string{`{"n":3}`}, begun)
	require.Equal(t, []string{`call echo {"n":3}`, "return echo <nil>"}, second.recorder.events[:2], "the others were made")
	require.Equal(t, 3, o.Requests)
	require.Equal(t, 4, o.Calls)
	require.Contains(t, second.sent(t, 0)[7]["output"], "Error: it failed\nwaited for 2")
	consistent(t, o.History)
	require.Len(t, steps, 2)
	require.Len(t, steps[1].Items, 3+1, "what came since the step before")
	require.Equal(t, 2, steps[1].Requests)
	require.Equal(t, 3, steps[1].Executed)
}

// What is kept is enough: the steps together are the history.
func TestStepsAreTheHistory(t *testing.T) {
	t.Parallel()
	s := set(t, conversation, tool("echo", echo), tool("wait", func(context.Context, loop.Call) (string, error) { return "waited for 2", nil }))
	var kept []model.Item
	s.Keep = func(_ context.Context, step loop.Step) error {
		kept = append(kept, step.Items...)
		require.NotEmpty(t, step.Calls())
		return nil
	}
	o, err := s.Turn(t.Context(), []model.Item{model.User("before")}, "Go")
	require.NoError(t, err)
	require.Equal(t, o.History[:len(kept)], kept)
	require.Len(t, kept, len(o.History)-2, "all but the last output and the answer")
}

// An answer that cannot be kept is not acted on.
func TestAnAnswerThatIsNotKept(t *testing.T) {
	t.Parallel()
	s := set(t, conversation, tool("echo", func(context.Context, loop.Call) (string, error) {
		t.Error("it was executed")
		return "", nil
	}))
	down := errors.New("the database is down")
	s.Keep = func(context.Context, loop.Step) error { return down }
	o, err := s.Turn(t.Context(), nil, "Go")
	require.ErrorIs(t, err, down)
	consistent(t, o.History)
}

// A turn that another process goes on with is left, also when its time is over.
func TestATurnIsLeftAtTheEndOfItsTime(t *testing.T) {
	t.Parallel()
	taken := errors.New("another process has the turn")
	for name, c := range map[string]struct {
		call, keep, want error
	}{
		"by a call": {loop.ErrLeft, nil, loop.ErrLeft},
		"by a step": {nil, taken, taken},
		"not":       {nil, nil, loop.ErrLimit},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := set(t, "- output: [{call: {name: waits}}]", tool("waits", func(ctx context.Context, _ loop.Call) (string, error) {
				<-ctx.Done()
				return "", c.call
			}))
			s.Limits.Wall = 300 * time.Millisecond
			s.Keep = func(ctx context.Context, _ loop.Step) error {
				if c.keep != nil {
					<-ctx.Done()
				}
				return c.keep
			}
			_, err := s.Turn(t.Context(), nil, "Go")
			require.ErrorIs(t, err, c.want)
		})
	}
}

// The limits of a turn count what came before.
func TestLimitsHoldForTheWholeTurn(t *testing.T) {
	t.Parallel()
	made := func(context.Context, loop.Call) (string, bool, error) { return "waited for 2", true, nil }
	item := model.Item(`{"type":"function_call","call_id":"p","name":"echo","arguments":"{\"n\":1}"}`)
	again := `- output: [{call: {name: echo, arguments: {n: 1}}}]`
	for name, try := range map[string]struct {
		limits loop.Limits
		last   loop.Step
	}{
		"requests": {loop.Limits{Requests: 3}, loop.Step{Requests: 3}},
		"lowered":  {loop.Limits{Requests: 3}, loop.Step{Requests: 5}},
		"tokens":   {loop.Limits{Tokens: 100}, loop.Step{Requests: 1, Usage: model.Usage{Input: 99}}},
		"repeats":  {loop.Limits{Repeats: 2}, loop.Step{Requests: 2, Repeats: 2}},
		"wall":     {loop.Limits{Wall: time.Minute}, loop.Step{Requests: 1, Spent: time.Hour}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := set(t, again, tool("echo", echo))
			s.Limits = try.limits
			try.last.Items = []model.Item{model.User("Go"), item}
			_, err := s.Continue(t.Context(), try.last.Items, try.last, made)
			require.ErrorIs(t, err, loop.ErrLimit)
		})
	}
}
