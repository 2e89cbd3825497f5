package model_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/scripted"
	"github.com/portico-run/portico/modules/model"
)

// anthropicOf is the client that the vendor publishes.
func anthropicOf(base string) anthropic.Client {
	return anthropic.NewClient(option.WithBaseURL(base), option.WithAPIKey("sk-the-whole-key"), option.WithMaxRetries(0))
}

// messageDone is a whole answer in the Messages protocol.
func messageDone(blocks ...string) []string {
	events := []string{`{"type":"message_start","message":{"id":"m1","model":"m","content":[],"usage":{"input_tokens":3,"output_tokens":1}}}`}
	events = append(events, blocks...)
	return append(events, `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5}}`, `{"type":"message_stop"}`)
}

func TestMessagesRequestsAreThoseOfTheVendorsClient(t *testing.T) {
	t.Parallel()
	thinking := `{"type":"thinking","thinking":"Hm <","signature":"c2ln+/=="}`
	path, header, ours := converse(t, model.Config{Protocol: model.Messages, MaxOutput: 9}, messageDone(), `{"type":"function","function":{"name":"add"}}`,
		model.System("Be <kind>."), model.User("Add."), model.Assistant("I will."), model.User("Do."),
		[]byte(thinking), []byte(`{"type":"tool_use","id":"c1","name":"add","input":{"n":1}}`), []byte(`{"type":"tool_use","id":"c2","name":"other","input":{}}`),
		model.Output("c1", "2 < 3"), model.Output("c2", ""))

	var theirs []byte
	var place string
	var head http.Header
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		theirs, _ = io.ReadAll(r.Body)
		place, head = r.Method+" "+r.URL.Path, r.Header.Clone()
		stream(w, messageDone()...)
	}))
	t.Cleanup(web.Close)
	tool := func(name, description string, properties map[string]any) anthropic.ToolUnionParam {
		return anthropic.ToolUnionParam{OfTool: &anthropic.ToolParam{Name: name, Description: anthropic.String(description), InputSchema: anthropic.ToolInputSchemaParam{Properties: properties}}}
	}
	last := anthropic.NewToolResultBlock("c2", "", false)
	last.OfToolResult.CacheControl = anthropic.NewCacheControlEphemeralParam()
	result := func(b anthropic.ContentBlockParamUnion) anthropic.ContentBlockParamUnion {
		b.OfToolResult.IsError = anthropic.ToolResultBlockParam{}.IsError
		return b
	}
	vendor := anthropicOf(web.URL)
	s := vendor.Messages.NewStreaming(t.Context(), anthropic.MessageNewParams{
		Model: "m", MaxTokens: 9,
		System: []anthropic.TextBlockParam{{Text: "Be <kind>.", CacheControl: anthropic.NewCacheControlEphemeralParam()}},
		Messages: []anthropic.MessageParam{
			anthropic.NewUserMessage(anthropic.NewTextBlock("Add.")), anthropic.NewAssistantMessage(anthropic.NewTextBlock("I will.")), anthropic.NewUserMessage(anthropic.NewTextBlock("Do.")),
			anthropic.NewAssistantMessage(anthropic.NewThinkingBlock("c2ln+/==", "Hm <"), anthropic.NewToolUseBlock("c1", map[string]any{"n": 1}, "add"), anthropic.NewToolUseBlock("c2", map[string]any{}, "other")),
			anthropic.NewUserMessage(result(anthropic.NewToolResultBlock("c1", "2 < 3", false)), result(last)),
		},
		Tools:      []anthropic.ToolUnionParam{tool("add", "Adds <b> & more.", map[string]any{"n": map[string]any{"type": "integer"}}), tool("other", "Does more.", map[string]any{})},
		ToolChoice: anthropic.ToolChoiceParamOfTool("add"),
	})
	for s.Next() {
	}
	require.NoError(t, s.Err())
	require.JSONEq(t, flat(t, theirs), flat(t, ours))
	require.Equal(t, place, "POST /v1"+path[len("POST "):])
	require.Contains(t, string(ours), thinking, "byte for byte")
	for _, name := range []string{"X-Api-Key", "Anthropic-Version", "Content-Type"} {
		require.Equal(t, head.Get(name), header.Get(name), name)
	}
	require.Empty(t, header.Get("Authorization"))
}

