package model_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/scripted"
	"github.com/portico-run/portico/modules/model"
)

// chatDone is a whole answer in the Chat Completions protocol.
func chatDone(delta string) []string {
	return []string{`{"id":"c","model":"m","choices":[{"index":0,"delta":` + delta + `,"finish_reason":"stop"}]}`, "[DONE]"}
}

// converse asks a model in a protocol after a tool was called once, as another
// protocol's model did, and returns what was sent.
func converse(t *testing.T, c model.Config, answer []string, choice string, items ...model.Item) (path string, header http.Header, body []byte) {
	t.Helper()
	client, _ := faulty(t, c, func(w http.ResponseWriter, r *http.Request) {
		path, header = r.Method+" "+r.URL.Path, r.Header.Clone()
		body, _ = io.ReadAll(r.Body)
		stream(w, answer...)
	})
	tool, err := client.Fit(model.Tool{Name: "add", Description: "Adds <b> & more.", Schema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)})
	require.NoError(t, err)
	other, err := client.Fit(model.Tool{Name: "other", Description: "Does more.", Schema: json.RawMessage(`{"type":"object","properties":{}}`)})
	require.NoError(t, err)
	chosen, err := model.ParseChoice(json.RawMessage(choice))
	require.NoError(t, err)
	_, err = client.Respond(t.Context(), model.Request{Input: items, Tools: []model.Definition{tool.Definition, other.Definition}, Choice: chosen, Parallel: true}, nothing)
	require.NoError(t, err)
	return path, header, body
}

// What is sent is what the vendor's own types hold and write, and it is sent to the
// same place with the same key.
func TestChatRequestsAreThoseOfTheVendorsClient(t *testing.T) {
	t.Parallel()
	path, header, ours := converse(t, model.Config{Protocol: model.Chat, MaxOutput: 9, Strict: true, Extra: map[string]json.RawMessage{"temperature": []byte("0.5")}}, chatDone(`{"content":"x"}`),
		`{"type":"function","function":{"name":"add"}}`,
		model.System("Be <kind>."), model.User("Add."), model.Assistant("I will."),
		[]byte(`{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"add","arguments":"{\"n\":1}"}}]}`),
		model.Output("c1", "2 < 3"))

	var theirs []byte
	var place string
	var key string
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		theirs, _ = io.ReadAll(r.Body)
		place, key = r.Method+" "+r.URL.Path, r.Header.Get("Authorization")
		stream(w, chatDone(`{"content":"x"}`)...)
	}))
	t.Cleanup(web.Close)
	tool := func(name, description string, schema map[string]any) openai.ChatCompletionToolUnionParam {
		return openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{Name: name, Description: openai.String(description), Strict: openai.Bool(true), Parameters: schema})
	}
	call := openai.ChatCompletionMessageParamUnion{OfAssistant: &openai.ChatCompletionAssistantMessageParam{
		ToolCalls: []openai.ChatCompletionMessageToolCallUnionParam{{OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{
			ID: "c1", Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{Name: "add", Arguments: `{"n":1}`},
		}}},
	}}
	vendor := official(web.URL, 0)
	s := vendor.Chat.Completions.NewStreaming(t.Context(), openai.ChatCompletionNewParams{
		Model: "m", MaxTokens: openai.Int(9), ParallelToolCalls: openai.Bool(true), Temperature: openai.Float(0.5),
		StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
		Messages: []openai.ChatCompletionMessageParamUnion{
			openai.SystemMessage("Be <kind>."), openai.UserMessage("Add."), openai.AssistantMessage("I will."), call, openai.ToolMessage("2 < 3", "c1"),
		},
		Tools: []openai.ChatCompletionToolUnionParam{
			tool("add", "Adds <b> & more.", map[string]any{
				"type": "object", "additionalProperties": false, "required": []string{"n"}, "properties": map[string]any{"n": map[string]any{"type": []string{"integer", "null"}}},
			}),
			tool("other", "Does more.", map[string]any{"type": "object", "additionalProperties": false, "required": []string{}, "properties": map[string]any{}}),
		},
		ToolChoice: openai.ToolChoiceOptionFunctionToolChoice(openai.ChatCompletionNamedToolChoiceFunctionParam{Name: "add"}),
	})
	for s.Next() {
	}
	require.NoError(t, s.Err())
	// The one thing that differs: the vendor leaves out content that is none.
	var mine map[string]any
	require.NoError(t, json.Unmarshal(ours, &mine))
	messages, _ := mine["messages"].([]any)
	delete(messages[3].(map[string]any), "content")
	text, err := json.Marshal(mine)
	require.NoError(t, err)
	require.JSONEq(t, string(theirs), string(text))
	require.Equal(t, place, path)
	require.Equal(t, key, header.Get("Authorization"))
}

