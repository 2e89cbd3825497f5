package dialogue_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/agenttest"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/agent/dialogue"
	"github.com/portico-run/portico/modules/model"
)

// order is a tool of the client's.
func order(direct bool) dialogue.Tool {
	return dialogue.Tool{
		Name: "get_order", Description: "One order.", Direct: direct, Code: true,
		Schema: json.RawMessage(`{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}`),
	}
}

// asks begins a request and waits for its answer.
func asks(t *testing.T, s *agenttest.Server, req dialogue.Request) dialogue.Answer {
	t.Helper()
	turn, err := s.Dialogues.Begin(t.Context(), s.User, req)
	require.NoError(t, err)
	got, err := turn.Answer(t.Context())
	if e, ok := errors.AsType[*errs.Error](err); ok {
		require.NoError(t, err, e.Detail)
	}
	require.NoError(t, err)
	return got
}

// of are the parts of an answer that are of one type.
func of[P dialogue.Part](a dialogue.Answer) (list []P) {
	for _, p := range a.Parts {
		if one, ok := p.(P); ok {
			list = append(list, one)
		}
	}
	return list
}

// A program calls a tool of the client's: the answer asks for the call, and the next
// request has its result. The program goes on where it was.
func TestAProgramWaitsForItsClient(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, `
- expect: ["get_order(id: int)", "Total of orders 1 and 2?"]
  output:
    - call: {name: run_code, arguments: {code: "a, b = await asyncio.gather(get_order(id=1), get_order(id=2))\nprint(a['total'] + b['total'])\nc = get_order(id=3)\nprint(c)"}}
- expect: ["42\nthree"]
  output: [{text: "42."}]
`)
	req := dialogue.Request{
		Items: []model.Item{model.User("Total of orders 1 and 2?")}, Tools: []dialogue.Tool{order(false)}, Programs: &dialogue.Programs{},
	}
	got := asks(t, s, req)
	require.Equal(t, dialogue.StopCalls, got.Stop)
	require.NotEmpty(t, got.Session)
	require.Len(t, of[dialogue.Program](got), 1)
	calls := of[dialogue.Call](got)
	require.Len(t, calls, 2)
	require.JSONEq(t, `{"id":1}`, string(calls[0].Arguments))
	require.Positive(t, got.Usage.Total())

	got = asks(t, s, dialogue.Request{Continue: &dialogue.Continue{Session: got.Session, Checked: true, Results: []dialogue.Result{
		{CallID: calls[0].ID, Value: json.RawMessage(`{"total":10}`)}, {CallID: calls[1].ID, Value: json.RawMessage(`{"total":32}`)},
	}}})
	require.Equal(t, dialogue.StopCalls, got.Stop)
	require.Zero(t, got.Usage.Total(), "nobody asked the model")
	require.Len(t, got.Parts, 1)
	third := of[dialogue.Call](got)[0]

	got = asks(t, s, dialogue.Request{Continue: &dialogue.Continue{Results: []dialogue.Result{{CallID: third.ID, Value: json.RawMessage(`"three"`)}}}})
	require.Equal(t, dialogue.StopEnd, got.Stop)
	require.Equal(t, "42\nthree\n", of[dialogue.Output](got)[0].Stdout)
	require.Equal(t, "42.", of[dialogue.Text](got)[0].Text)
}

const (
	testTimeout = time.Minute
	testTick    = 20 * time.Millisecond
)
