package anthropic_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/agenttest"
)

// A conversation that is too long for the model goes on: programs read again what was
// left out of it, and the client is told.
func TestLongConversations(t *testing.T) {
	t.Parallel()
	for _, streamed := range []bool{false, true} {
		s := agenttest.Serve(t, `
- output: [{call: {name: run_code, arguments: {code: "print('a' * 4000)"}}}]
- expect: ['earlier_output("call_scripted_0_0") returns it as a text.]']
  reject: ["aaaaaa"]
  output: [{call: {name: run_code, arguments: {code: "print(len(earlier_output(\"call_scripted_0_0\")))"}}}]
- expect: ["4001"]
  output: [{text: "Read."}]
`, agenttest.Window(t, "context: 6000"))
		c := begin(t, s, strings.Repeat("word ", 900), code())
		c.more["max_tokens"], c.stream = 3000, streamed
		c.send(http.StatusOK)
		c.says("And now?")
		body := map[string]any{"model": "scripted", "max_tokens": 3000, "messages": c.messages, "tools": c.tools, "stream": streamed}
		resp, text := request(t, s, http.MethodPost, path, body)
		require.Equal(t, http.StatusOK, resp.StatusCode, text)
		require.Equal(t, "1", resp.Header.Get("X-Portico-Compacted"))
		require.Contains(t, text, `"compacted":1`)
		require.Contains(t, text, "Read.")
	}
}

// What a program printed reads the same to the model when the conversation comes again:
// shortened.
func TestTheModelReadsTheSameAgain(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, `
- output: [{call: {name: run_code, arguments: {code: "print('a' * 4000)"}}}]
- output: [{text: "Read."}]
- output: [{text: "The same."}]
`, "AGENT_OUTPUT_CAP=1KiB")
	c := begin(t, s, "Begin.", code())
	c.send(http.StatusOK)
	c.says("And now?")
	c.send(http.StatusOK)
	var first, again struct{ Input []map[string]any }
	require.NoError(t, json.Unmarshal(s.Model.Requests()[1], &first))
	require.NoError(t, json.Unmarshal(s.Model.Requests()[2], &again))
	output := func(items []map[string]any) any {
		i := slices.IndexFunc(items, func(m map[string]any) bool { return m["type"] == "function_call_output" })
		require.NotEqual(t, -1, i)
		return items[i]["output"]
	}
	require.Less(t, len(output(first.Input).(string)), 2000)
	require.Equal(t, output(first.Input), output(again.Input))
}