// Both clients read the same pieces and the same answer from a stream.
func TestChatStreamsAreReadAsTheVendorsClientDoes(t *testing.T) {
	t.Parallel()
	script, err := scripted.Parse([]byte("name: x\nturns: [{output: [{reasoning: Hm}, {text: \"I <see> it\"}, {call: {name: add, arguments: {n: 1, text: \"a b \\\" c\"}}}, {call: {name: sub}}], usage: {input: 90, cached: 40, output: 7}}]"))
	require.NoError(t, err)
	web := httptest.NewServer(scripted.New(script))
	t.Cleanup(web.Close)

	vendor := official(web.URL, 0)
	theirs := vendor.Chat.Completions.NewStreaming(t.Context(), openai.ChatCompletionNewParams{Model: "m", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Go")}})
	var whole openai.ChatCompletionAccumulator
	for theirs.Next() {
		whole.AddChunk(theirs.Current())
	}
	require.NoError(t, theirs.Err())
	said := whole.Choices[0].Message

	pieces := map[model.DeltaKind]string{}
	client := model.New(model.Config{Protocol: model.Chat, BaseURL: web.URL, Model: "m", Logger: slog.New(slog.DiscardHandler)})
	r, err := client.Respond(t.Context(), model.Request{Input: []model.Item{model.User("Go")}}, func(d model.Delta) {
		pieces[d.Kind] += d.Text
		if d.Kind == model.Arguments {
			pieces["of "+model.DeltaKind(d.CallID)] = d.Name
		}
	})
	require.NoError(t, err)
	text, calls := r.Read()
	require.Equal(t, said.Content, text)
	require.Equal(t, map[model.DeltaKind]string{
		model.Text: said.Content, model.Reasoning: "Hm", model.Arguments: said.ToolCalls[0].Function.Arguments + "{}",
		"of call_scripted_0_2": "add", "of call_scripted_0_3": "sub",
	}, pieces)
	require.Len(t, calls, len(said.ToolCalls))
	for i, c := range said.ToolCalls {
		require.Equal(t, model.Call{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments}, calls[i])
	}
	require.Equal(t, []int64{90, 40, 7}, []int64{r.Usage.Input, r.Usage.InputDetails.Cached, r.Usage.Output})
	require.Equal(t, "scripted:x", r.Model)
	require.Nil(t, r.Incomplete)
	require.Len(t, r.Output, 1)
	require.Contains(t, string(r.Output[0]), `"reasoning_content":"Hm"`, "what only some providers have goes back as well")
}

// Pieces are put together whatever a provider does with them.
func TestOddPiecesOfChats(t *testing.T) {
	t.Parallel()
	chunk := func(delta string) string {
		return `{"id":"c/1","model":"m","choices":[{"index":0,"delta":` + delta + `,"finish_reason":null}]}`
	}
	end := `{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`
	for name, c := range map[string]struct {
		events []string
		want   string // the message
	}{
		"ids and names in each piece": {[]string{
			chunk(`{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"add","arguments":"{\"n\""}}]}`),
			chunk(`{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"add","arguments":":1}"}}]}`),
		}, `{"tool_calls":[{"id":"a","type":"function","function":{"name":"add","arguments":"{\"n\":1}"}}]}`},
		"no index": {[]string{
			chunk(`{"tool_calls":[{"id":"a","function":{"name":"add","arguments":"{}"}}]}`), chunk(`{"tool_calls":[{"id":"b","function":{"name":"sub","arguments":"{"}}]}`),
			chunk(`{"tool_calls":[{"function":{"arguments":"}"}}]}`),
		}, `{"tool_calls":[{"id":"a","type":"function","function":{"name":"add","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"sub","arguments":"{}"}}]}`},
		"no id": {
			[]string{chunk(`{"tool_calls":[{"index":0,"id":"","function":{"name":"add","arguments":"{}"}}]}`)},
			`{"tool_calls":[{"id":"call_c_1_0","type":"function","function":{"name":"add","arguments":"{}"}}]}`,
		},
		"what only one provider has": {[]string{
			chunk(`{"role":"assistant","content":null,"reasoning_details":[{"index":0,"type":"reasoning.text","text":"a","signature":null}]}`),
			chunk(`{"content":"","reasoning_details":[{"index":0,"type":"reasoning.text","text":"b","signature":"s="},{"index":1,"text":"c"}]}`),
			chunk(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"add","arguments":"{}"},"extra_content":{"google":{"thought_signature":"x+/="}}}]}`),
			chunk(`{"n":1.50,"flag":true}`),
		}, `{"content":"","role":"assistant","reasoning_details":[{"index":0,"type":"reasoning.text","text":"ab","signature":"s="},{"index":1,"text":"c"}],"n":1.50,"flag":true,
			"tool_calls":[{"id":"a","type":"function","function":{"name":"add","arguments":"{}"},"extra_content":{"google":{"thought_signature":"x+/="}}}]}`},
		"parts of content": {
			[]string{chunk(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm"}]}]}`), chunk(`{"content":[{"type":"text","text":"Yes"}]}`)},
			`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm"}]},{"type":"text","text":"Yes"}]}`,
		},
	} {
		client, _ := faulty(t, model.Config{Protocol: model.Chat}, func(w http.ResponseWriter, _ *http.Request) { stream(w, append(c.events, end)...) })
		r, err := client.Respond(t.Context(), model.Request{}, nothing)
		require.NoError(t, err, name)
		require.Len(t, r.Output, 1, name)
		var want, got map[string]any
		require.NoError(t, json.Unmarshal([]byte(c.want), &want), name)
		require.NoError(t, json.Unmarshal(r.Output[0], &got), name)
		require.Equal(t, "assistant", got["role"], name)
		delete(got, "role")
		delete(want, "role")
		require.Equal(t, want, got, name)
	}
}

