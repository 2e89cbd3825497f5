package responses_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/agenttest"
)

// A stored conversation that is too long for the model goes on: programs read again what
// was left out of it. What does not fit even so is refused.
func TestLongConversations(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, `
- output: [{call: {name: run_code, arguments: {code: "print('a' * 4000)"}}}]
- expect: ['earlier_output("call_scripted_0_0") returns it as a text.]']
  reject: ["aaaaaa"]
  output: [{call: {name: run_code, arguments: {code: "print(len(earlier_output(\"call_scripted_0_0\")))"}}}]
- expect: ["4001"]
  output: [{text: "Read."}]
`, agenttest.Window(t, "context: 6000"))
	tools := []object{{"type": "programmatic_tool_calling"}, order()}
	g := ask(t, s, 200, object{"input": strings.Repeat("word ", 900), "tools": tools, "max_output_tokens": 3000})
	require.Equal(t, "program program_output program program_output message", g.types())
	require.Equal(t, strings.Repeat("a", 4000)+"\n", g.Output[1]["result"], "the client has everything")
	require.Equal(t, "4001\n", g.Output[3]["result"])
	g = ask(t, s, 200, object{"input": "And now?", "previous_response_id": g.ID, "tools": tools, "max_output_tokens": 3000})
	require.Equal(t, "message", g.types())
	g = ask(t, s, 400, object{"input": strings.Repeat("word ", 9000), "tools": tools, "max_output_tokens": 3000})
	require.Equal(t, "context_length_exceeded", g.Error.Code)
	require.Contains(t, g.Error.Message, "> 6000 maximum")
}