// flat writes the results of tools in the one of their two forms that is a text.
func flat(t *testing.T, body []byte) string {
	t.Helper()
	var v map[string]any
	require.NoError(t, json.Unmarshal(body, &v))
	for _, m := range v["messages"].([]any) {
		for _, b := range m.(map[string]any)["content"].([]any) {
			block, _ := b.(map[string]any)
			if parts, ok := block["content"].([]any); ok {
				block["content"] = parts[0].(map[string]any)["text"]
			}
		}
	}
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}

// Both clients read the same pieces and the same answer from a stream.
func TestMessagesStreamsAreReadAsTheVendorsClientDoes(t *testing.T) {
	t.Parallel()
	script, err := scripted.Parse([]byte("name: x\nturns: [{output: [{reasoning: Hm <}, {text: \"I <see> it\"}, {item: {type: redacted_thinking, data: \"x+/=\"}}, {call: {name: add, arguments: {n: 1, text: \"a b \\\" c\"}}}, {call: {name: sub}}], usage: {input: 90, cached: 40, output: 7}}]"))
	require.NoError(t, err)
	web := httptest.NewServer(scripted.New(script))
	t.Cleanup(web.Close)

	vendor := anthropicOf(web.URL)
	theirs := vendor.Messages.NewStreaming(t.Context(), anthropic.MessageNewParams{Model: "m", MaxTokens: 9, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("Go"))}})
	var whole anthropic.Message
	pieces := map[model.DeltaKind]string{}
	for theirs.Next() {
		require.NoError(t, whole.Accumulate(theirs.Current()))
		if e, ok := theirs.Current().AsAny().(anthropic.ContentBlockDeltaEvent); ok {
			switch d := e.Delta.AsAny().(type) {
			case anthropic.TextDelta:
				pieces[model.Text] += d.Text
			case anthropic.ThinkingDelta:
				pieces[model.Reasoning] += d.Thinking
			case anthropic.InputJSONDelta:
				pieces[model.Arguments] += d.PartialJSON
			}
		}
	}
	require.NoError(t, theirs.Err())

	ours := map[model.DeltaKind]string{}
	client := model.New(model.Config{Protocol: model.Messages, BaseURL: web.URL + "/v1", Model: "m", Logger: slog.New(slog.DiscardHandler)})
	r, err := client.Respond(t.Context(), model.Request{Input: []model.Item{model.User("Go")}}, func(d model.Delta) { ours[d.Kind] += d.Text })
	require.NoError(t, err)
	require.Equal(t, pieces, ours)
	require.Len(t, r.Output, 5)
	for i, block := range whole.Content {
		text, err := json.Marshal(block.ToParam())
		require.NoError(t, err)
		require.JSONEq(t, string(text), string(r.Output[i]), "what goes back")
	}
	text, calls := r.Read()
	require.Equal(t, "I <see> it", text)
	require.Equal(t, []model.Call{{ID: "toolu_scripted_0_3", Name: "add", Arguments: `{"n":1,"text":"a b \" c"}`}, {ID: "toolu_scripted_0_4", Name: "sub", Arguments: "{}"}}, calls)
	require.Equal(t, []int64{90, 40, 7}, []int64{r.Usage.Input, r.Usage.InputDetails.Cached, r.Usage.Output})
}

