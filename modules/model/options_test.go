package model_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/scripted"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/model"
)

// allOptions are what each protocol is given.
var allOptions = model.Options{
	MaxOutput: 7, Temperature: new(0.5), TopP: new(0.0), Stop: []string{"END", "<b>"}, Effort: "high",
	Format: &model.Format{Name: "answer", Description: "An <answer>.", Strict: true, Schema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}`)},
}

func schemaOf(t *testing.T) (schema map[string]any) {
	t.Helper()
	require.NoError(t, json.Unmarshal(allOptions.Format.Schema, &schema))
	return schema
}

// sent is what our client and a vendor's send for the same request, to a script that
// refuses what the service refuses.
func sent(t *testing.T, c model.Config, req model.Request, theirs func(base string)) (ours, vendors string) {
	t.Helper()
	script, err := scripted.Parse([]byte("name: x\nturns: [{output: [{text: Yes}]}]"))
	require.NoError(t, err)
	var bodies []string
	provider := scripted.New(script)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(body))
		again := r.Clone(r.Context())
		again.Body = io.NopCloser(bytes.NewReader(body))
		provider.ServeHTTP(w, again)
	}))
	t.Cleanup(web.Close)
	c.BaseURL, c.Model, c.Logger = web.URL+"/v1", "m", slog.New(slog.DiscardHandler)
	_, err = model.New(c).Respond(t.Context(), req, nothing)
	require.NoError(t, err)
	theirs(web.URL)
	require.Len(t, bodies, 2)
	return bodies[0], bodies[1]
}

// What a request says of sampling is written as the vendors' own types write it.
func TestOptionsAreThoseOfTheVendorsClients(t *testing.T) {
	t.Parallel()
	ask := model.Request{Input: []model.Item{model.User("Go")}, Options: allOptions}

	asked := ask
	asked.Options.Stop = nil
	ours, theirs := sent(t, model.Config{MaxOutput: 9}, asked, func(base string) {
		vendor := official(base, 0)
		message := responses.ResponseInputItemParamOfMessage("Go", responses.EasyInputMessageRoleUser)
		message.OfMessage.Type = responses.EasyInputMessageTypeMessage
		s := vendor.Responses.NewStreaming(t.Context(), responses.ResponseNewParams{
			Model: "m", MaxOutputTokens: openai.Int(7), Store: openai.Bool(false), ParallelToolCalls: openai.Bool(false), Temperature: openai.Float(0.5), TopP: openai.Float(0),
			Include: []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent},
			Input:   responses.ResponseNewParamsInputUnion{OfInputItemList: []responses.ResponseInputItemUnionParam{message}},
			Text: responses.ResponseTextConfigParam{Format: responses.ResponseFormatTextConfigUnionParam{OfJSONSchema: &responses.ResponseFormatTextJSONSchemaConfigParam{
				Name: "answer", Description: openai.String("An <answer>."), Strict: openai.Bool(true), Schema: schemaOf(t),
			}}},
			Reasoning: shared.ReasoningParam{Effort: shared.ReasoningEffortHigh},
		})
		for s.Next() {
		}
		require.NoError(t, s.Err())
	})
	require.JSONEq(t, theirs, ours)

	ours, theirs = sent(t, model.Config{Protocol: model.Chat, MaxOutput: 9}, ask, func(base string) {
		vendor := official(base, 0)
		s := vendor.Chat.Completions.NewStreaming(t.Context(), openai.ChatCompletionNewParams{
			Model: "m", MaxTokens: openai.Int(7), Temperature: openai.Float(0.5), TopP: openai.Float(0), ReasoningEffort: shared.ReasoningEffortHigh,
			StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
			Messages:      []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Go")},
			Stop:          openai.ChatCompletionNewParamsStopUnion{OfStringArray: []string{"END", "<b>"}},
			ResponseFormat: openai.ChatCompletionNewParamsResponseFormatUnion{OfJSONSchema: &shared.ResponseFormatJSONSchemaParam{JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{
				Name: "answer", Description: openai.String("An <answer>."), Strict: openai.Bool(true), Schema: schemaOf(t),
			}}},
		})
		for s.Next() {
		}
		require.NoError(t, s.Err())
	})
	require.JSONEq(t, theirs, ours)

	ours, theirs = sent(t, model.Config{Protocol: model.Messages, MaxOutput: 9}, ask, func(base string) {
		vendor := anthropicOf(base)
		last := anthropic.NewTextBlock("Go")
		last.OfText.CacheControl = anthropic.NewCacheControlEphemeralParam()
		s := vendor.Messages.NewStreaming(t.Context(), anthropic.MessageNewParams{
			Model: "m", MaxTokens: 7, Temperature: anthropic.Float(0.5), TopP: anthropic.Float(0), StopSequences: []string{"END", "<b>"},
			Messages:     []anthropic.MessageParam{anthropic.NewUserMessage(last)},
			OutputConfig: anthropic.OutputConfigParam{Effort: anthropic.OutputConfigEffortHigh, Format: anthropic.JSONOutputFormatParam{Schema: schemaOf(t)}},
		})
		for s.Next() {
		}
		require.NoError(t, s.Err())
	})
	require.JSONEq(t, theirs, ours)
}

// Options hold before what only one protocol knows, and both before the configuration;
// of objects, the members do. What a protocol does not know is told.
func TestOptionsOfSeveralPlaces(t *testing.T) {
	t.Parallel()
	send := func(c model.Config, o model.Options) (map[string]any, model.Response, error) {
		var body map[string]any
		client, _ := faulty(t, c, func(w http.ResponseWriter, r *http.Request) {
			if json.NewDecoder(r.Body).Decode(&body) != nil {
				w.WriteHeader(http.StatusTeapot)
			}
			stream(w, map[model.Protocol][]string{"": {done}, model.Chat: chatDone(`{"content":"x"}`), model.Messages: messageDone()}[c.Protocol]...)
		})
		r, err := client.Respond(t.Context(), model.Request{Input: []model.Item{model.User("Go")}, Options: o}, nothing)
		return body, r, err
	}
	raw := func(text string) json.RawMessage { return json.RawMessage(text) }
	body, r, err := send(model.Config{MaxOutput: 9, Extra: map[string]json.RawMessage{"reasoning": raw(`{"effort":"low","summary":"auto","a":1}`), "temperature": raw("1"), "user": raw(`"x"`)}}, model.Options{
		MaxOutput: 50, Temperature: new(0.25), Effort: "high", Stop: []string{"END"},
		Native: map[string]json.RawMessage{"reasoning": raw(`{"effort":"max","a":2}`), "service_tier": raw(`"flex"`), "temperature": raw("2")}, NativeTo: model.Responses,
	})
	require.NoError(t, err)
	require.Equal(t, map[string]any{"effort": "high", "summary": "auto", "a": 2.0}, body["reasoning"])
	require.Equal(t, []any{0.25, "flex", "x", 9.0}, []any{body["temperature"], body["service_tier"], body["user"], body["max_output_tokens"]}, "more than the configuration allows is cut to it")
	require.Equal(t, []string{"The model's protocol has no stop sequences."}, r.LeftOut)

	native := model.Options{
		Native: map[string]json.RawMessage{"thinking": raw(`{"type":"adaptive"}`)}, NativeTo: model.Messages,
		Format: &model.Format{Object: true}, MaxOutput: 9000,
	}
	body, r, err = send(model.Config{Protocol: model.Messages}, native)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"type": "adaptive"}, body["thinking"])
	require.Equal(t, 9000.0, body["max_tokens"])
	require.NotContains(t, body, "output_config")
	require.Equal(t, []string{"The model's protocol has no JSON mode without a schema."}, r.LeftOut)
	body, r, err = send(model.Config{Protocol: model.Chat}, native)
	require.NoError(t, err)
	require.NotContains(t, body, "thinking")
	require.Equal(t, map[string]any{"type": "json_object"}, body["response_format"])
	require.Equal(t, []string{"The model's protocol does not know thinking."}, r.LeftOut)

	_, _, err = send(model.Config{Protocol: model.Messages}, model.Options{Native: map[string]json.RawMessage{"model": raw(`"dearer"`)}, NativeTo: model.Messages})
	require.Equal(t, errs.Invalid, errs.CodeOf(err), "what the server writes stays the server's")
	client := model.New(model.Config{Protocol: model.Messages})
	require.Equal(t, []string{"The model's protocol has no description of a format."}, client.Unsupported(allOptions))
	require.Empty(t, model.New(model.Config{Protocol: model.Chat}).Unsupported(allOptions))
	require.Empty(t, client.Unsupported(model.Options{}))
}

// The way in which an answer ended is the same in every protocol.
func TestEndings(t *testing.T) {
	t.Parallel()
	finish := func(reason string) []string {
		return []string{`{"choices":[{"index":0,"delta":{"content":"Half"},"finish_reason":` + reason + `}],"usage":{"prompt_tokens":1}}`, "[DONE]"}
	}
	stop := func(delta string) []string {
		return []string{messageDone()[0], `{"type":"message_delta","delta":` + delta + `,"usage":{"output_tokens":5}}`, `{"type":"message_stop"}`}
	}
	whole := func(members string) []string {
		return []string{`{"type":"response.completed","response":{"id":"r","model":"m",` + members + `}}`}
	}
	for _, c := range []struct {
		protocol model.Protocol
		events   []string
		want     model.Ending
		at       string
	}{
		{model.Responses, whole(`"output":[]`), model.Finished, ""},
		{model.Responses, whole(`"output":[],"incomplete_details":{"reason":"max_output_tokens"}`), model.Length, ""},
		{model.Responses, whole(`"output":[],"incomplete_details":{"reason":"content_filter"}`), model.Filtered, ""},
		{model.Responses, whole(`"output":[{"type":"message","role":"assistant","content":[{"type":"refusal","refusal":"No."}]}]`), model.Refused, ""},
		{model.Chat, finish(`"stop"`), model.Finished, ""},
		{model.Chat, finish(`"stop","stop_reason":"END"`), model.Stopped, "END"},
		{model.Chat, finish(`"stop","stop_reason":128001`), model.Finished, ""},
		{model.Chat, finish(`"tool_calls"`), model.Finished, ""},
		{model.Chat, finish(`"length"`), model.Length, ""},
		{model.Chat, finish(`"content_filter"`), model.Filtered, ""},
		{model.Chat, finish(`"model_length"`), model.ContextFull, ""},
		{model.Chat, finish(`"new"`), model.Cut, ""},
		{model.Chat, chatDone(`{"refusal":"No."}`), model.Refused, ""},
		{model.Messages, stop(`{"stop_reason":"end_turn","stop_sequence":null}`), model.Finished, ""},
		{model.Messages, stop(`{"stop_reason":"stop_sequence","stop_sequence":"END"}`), model.Stopped, "END"},
		{model.Messages, stop(`{"stop_reason":"max_tokens"}`), model.Length, ""},
		{model.Messages, stop(`{"stop_reason":"model_context_window_exceeded"}`), model.ContextFull, ""},
		{model.Messages, stop(`{"stop_reason":"pause_turn"}`), model.Paused, ""},
	} {
		client, _ := faulty(t, model.Config{Protocol: c.protocol}, func(w http.ResponseWriter, _ *http.Request) { stream(w, c.events...) })
		r, err := client.Respond(t.Context(), model.Request{}, nothing)
		require.NoError(t, err, c.events)
		require.Equal(t, []string{string(c.want), c.at}, []string{string(r.Ended), r.Stop}, c.events)
	}
	client, _ := faulty(t, model.Config{Protocol: model.Messages}, func(w http.ResponseWriter, _ *http.Request) {
		stream(w, stop(`{"stop_reason":"refusal"}`)...)
	})
	r, err := client.Respond(t.Context(), model.Request{}, nothing)
	require.ErrorContains(t, err, "refusal")
	require.Equal(t, model.Refused, r.Ended, "what came with it is there")
	require.Equal(t, int64(8), r.Usage.Total())
}