// An answer that is cut says so; one that cannot be read, or has no end, is asked for
// again.
func TestChatsThatAreNotWhole(t *testing.T) {
	t.Parallel()
	for finish, want := range map[string]string{"length": "max_output_tokens", "content_filter": "content_filter", "insufficient_system_resource": "insufficient_system_resource"} {
		client, _ := faulty(t, model.Config{Protocol: model.Chat}, func(w http.ResponseWriter, _ *http.Request) {
			stream(w, `{"choices":[{"index":0,"delta":{"content":"Half"},"finish_reason":"`+finish+`"}]}`, "[DONE]")
		})
		r, err := client.Respond(t.Context(), model.Request{}, nothing)
		require.NoError(t, err)
		require.NotNil(t, r.Incomplete, finish)
		require.Equal(t, want, r.Incomplete.Reason)
	}
	half := `{"choices":[{"index":0,"delta":{"content":"Half"}}]}`
	for want, events := range map[string][]string{
		"it has no finish_reason":                 {half, "[DONE]"},
		"the stream ended before the answer":      {half},
		"is not a chunk of a chat completion":     {`{"choices":7}`},
		"tool_calls is not a list":                {`{"choices":[{"delta":{"tool_calls":{}}}]}`},
		"a piece belongs to call 5":               {`{"choices":[{"delta":{"tool_calls":[{"index":5,"id":"a"}]}}]}`},
		"the arguments of a call are not a text":  {`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"a","arguments":{}}}]}}]}`},
		"a piece of a call cannot be read":        {`{"choices":[{"delta":{"tool_calls":[7]}}]}`},
		"a piece of the message is not an object": {`{"choices":[{"delta":[1]}]}`},
	} {
		client, asked := faulty(t, model.Config{Protocol: model.Chat}, func(w http.ResponseWriter, _ *http.Request) { stream(w, events...) })
		_, err := client.Respond(t.Context(), model.Request{}, nothing)
		require.ErrorContains(t, err, want)
		require.Equal(t, int64(3), asked.Load(), want)
	}
	// Errors are in the stream of some providers.
	client, _ := faulty(t, model.Config{Protocol: model.Chat}, func(w http.ResponseWriter, _ *http.Request) {
		stream(w, half, `{"error":{"code":429,"message":"slow down, sk-the-whole-key"}}`)
	})
	_, err := client.Respond(t.Context(), model.Request{}, nothing)
	require.ErrorContains(t, err, "refused the request (429): slow down, [redacted]")
}

// What a provider refuses is not sent, and stays true as far as it can.
func TestChatsWithProvidersThatLackThings(t *testing.T) {
	t.Parallel()
	_, _, body := converse(t, model.Config{Protocol: model.Chat, Lacks: model.Lackings()}, chatDone(`{"content":"x"}`), `"required"`, model.System("Be kind."), model.User("Add."), model.User("More."))
	require.JSONEq(t, `{
		"model":"m","stream":true,"tool_choice":"required","messages":[{"role":"user","content":"Be kind.\n\nAdd."},{"role":"user","content":"More."}],
		"tools":[{"type":"function","function":{"name":"add","description":"Adds <b> & more.","parameters":{"type":"object","properties":{"n":{"type":"integer"}}}}},
			{"type":"function","function":{"name":"other","description":"Does more.","parameters":{"type":"object","properties":{}}}}]}`, string(body))
	_, _, body = converse(t, model.Config{Protocol: model.Chat, Lacks: model.Lackings()}, chatDone(`{"content":"x"}`), `"none"`, model.System("Be kind."))
	require.Contains(t, string(body), `[{"role":"user","content":"Be kind."}]`, "it is never left out")
	require.Contains(t, string(body), `"tool_choice":"none"`)
	// A choice among several leaves the others out.
	_, _, body = converse(t, model.Config{Protocol: model.Chat}, chatDone(`{"content":"x"}`), `{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"other"},{"type":"function","name":"third"}]}`, model.User("Add."))
	require.NotContains(t, string(body), `"name":"add"`)
	require.Contains(t, string(body), `"tool_choice":"required"`)
}

// A provider that counts no tokens is not free.
func TestTokensThatNobodyCountsAreEstimated(t *testing.T) {
	t.Parallel()
	client, _ := faulty(t, model.Config{Protocol: model.Chat}, func(w http.ResponseWriter, _ *http.Request) {
		stream(w, chatDone(`{"content":"0123456789012345678901234567890123456789"}`)...)
	})
	r, err := client.Respond(t.Context(), model.Request{Input: []model.Item{model.User("0123456789012345678901234567890123456789")}}, nothing)
	require.NoError(t, err)
	require.Greater(t, r.Usage.Input, int64(10))
	require.Greater(t, r.Usage.Output, int64(10))
}
