package loop_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/agent/loop"
	"github.com/portico-run/portico/modules/model"
)

// A call that ends the turn is executed after the others of its answer, in
// whatever order they were written, and the model is not asked again. A second
// one is not executed.
func TestACallEndsTheTurn(t *testing.T) {
	t.Parallel()
	last := tool("last", func(context.Context, loop.Call) (string, error) { return "The answer.", nil })
	last.Ends = true
	s := set(t, `
- output: [{text: "Wait."}, {call: {name: last, arguments: {n: 1}}}, {call: {name: echo, arguments: {n: 2}}}, {call: {name: last, arguments: {n: 3}}}]
- output: [{text: "Never."}]
`, tool("echo", echo), last)
	o, err := s.Turn(t.Context(), nil, "Go")
	require.NoError(t, err)
	require.Equal(t, "The answer.", o.Text)
	require.Equal(t, 1, o.Requests)
	require.Equal(t, []string{"answer scripted:test", `call echo {"n":2}`, "return echo <nil>", `call last {"n":1}`, "return last <nil>"}, s.recorder.events)
	require.Contains(t, string(o.History[len(o.History)-1]), "the run had been ended")
}

// A call that fails, or whose arguments do not fit, ends nothing.
func TestACallThatFailsDoesNotEndTheTurn(t *testing.T) {
	t.Parallel()
	tries := 0
	last := tool("last", func(context.Context, loop.Call) (string, error) {
		if tries++; tries == 1 {
			return "", errors.New("not yet")
		}
		return "The answer.", nil
	})
	last.Ends = true
	s := set(t, `
- output: [{call: {name: last, arguments: {n: "x"}}}]
- expect: ["do not fit"]
  output: [{call: {name: last, arguments: {n: 1}}}]
- expect: ["not yet"]
  output: [{call: {name: last, arguments: {n: 1}}}]
`, last)
	o, err := s.Turn(t.Context(), nil, "Go")
	require.NoError(t, err)
	require.Equal(t, "The answer.", o.Text)
	require.Equal(t, 3, o.Requests)
}

// The answer of a turn that has used its tokens is not lost for that.
func TestTheEndIsNotRefusedForTokens(t *testing.T) {
	t.Parallel()
	last := tool("last", func(context.Context, loop.Call) (string, error) { return "The answer.", nil })
	last.Ends = true
	s := set(t, "- output: [{call: {name: last, arguments: {n: 1}}}]\n  usage: {input: 900, output: 200}\n", last)
	s.Limits.Tokens = 1000
	o, err := s.Turn(t.Context(), nil, "Go")
	require.NoError(t, err)
	require.Equal(t, "The answer.", o.Text)
}

// Over a limit, only what would end the turn is executed; where that does not end it,
// the limit does.
func TestLimitsHoldBesideAnEnd(t *testing.T) {
	t.Parallel()
	last := tool("last", func(context.Context, loop.Call) (string, error) { return "The answer.", nil })
	last.Ends = true
	again := strings.Repeat(`
- output: [{call: {name: last, arguments: {n: "x"}}}, {call: {name: echo, arguments: {n: 1}}}]
  usage: {input: 50, output: 50}`, 3)
	for name, c := range map[string]struct {
		script   string
		limits   loop.Limits
		requests int
		fails    bool
	}{
		"tokens":  {again, loop.Limits{Tokens: 200}, 2, true},
		"repeats": {again, loop.Limits{Repeats: 1}, 2, true},
		"the end": {`- output: [{call: {name: last, arguments: {n: 1}}}, {call: {name: echo, arguments: {n: 1}}}]
  usage: {input: 50, output: 50}`, loop.Limits{Tokens: 100}, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := set(t, c.script, tool("echo", echo), last)
			s.Limits = c.limits
			o, err := s.Turn(t.Context(), nil, "Go")
			require.Equal(t, c.fails, errors.Is(err, loop.ErrLimit), "%v", err)
			require.Equal(t, c.requests, o.Requests)
			require.Equal(t, c.requests-1, strings.Count(strings.Join(s.recorder.events, "\n"), "call echo"))
			consistent(t, o.History)
		})
	}
}

// A turn that a call has ended is ended, although its time was over with that.
func TestTheEndIsNotTooLate(t *testing.T) {
	t.Parallel()
	last := tool("last", func(ctx context.Context, _ loop.Call) (string, error) {
		<-ctx.Done()
		return "The answer.", nil
	})
	last.Ends = true
	s := set(t, "- output: [{call: {name: last, arguments: {n: 1}}}]", last)
	s.Limits.Wall = 300 * time.Millisecond
	o, err := s.Turn(t.Context(), nil, "Go")
	require.NoError(t, err)
	require.Equal(t, "The answer.", o.Text)
}

// A call that ended the turn in another process has ended it: the model is not asked
// again.
func TestACallOfAnotherProcessEndsTheTurn(t *testing.T) {
	t.Parallel()
	last := tool("last", func(context.Context, loop.Call) (string, error) { return "Another answer.", nil })
	last.Ends = true
	s := set(t, "- output: [{text: Never.}]", last)
	step := loop.Step{Requests: 1, Items: []model.Item{
		model.User("Go"), model.Item(`{"type":"function_call","call_id":"a","name":"last","arguments":"{\"n\":1}"}`),
		model.Item(`{"type":"function_call","call_id":"b","name":"last","arguments":"{\"n\":2}"}`),
	}}
	o, err := s.Continue(t.Context(), step.Items, step, func(_ context.Context, c loop.Call) (string, bool, error) {
		return "The answer.", c.ID == "a", nil
	})
	require.NoError(t, err)
	require.Equal(t, "The answer.", o.Text)
	require.Empty(t, s.server.Requests())
	require.Contains(t, string(o.History[len(o.History)-1]), "the run had been ended")
}
