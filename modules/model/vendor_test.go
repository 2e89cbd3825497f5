package model_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/scripted"
	"github.com/portico-run/portico/modules/model"
)

// official is the client that the vendor publishes.
func official(base string, retries int) openai.Client {
	return openai.NewClient(option.WithBaseURL(base), option.WithAPIKey("sk-the-whole-key"), option.WithMaxRetries(retries))
}

// What is sent is what the vendor's own types hold and write, and it is sent to
// the same place with the same key.
func TestRequestsAreThoseOfTheVendorsClient(t *testing.T) {
	t.Parallel()
	var (
		bodies  [][]byte
		heads   []http.Header
		paths   []string
		address string
	)
	client, _ := faulty(t, model.Config{MaxOutput: 9}, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies, heads, paths = append(bodies, body), append(heads, r.Header.Clone()), append(paths, r.Method+" "+r.URL.Path)
		address = "http://" + r.Host
		stream(w, done)
	})
	tool, err := client.Fit(model.Tool{Name: "add", Description: "Adds <b> & more.", Schema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)})
	require.NoError(t, err)
	choice, err := model.ParseChoice(json.RawMessage(`{"type":"function","function":{"name":"add"}}`))
	require.NoError(t, err)
	_, err = client.Respond(t.Context(), model.Request{
		Input: []model.Item{
			model.System("Be <kind>."), model.User("Add."),
			[]byte(`{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAA="}`),
			[]byte(`{"type":"function_call","id":"fc_1","call_id":"c1","name":"add","arguments":"{\"n\":1}","status":"completed"}`),
			model.Output("c1", "2 < 3"),
		},
		Tools: []model.Definition{tool.Definition}, Choice: choice, Parallel: true,
	}, nothing)
	require.NoError(t, err)

	message := func(role responses.EasyInputMessageRole, text string) responses.ResponseInputItemUnionParam {
		item := responses.ResponseInputItemParamOfMessage(text, role)
		item.OfMessage.Type = responses.EasyInputMessageTypeMessage
		return item
	}
	reasoning := responses.ResponseInputItemParamOfReasoning("rs_1", []responses.ResponseReasoningItemSummaryParam{})
	reasoning.OfReasoning.EncryptedContent = openai.String("gAAA=")
	call := responses.ResponseInputItemParamOfFunctionCall(`{"n":1}`, "c1", "add")
	call.OfFunctionCall.ID, call.OfFunctionCall.Status = openai.String("fc_1"), responses.ResponseFunctionToolCallStatusCompleted
	output := responses.ResponseInputItemParamOfFunctionCallOutput("2 < 3")
	output.OfFunctionCallOutput.CallID = openai.String("c1")
	params := responses.ResponseNewParams{
		Model: "m", MaxOutputTokens: openai.Int(9), Store: openai.Bool(false), ParallelToolCalls: openai.Bool(true),
		Include: []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent},
		Input: responses.ResponseNewParamsInputUnion{OfInputItemList: []responses.ResponseInputItemUnionParam{
			message("system", "Be <kind>."), message("user", "Add."), reasoning, call, output,
		}},
		Tools: []responses.ToolUnionParam{{OfFunction: &responses.FunctionToolParam{
			Name: "add", Description: openai.String("Adds <b> & more."), Strict: openai.Bool(true),
			Parameters: map[string]any{
				"type": "object", "additionalProperties": false, "required": []string{"n"},
				"properties": map[string]any{"n": map[string]any{"type": []string{"integer", "null"}}},
			},
		}}},
		ToolChoice: responses.ResponseNewParamsToolChoiceUnion{OfFunctionTool: &responses.ToolChoiceFunctionParam{Name: "add"}},
	}
	vendor := official(address, 0)
	theirs := vendor.Responses.NewStreaming(t.Context(), params)
	require.True(t, theirs.Next())
	require.NoError(t, theirs.Close())
	require.JSONEq(t, string(bodies[1]), string(bodies[0]))
	require.Equal(t, paths[1], paths[0])
	for _, name := range []string{"Authorization", "Content-Type"} {
		require.Equal(t, heads[1].Get(name), heads[0].Get(name), name)
	}
}

// Both clients read the same pieces and the same answer from a stream.
func TestStreamsAreReadAsTheVendorsClientDoes(t *testing.T) {
	t.Parallel()
	script, err := scripted.Parse([]byte("name: x\nturns: [{output: [{reasoning: Hm}, {text: \"I <see> it\"}, {refusal: No}, {call: {name: add, arguments: {n: 1}}}, {item: {type: of_the_future, n: 1.50}}]}]"))
	require.NoError(t, err)
	web := httptest.NewServer(scripted.New(script))
	t.Cleanup(web.Close)

	vendor := official(web.URL, 0)
	params := responses.ResponseNewParams{Model: "m", Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("Go")}}
	theirs := vendor.Responses.NewStreaming(t.Context(), params)
	var last responses.Response
	pieces := map[model.DeltaKind]string{}
	for theirs.Next() {
		switch e := theirs.Current().AsAny().(type) {
		case responses.ResponseTextDeltaEvent:
			pieces[model.Text] += e.Delta
		case responses.ResponseReasoningSummaryTextDeltaEvent:
			pieces[model.Reasoning] += e.Delta
		case responses.ResponseFunctionCallArgumentsDeltaEvent:
			pieces[model.Arguments] += e.Delta
		case responses.ResponseCompletedEvent:
			last = e.Response
		}
	}
	require.NoError(t, theirs.Err())

	ours := map[model.DeltaKind]string{}
	client := model.New(model.Config{BaseURL: web.URL, Model: "m", Logger: slog.New(slog.DiscardHandler)})
	r, err := client.Respond(t.Context(), model.Request{Input: []model.Item{model.User("Go")}}, func(d model.Delta) { ours[d.Kind] += d.Text })
	require.NoError(t, err)
	require.Equal(t, pieces, ours)
	require.Len(t, r.Output, 5)
	for i, item := range r.Output {
		require.Equal(t, last.Output[i].RawJSON(), string(item))
	}
	require.Equal(t, last.Usage.OutputTokens, r.Usage.Output)
}

// Each answer is asked for again as often as the vendor's client does.
func TestRepetitionsAreThoseOfTheVendorsClient(t *testing.T) {
	t.Parallel()
	for _, should := range []string{"", "true", "false"} {
		for _, status := range []int{400, 401, 403, 404, 408, 409, 413, 422, 425, 429, 500, 501, 502, 503, 504, 529} {
			answer := func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After-Ms", "1")
				if should != "" {
					w.Header().Set("X-Should-Retry", should)
				}
				w.WriteHeader(status)
				fmt.Fprint(w, `{"error":{"message":"no","code":"c"}}`)
			}
			var address string
			client, asked := faulty(t, model.Config{Retries: 2}, func(w http.ResponseWriter, r *http.Request) {
				address = "http://" + r.Host
				answer(w, r)
			})
			_, err := client.Respond(t.Context(), model.Request{}, nothing)
			require.ErrorContains(t, err, fmt.Sprint(status))
			ours := asked.Swap(0)
			vendor := official(address, 2)
			theirs := vendor.Responses.NewStreaming(t.Context(), responses.ResponseNewParams{Model: "m"})
			require.False(t, theirs.Next())
			require.Error(t, theirs.Err())
			require.Equal(t, asked.Load(), ours, "status %d, X-Should-Retry %q", status, should)
		}
	}
}
