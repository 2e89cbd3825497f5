package agent_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/agenttest"
	"github.com/portico-run/portico/dev/scripted"
	"github.com/portico-run/portico/modules/run"
)

// An agent does the same work whatever protocol its model speaks: it writes a program,
// is told what was wrong with a call, and answers; its tokens are billed.
func TestAgentsWorkInEveryProtocol(t *testing.T) {
	t.Parallel()
	for protocol, secret := range map[string]string{"responses": "rs_scripted", "chat": "reasoning_content", "messages": "c2NyaXB0ZWQ="} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			s := agenttest.Serve(t, `
- expect: ["How warm is Oslo?", "execute_code"]
  output: [{reasoning: "I need code."}, {text: "One moment."}, {call: {name: execute_code, arguments: {code: "print('warm:', get_weather(city='Oslo', days=1)['city'])"}}}]
  usage: {input: 1000, cached: 400, output: 100}
- expect: ["warm: Oslo", "I need code.", "One moment.", `+secret+`]
  output: [{call: {name: get_time, arguments: {zone: 7}}}, {call: {name: no_such_tool, arguments: {}}}]
  usage: {input: 1000, output: 100}
- expect: ["there is no tool", "get_time was not executed"]
  break: 1
  output: [{text: "It is warm."}]
  usage: {input: 1000, output: 100}
- on: "And Rome?"
  expect: ["How warm is Oslo?", "It is warm."]
  reject: [`+secret+`]
  output: [{text: "Rome too."}]
- on: cut
  incomplete: max_output_tokens
  output: [{text: "Half"}]
- on: broken
  fail: [{status: 400, code: invalid_request_error, message: no such model}]
`, "MODEL_PROTOCOL="+protocol, "MODEL_INPUT_PRICE=100", "MODEL_OUTPUT_PRICE=1000", "MODEL_RETRIES=0")
			r, events := s.Ask(map[string]any{"query": "How warm is Oslo?", "toolsets": []string{"demo"}, "resultId": "ar-oslo"})
			require.Equal(t, run.Done, r.Status, "%v", r.Errors)
			require.Equal(t, "scripted:test", r.Model)
			answer, _ := shown(events)
			require.Contains(t, answer, "It is warm.")
			_, usage := s.Send("GET", "/v1/credit/usage", nil)
			require.Contains(t, usage, `"amount":0.2`, "1000 tokens in at 100 and 100 out at 1000, for a million")

			r, events = s.Ask(map[string]any{"query": "And Rome?", "history": []string{"ar-oslo"}})
			require.Equal(t, run.Done, r.Status, "%v", r.Errors)
			answer, _ = shown(events)
			require.Equal(t, "Rome too.", answer)
			r, _ = s.Ask(map[string]any{"query": "cut?"})
			require.Equal(t, run.Failed, r.Status)
			require.Contains(t, r.Errors[0], "was cut: max_output_tokens")
			r, _ = s.Ask(map[string]any{"query": "broken?"})
			require.Contains(t, r.Errors[0], "status 400 (invalid_request_error): no such model")
		})
	}
}

// serve starts the provider of a model that follows a script.
func serve(t *testing.T, script string) (address string) {
	t.Helper()
	parsed, err := scripted.Parse([]byte("name: " + script))
	require.NoError(t, err)
	web := httptest.NewServer(scripted.New(parsed))
	t.Cleanup(web.Close)
	return web.URL
}

