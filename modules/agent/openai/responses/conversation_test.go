package responses_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/agenttest"
)

// The server keeps the conversation: docs/wire/openai.md#stored-responses.
func TestStoredConversations(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, programmed+`
- expect: ["Total of orders 1 and 2?", "42\nthree", "And now?"]
  output: [{text: "Nothing."}]
`)
	tools := []object{{"type": "programmatic_tool_calling"}, order()}
	first := ask(t, s, 200, object{"input": "Total of orders 1 and 2?", "tools": tools, "metadata": object{"a": "b"}})
	calls := first.of("function_call")
	second := ask(t, s, 200, object{"previous_response_id": first.ID, "input": []any{outputOf(calls[0], `{"total":10}`), outputOf(calls[1], `{"total":32}`)}})
	third := ask(t, s, 200, object{"previous_response_id": second.ID, "input": []any{outputOf(second.Output[0], `"three"`)}, "tools": tools})
	require.Equal(t, "program_output message", third.types())
	last := ask(t, s, 200, object{"previous_response_id": third.ID, "input": "And now?"})
	require.Equal(t, "message", last.types())

	status, text := s.Send(http.MethodGet, "/v1/responses/"+first.ID, nil)
	require.Equal(t, 200, status)
	var again got
	require.NoError(t, json.Unmarshal([]byte(text), &again))
	require.Equal(t, first, again)
	status, text = s.Send(http.MethodGet, "/v1/responses/"+second.ID+"/input_items?order=asc&limit=1", nil)
	require.Equal(t, 200, status)
	var list struct {
		Data    []object
		HasMore bool   `json:"has_more"`
		LastID  string `json:"last_id"`
	}
	require.NoError(t, json.Unmarshal([]byte(text), &list))
	require.Len(t, list.Data, 1)
	require.True(t, list.HasMore)
	require.Equal(t, calls[0]["call_id"], list.Data[0]["call_id"])
	status, text = s.Send(http.MethodGet, "/v1/responses/"+second.ID+"/input_items?order=asc&after="+list.LastID, nil)
	require.Equal(t, 200, status)
	require.Contains(t, text, `"has_more":false`)
	require.Contains(t, text, calls[1]["call_id"])

	g := ask(t, s, 400, object{"previous_response_id": third.ID, "input": []any{third.Output[1]}})
	require.Contains(t, g.Error.Message, "Duplicate item found with id "+third.Output[1]["id"].(string))
	status, text = s.Send(http.MethodDelete, "/v1/responses/"+third.ID, nil)
	require.Equal(t, 200, status)
	require.JSONEq(t, `{"id":"`+third.ID+`","object":"response","deleted":true}`, text)
	status, text = s.Send(http.MethodGet, "/v1/responses/"+third.ID, nil)
	require.Equal(t, 404, status)
	require.JSONEq(t, `{"error":{"message":"Response with id '`+third.ID+`' not found.","type":"invalid_request_error","param":null,"code":null}}`, text)
	g = ask(t, s, 400, object{"previous_response_id": last.ID, "input": "More"})
	require.Equal(t, "previous_response_not_found", g.Error.Code)
	g = ask(t, s, 400, object{"previous_response_id": "resp_none", "input": "More"})
	require.Equal(t, "previous_response_id", g.Error.Param)
}

// Thoughts, words and direct calls come back in the next request, and the model of each
// protocol reads what it wrote.
func TestConversationsGoBackToTheModel(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"responses", "chat", "messages"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			s := agenttest.Serve(t, `
- output:
    - reasoning: Two steps.
    - text: "First the order."
    - call: {name: crm_get_order, arguments: {id: 1}}
- expect: ["First the order.", "ten"]
  output:
    - reasoning: Now code.
    - call: {name: run_code, arguments: {code: "print(6 * 7)"}}
- expect: ["42"]
  output: [{text: "It is 42."}]
- expect: ["First the order.", "ten", "It is 42.", "Thanks"]
  output: [{text: "Bye."}]
`, "MODEL_PROTOCOL="+protocol)
			plain := order()
			delete(plain, "output_schema")
			plain["allowed_callers"] = []string{"direct", "programmatic"}
			tools := []object{{"type": "programmatic_tool_calling"}, {"type": "namespace", "name": "crm", "description": "The CRM", "tools": []object{plain}}}
			input := []any{object{"role": "user", "content": "Orders?"}}
			send := func() got {
				t.Helper()
				g := ask(t, s, 200, object{"store": false, "input": input, "tools": tools})
				for _, o := range g.Output {
					input = append(input, o)
				}
				return g
			}
			g := send()
			require.Equal(t, "reasoning message function_call", g.types())
			call := g.Output[2]
			require.Equal(t, "crm", call["namespace"])
			require.Equal(t, "get_order", call["name"])
			require.Equal(t, object{"type": "direct"}, call["caller"])
			input = append(input, outputOf(call, "ten"))
			g = send()
			require.Equal(t, "reasoning program program_output message", g.types())
			input = append(input, object{"role": "user", "content": []object{{"type": "input_text", "text": "Thanks"}}})
			require.Equal(t, "message", send().types())
		})
	}
}