// Answers come in other forms, too.
func TestOddMessages(t *testing.T) {
	t.Parallel()
	begin := func(block string) string {
		return `{"type":"content_block_start","index":0,"content_block":` + block + `}`
	}
	piece := func(delta string) string { return `{"type":"content_block_delta","index":0,"delta":` + delta + `}` }
	for name, c := range map[string]struct {
		events []string
		want   []string // the blocks
	}{
		"a whole message at its start": {[]string{
			`{"type":"message_start","message":{"id":"m1","model":"m","stop_reason":"tool_use","content":[{"type":"tool_use","id":"t1","name":"add","input":{"n":1.50}}],"usage":{"input_tokens":1}}}`, `{"type":"message_stop"}`,
		}, []string{`{"id":"t1","input":{"n":1.50},"name":"add","type":"tool_use"}`}},
		"input without pieces":    {messageDone(begin(`{"type":"tool_use","id":"t1","name":"add","input":{"n":1}}`), piece(`{"type":"input_json_delta","partial_json":""}`)), []string{`{"id":"t1","input":{"n":1},"name":"add","type":"tool_use"}`}},
		"input that is no object": {messageDone(begin(`{"type":"tool_use","id":"t1","name":"add","input":{}}`), piece(`{"type":"input_json_delta","partial_json":"{\"n\":"}`)), []string{`{"id":"t1","input":{"INVALID_JSON":"{\"n\":"},"name":"add","type":"tool_use"}`}},
		"a text without a word":   {messageDone(begin(`{"type":"text","text":""}`), piece(`{"type":"text_delta","text":" \n"}`)), nil},
		"citations":               {messageDone(begin(`{"type":"text","text":"","citations":[]}`), piece(`{"type":"citations_delta","citation":{"n":1}}`), piece(`{"type":"text_delta","text":"x"}`)), []string{`{"citations":[{"n":1}],"text":"x","type":"text"}`}},
		"a block of the future":   {messageDone(begin(`{"type":"of_the_future","n":1.50}`)), []string{`{"n":1.50,"type":"of_the_future"}`}},
		"events of the future":    {messageDone(`{"type":"of_the_future"}`), nil},
	} {
		client, _ := faulty(t, model.Config{Protocol: model.Messages}, func(w http.ResponseWriter, _ *http.Request) { stream(w, c.events...) })
		r, err := client.Respond(t.Context(), model.Request{}, nothing)
		require.NoError(t, err, name)
		var got []string
		for _, raw := range r.Output {
			got = append(got, string(raw))
		}
		require.Equal(t, c.want, got, name)
	}
	// What a model wrote that is no JSON comes to the tool as it wrote it.
	r := model.Response{Output: []model.Item{[]byte(`{"type":"tool_use","id":"t1","name":"add","input":{"INVALID_JSON":"{\"n\":"}}`)}}
	_, calls := r.Read()
	require.Equal(t, `{"n":`, calls[0].Arguments)
}