// Requests name the model that answers; each has its price, and another one answers
// where it gives no answer, which the user is told.
func TestModelsAreChosenByName(t *testing.T) {
	t.Parallel()
	small := serve(t, "small\nturns: [{output: [{text: Small.}], usage: {input: 1000000, cached: 500000, output: 0}}, {on: down, fail: [{status: 503, message: out of order}, {status: 503}, {status: 503}]}]")
	large := serve(t, "large\nturns: [{output: [{text: Large.}], usage: {input: 1000000, output: 0}}]")
	file := filepath.Join(t.TempDir(), "models.yaml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `
models:
  - {name: small, protocol: chat, baseUrl: "%s/v1", model: qwen, apiKey: "${MODEL_SMALL_KEY}", prices: {input: 2, cached: 1}, fallbacks: [large], context: 32000}
  - {name: large, protocol: messages, baseUrl: "%s/v1", model: claude, prices: {input: 30}}
`, small, large), 0o600))
	s := agenttest.Serve(t, "- output: [{text: Never.}]", "MODEL_NAME=", "MODEL_FILE="+file, "MODEL_RETRIES=0", "MODEL_SMALL_KEY=sk-small", "PTC_MODE=off")
	cost := func() (sum float64) {
		_, text := s.Send("GET", "/v1/credit/usage", nil)
		var body struct {
			Data struct{ Items []struct{ Amount float64 } }
		}
		require.NoError(t, json.Unmarshal([]byte(text), &body), text)
		for _, i := range body.Data.Items {
			sum += i.Amount
		}
		return sum
	}
	ask := func(query, name string) (run.Run, string, string) {
		r, events := s.Ask(map[string]any{"query": query, "model": name})
		require.Equal(t, run.Done, r.Status, "%v", r.Errors)
		answer, notes := shown(events)
		return r, answer, notes
	}
	r, answer, notes := ask("Hello", "")
	require.Equal(t, []string{"scripted:small", "Small.", ""}, []string{r.Model, answer, notes})
	require.InDelta(t, 1.5, cost(), 1e-9)
	r, answer, _ = ask("Hello", "large")
	require.Equal(t, []string{"scripted:large", "Large."}, []string{r.Model, answer})
	require.InDelta(t, 31.5, cost(), 1e-9)
	r, answer, notes = ask("Is it down?", "small")
	require.Equal(t, []string{"scripted:large", "Large."}, []string{r.Model, answer})
	require.Contains(t, notes, "warn: Model small gave no answer, and large was asked instead.")
	require.Contains(t, r.Warnings[0], "out of order")
	require.InDelta(t, 61.5, cost(), 1e-9, "at the price of the one that answered")

	// A key may have a model of its own, which the request overrules.
	var keys struct {
		Data []struct{ KeyID, Model string }
	}
	_, text := s.Send("GET", "/v1/auth/cli/api-key", nil)
	require.NoError(t, json.Unmarshal([]byte(text), &keys))
	choose := "/v1/auth/cli/api-key/" + keys.Data[0].KeyID + "/model"
	status, text := s.Send("PUT", choose, map[string]string{"model": "huge"})
	require.Equal(t, 400, status, text)
	status, text = s.Send("PUT", choose, map[string]string{"model": "large"})
	require.Equal(t, 200, status, text)
	_, answer, _ = ask("Hello", "")
	require.Equal(t, "Large.", answer)
	_, answer, _ = ask("Hello", "small")
	require.Equal(t, "Small.", answer)
	status, text = s.Send("PUT", choose, map[string]string{"model": ""})
	require.Equal(t, 200, status, text)
	_, answer, _ = ask("Hello", "")
	require.Equal(t, "Small.", answer)

	status, text = s.Send("POST", "/v1/skill/invoke", map[string]any{"query": "x", "model": "huge"})
	require.Equal(t, 400, status)
	require.Contains(t, text, `There is no model \"huge\"`)
	require.Contains(t, text, "There are: small, large.")
	status, text = s.Send("GET", "/v1/models", nil)
	require.Equal(t, 200, status)
	require.JSONEq(t, `{"object":"list","data":[
		{"id":"small","object":"model","created":0,"owned_by":"portico","default":true,"context":32000,"prices":{"input":2,"cached":1,"written":2,"output":0}},
		{"id":"large","object":"model","created":0,"owned_by":"portico","default":false,"context":0,"prices":{"input":30,"cached":30,"written":30,"output":0}}]}`, text)
	require.NotContains(t, text, "sk-small")
}

// Who has nothing left to spend asks free models, and no fallback of theirs that costs
// something.
func TestFallbacksThatCannotBePaidFor(t *testing.T) {
	t.Parallel()
	free := serve(t, "free\nturns: [{on: up, output: [{text: Free.}]}, {on: down, fail: [{status: 503, message: out of order}, {status: 503, message: out of order}]}]")
	paid := serve(t, "paid\nturns: [{output: [{text: Paid.}], usage: {input: 1000000, output: 0}}]")
	file := filepath.Join(t.TempDir(), "models.yaml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `
models:
  - {name: free, protocol: chat, baseUrl: "%s/v1", model: qwen, fallbacks: [paid]}
  - {name: paid, protocol: messages, baseUrl: "%s/v1", model: claude, prices: {input: 30}}
`, free, paid), 0o600))
	s := agenttest.Serve(t, "- output: [{text: Never.}]", "MODEL_NAME=", "MODEL_FILE="+file, "MODEL_RETRIES=0", "PTC_MODE=off", "BILLING_OVERDRAFT=0")
	ask := func(name, question string) (int, string) {
		return s.Send("POST", "/v1/chat/completions", map[string]any{"model": name, "messages": []any{map[string]any{"role": "user", "content": question}}})
	}
	status, text := ask("paid", "up?")
	require.Equal(t, 402, status, text)
	status, text = ask("free", "up?")
	require.Equal(t, 200, status, text)
	require.Contains(t, text, "Free.")
	status, text = ask("free", "down?")
	require.Equal(t, 503, status, text)
	require.Contains(t, text, "out of order", "it may be sent again")
	r, _ := s.Ask(map[string]any{"query": "down?"})
	require.Equal(t, run.Failed, r.Status)
	require.Contains(t, r.Errors[0], "out of order")
	require.Empty(t, r.Warnings, "nobody was asked instead")
	_, usage := s.Send("GET", "/v1/credit/usage", nil)
	require.NotContains(t, usage, "amount")
}

// Results that do not fit any more can be read again, and the user is told.
func TestLongRunsReadOldResultsAgain(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "models.yaml")
	script, err := scripted.Parse([]byte(`
name: test
turns:
- output: [{call: {name: demo_get_weather, arguments: {city: Oslo, days: 14, file_name_title: x}}}]
  usage: {input: 4000, output: 100}
- output: [{call: {name: demo_get_weather, arguments: {city: Rome, days: 14, file_name_title: x}}}]
  usage: {input: 7800, output: 100}
- expect: ["was removed to make room. read_tool_result with call_id"]
  output: [{text: "Done."}]
`))
	require.NoError(t, err)
	model := scripted.New(script)
	web := httptest.NewServer(model)
	t.Cleanup(web.Close)
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, "models: [{name: tiny, baseUrl: %q, context: 9000, maxOutput: 1000}]", web.URL), 0o600))
	s := agenttest.Serve(t, "- output: [{text: Never.}]", "MODEL_NAME=", "MODEL_FILE="+file, "PTC_MODE=off")
	r, events := s.Ask(map[string]any{"query": "Which weather?", "toolsets": []string{"demo"}})
	require.Equal(t, run.Done, r.Status, "%v", r.Errors)
	answer, notes := shown(events)
	require.Equal(t, "Done.", answer)
	require.Contains(t, notes, "older results of tools were removed")
	require.Contains(t, r.Warnings, "The conversation is longer than the model reads at once: older results of tools were removed from it. The model can read them again.")
}
