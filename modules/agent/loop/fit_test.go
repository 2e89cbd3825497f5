package loop_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/agent/loop"
	"github.com/portico-run/portico/modules/model"
)

// large is a tool whose results have 3,000 bytes and are kept under an id.
func large() loop.Tool {
	return tool("large", func(_ context.Context, c loop.Call) (string, error) {
		c.Recorded("record of " + c.ID)
		return strings.Repeat("x", 2990) + " of " + c.ID[len(c.ID)-3:], nil
	})
}

// A conversation that becomes too long for the model loses its oldest results, and no
// more of them than it must; the model is told how to read them again.
func TestOldResultsMakeRoom(t *testing.T) {
	t.Parallel()
	s := set(t, `
- output: [{call: {name: large, arguments: {n: 1}}}, {call: {name: short, arguments: {n: 2}}}]
  usage: {input: 500, output: 100}
- expect: ["x of 0_0"]
  output: [{call: {name: large, arguments: {n: 3}}}]
  usage: {input: 1600, output: 100}
- expect: ["x of 0_0", "x of 1_0"]
  output: [{call: {name: large, arguments: {n: 4}}}]
  usage: {input: 2800, output: 100}
- expect: ["[This result of 2997 bytes was removed to make room. read_tool_result with call_id \"record of call_scripted_0_0\" reads it again.]", "short and without a record", "x of 2_0"]
  reject: ["x of 0_0"]
  output: [{text: "Done."}]
`, large(), tool("short", func(context.Context, loop.Call) (string, error) {
		return "short and without a record" + strings.Repeat(".", 1000), nil
	}))
	s.Limits.Context, s.Limits.Answer = 4000, 100
	var told []int
	s.Removed = func(_ context.Context, n int) { told = append(told, n) }
	o, err := s.Turn(t.Context(), nil, "Go")
	require.NoError(t, err)
	require.Equal(t, "Done.", o.Text)
	require.Equal(t, []int{2}, told, "once, with some room for what follows")
	consistent(t, o.History)
}

// Without a provider's number, the bytes are counted; where nothing can be removed, the
// turn ends and says why. Without a context nobody looks.
func TestConversationsThatDoNotFit(t *testing.T) {
	t.Parallel()
	s := set(t, "- output: [{text: Done.}]\n")
	long := strings.Repeat("x", 9000)
	s.Limits.Context = 3000
	_, err := s.Turn(t.Context(), nil, long)
	require.ErrorIs(t, err, loop.ErrLimit)
	require.ErrorContains(t, err, "the conversation has about 30")
	require.ErrorContains(t, err, "and the model reads 2625")
	require.Empty(t, s.server.Requests())
	s.Limits.Context = 0
	_, err = s.Turn(t.Context(), nil, long)
	require.NoError(t, err)
}

// Another process that goes on with a turn knows where results are kept.
func TestResultsOfAnotherProcessMakeRoom(t *testing.T) {
	t.Parallel()
	script := `
- output: [{call: {name: large, arguments: {n: 1}}}]
- output: [{call: {name: large, arguments: {n: 2}}}]
- expect: ["x of 1_0", "record of call_scripted_0_0"]
  reject: ["x of 0_0"]
  output: [{text: "Done."}]
`
	first := set(t, script, large())
	var (
		items   []model.Item
		records = map[string]string{}
		last    loop.Step
	)
	first.Keep = func(_ context.Context, step loop.Step) error {
		items, last = append(items, step.Items...), step
		maps.Copy(records, step.Records)
		if step.Requests == 2 {
			return fmt.Errorf("it ends here")
		}
		return nil
	}
	_, err := first.Turn(t.Context(), nil, "Go")
	require.ErrorContains(t, err, "it ends here")
	require.Equal(t, map[string]string{"call_scripted_0_0": "record of call_scripted_0_0"}, records)

	second := set(t, script, large())
	second.Records, second.Limits.Context, second.Limits.Answer = records, 2100, 100
	o, err := second.Continue(t.Context(), items, last, func(context.Context, loop.Call) (string, bool, error) { return "", false, nil })
	require.NoError(t, err)
	require.Equal(t, "Done.", o.Text)
}

// A provider that names two calls alike gets no wrong result for one of them.
func TestResultsOfCallsWithOneNameStay(t *testing.T) {
	t.Parallel()
	n := 0
	twice := tool("twice", func(_ context.Context, c loop.Call) (string, error) {
		n++
		c.Recorded(fmt.Sprint("record ", n))
		return strings.Repeat("x", 3000), nil
	})
	s := set(t, `
- output: [{item: {type: function_call, id: fc_scripted_0_0, call_id: same, name: twice, arguments: "{}"}}]
- output: [{item: {type: function_call, id: fc_scripted_1_0, call_id: same, name: twice, arguments: "{\"n\":1}"}}]
- output: [{text: "Never."}]
`, twice)
	s.Limits.Context = 2000
	_, err := s.Turn(t.Context(), nil, "Go")
	require.ErrorIs(t, err, loop.ErrLimit)
	require.ErrorContains(t, err, "the conversation has about 1950 tokens")
	require.Len(t, s.server.Requests(), 2)
}
