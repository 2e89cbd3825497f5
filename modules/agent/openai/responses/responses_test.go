package responses_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/agenttest"
)

// object is JSON that a client writes or reads.
type object = map[string]any

// got is a response, or an error.
type got struct {
	ID, Object, Status, Model string
	Output                    []object
	Usage                     struct {
		Input int64 `json:"input_tokens"`
		Total int64 `json:"total_tokens"`
	}
	Error      struct{ Message, Type, Param, Code string }
	Incomplete struct{ Reason string } `json:"incomplete_details"`
}

func (g got) of(kind string) (list []object) {
	for _, o := range g.Output {
		if o["type"] == kind {
			list = append(list, o)
		}
	}
	return list
}

func (g got) types() string {
	var list []string
	for _, o := range g.Output {
		kind, _ := o["type"].(string)
		list = append(list, kind)
	}
	return strings.Join(list, " ")
}

// ask sends a request and reads its answer.
func ask(t *testing.T, s *agenttest.Server, want int, body object) got {
	t.Helper()
	status, text := s.Send(http.MethodPost, "/v1/responses", body)
	require.Equal(t, want, status, text)
	var g got
	require.NoError(t, json.Unmarshal([]byte(text), &g), text)
	return g
}

const programmed = `
- expect: ["get_order(id: int)", "Total of orders 1 and 2?"]
  output:
    - call: {name: run_code, arguments: {code: "a, b = await asyncio.gather(get_order(id=1), get_order(id=2))\nprint(a['total'] + b['total'])\nc = get_order(id=3)\nprint(c)"}}
- expect: ["42\n"]
  output: [{text: "42."}]
`

func order() object {
	return object{
		"type": "function", "name": "get_order", "description": "One order as JSON.", "allowed_callers": []string{"programmatic"},
		"parameters":    object{"type": "object", "properties": object{"id": object{"type": "integer"}}, "required": []string{"id"}, "additionalProperties": false},
		"output_schema": object{},
	}
}

func outputOf(call object, text string) object {
	return object{"type": "function_call_output", "call_id": call["call_id"], "output": text, "caller": call["caller"]}
}

func TestAPlainAnswer(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, `
- expect: ["Be brief.", "Hello"]
  output: [{text: "Hi."}]
`)
	g := ask(t, s, 200, object{"model": "scripted", "input": "Hello", "instructions": "Be brief."})
	require.Equal(t, "completed", g.Status)
	require.Equal(t, "message", g.types())
	require.Positive(t, g.Usage.Input)
}

// The client keeps the conversation and sends all of it: docs/wire/openai.md#programs.
func TestAProgramWaitsForItsClient(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, programmed)
	tools := []object{{"type": "programmatic_tool_calling"}, order()}
	input := []any{object{"role": "user", "content": "Total of orders 1 and 2?"}}
	send := func() got {
		t.Helper()
		g := ask(t, s, 200, object{"model": "scripted", "store": false, "input": input, "tools": tools})
		for _, o := range g.Output {
			input = append(input, o)
		}
		return g
	}
	g := send()
	require.Equal(t, "program function_call function_call", g.types())
	require.Equal(t, "completed", g.Status)
	calls := g.of("function_call")
	require.Equal(t, "in_progress", calls[0]["status"])
	require.Equal(t, object{"type": "program", "caller_id": g.of("program")[0]["call_id"]}, calls[0]["caller"])
	require.JSONEq(t, `{"id":1}`, calls[0]["arguments"].(string))

	input = append(input, outputOf(calls[0], `{"total":10}`), outputOf(calls[1], `{"total":32}`))
	g = send()
	require.Equal(t, "function_call", g.types())
	require.Zero(t, g.Usage.Total, "nobody asked the model")

	input = append(input, outputOf(g.Output[0], `"three"`))
	g = send()
	require.Equal(t, "program_output message", g.types())
	require.Equal(t, "42\nthree\n", g.Output[0]["result"])
	require.Equal(t, "completed", g.Output[0]["status"])
}