func TestMessagesThatAreNotWhole(t *testing.T) {
	t.Parallel()
	stop := func(reason string) string {
		return `{"type":"message_delta","delta":{"stop_reason":"` + reason + `"},"usage":{"output_tokens":5}}`
	}
	start, end := messageDone()[0], `{"type":"message_stop"}`
	for reason, want := range map[string]string{"max_tokens": "max_output_tokens", "model_context_window_exceeded": "model_context_window_exceeded", "pause_turn": "pause_turn", "new": "new"} {
		client, _ := faulty(t, model.Config{Protocol: model.Messages}, func(w http.ResponseWriter, _ *http.Request) { stream(w, start, stop(reason), end) })
		r, err := client.Respond(t.Context(), model.Request{}, nothing)
		require.NoError(t, err, reason)
		require.NotNil(t, r.Incomplete, reason)
		require.Equal(t, want, r.Incomplete.Reason)
	}
	for want, events := range map[string][]string{
		"the stream ended before the answer":  {start, stop("end_turn")},
		"it has no stop_reason":               {start, end},
		"is not one of a message":             {`{"type":"message_start","message":7}`},
		"do not come in their order":          {start, `{"type":"content_block_start","index":1,"content_block":{}}`},
		"a piece of the message has no block": {start, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta"}}`},
		"a piece of type of_the_future":       {start, `{"type":"content_block_start","index":0,"content_block":{"type":"text"}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"of_the_future"}}`},
	} {
		client, asked := faulty(t, model.Config{Protocol: model.Messages}, func(w http.ResponseWriter, _ *http.Request) { stream(w, events...) })
		_, err := client.Respond(t.Context(), model.Request{}, nothing)
		require.ErrorContains(t, err, want)
		require.Equal(t, int64(3), asked.Load(), want)
	}
	for want, events := range map[string][]string{
		"refused the request (overloaded_error): Overloaded": {start, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`},
		"refused the request (refusal): The model will not":  {start, stop("refusal"), end},
		"refused the request (refusal): Not this.":           {start, `{"type":"message_delta","delta":{"stop_reason":"refusal","stop_details":{"explanation":"Not this."}}}`, end},
	} {
		client, asked := faulty(t, model.Config{Protocol: model.Messages}, func(w http.ResponseWriter, _ *http.Request) { stream(w, events...) })
		_, err := client.Respond(t.Context(), model.Request{}, nothing)
		require.ErrorContains(t, err, want)
		require.Equal(t, int64(1), asked.Load(), want)
	}
	client, _ := faulty(t, model.Config{Protocol: model.Messages}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Request-Id", "req_1")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: too large"}}`)
	})
	_, err := client.Respond(t.Context(), model.Request{}, nothing)
	require.ErrorContains(t, err, "with status 400 (invalid_request_error): max_tokens: too large [request req_1]")
}

// What other models wrote is said in this protocol: ids that it does not know in its
// words, arguments that are no object inside one.
func TestMessagesOfOtherModels(t *testing.T) {
	t.Parallel()
	foreign := []byte(`{"role":"assistant","content":"I will.","tool_calls":[{"id":"functions.add:0","type":"function","function":{"name":"add","arguments":"{\"n\":"}}]}`)
	items := append([]model.Item{model.User("Add.")}, model.Translate(foreign)...)
	items = append(items, model.Output("functions.add:0", "no JSON"), model.User(" "))
	_, _, body := converse(t, model.Config{Protocol: model.Messages}, messageDone(), `"none"`, items...)
	var got struct {
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
		Choice json.RawMessage `json:"tool_choice"`
	}
	require.NoError(t, json.Unmarshal(body, &got))
	require.JSONEq(t, `{"type":"none"}`, string(got.Choice))
	require.Len(t, got.Messages, 3)
	require.JSONEq(t, `[{"type":"text","text":"I will."},{"type":"tool_use","id":"functions_add_0","name":"add","input":{"INVALID_JSON":"{\"n\":"}}]`, string(got.Messages[1].Content))
	require.JSONEq(t, `[{"type":"tool_result","tool_use_id":"functions_add_0","content":"no JSON","cache_control":{"type":"ephemeral"}}]`, string(got.Messages[2].Content))

	// And in the other one.
	_, _, body = converse(t, model.Config{Protocol: model.Chat}, chatDone(`{"content":"x"}`), `"auto"`, append([]model.Item{
		model.User("Add."), []byte(`{"type":"reasoning","id":"rs_1"}`), model.Assistant("I will."),
		[]byte(`{"type":"function_call","call_id":"c1","name":"add","arguments":"{}"}`), []byte(`{"type":"function_call","call_id":"c2","name":"add","arguments":"{}"}`),
	}, model.Output("c1", "1"), model.Output("c2", "2"))...)
	var chat struct{ Messages json.RawMessage }
	require.NoError(t, json.Unmarshal(body, &chat))
	require.JSONEq(t, `[{"role":"user","content":"Add."},{"role":"assistant","content":"I will.","tool_calls":[
		{"id":"c1","type":"function","function":{"name":"add","arguments":"{}"}},{"id":"c2","type":"function","function":{"name":"add","arguments":"{}"}}]},
		{"role":"tool","content":"1","tool_call_id":"c1"},{"role":"tool","content":"2","tool_call_id":"c2"}]`, string(chat.Messages))
}
