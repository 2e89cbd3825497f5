package model_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/model"
)

func client(t *testing.T, h http.HandlerFunc) *model.Client {
	t.Helper()
	web := httptest.NewServer(h)
	t.Cleanup(web.Close)
	return model.New(model.Config{
		BaseURL: web.URL, APIKey: "sk-test", Model: "gpt-x", MaxOutput: 77, Headers: map[string]string{"X-Team": "blue"},
		Timeout: 5 * time.Second, Logger: slog.New(slog.DiscardHandler),
	})
}

func stream(w http.ResponseWriter, events ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range events {
		fmt.Fprintf(w, "data: %s\n\n", e)
	}
}

func nothing(model.Delta) {}

// A conversation of every kind of item comes through the client, and goes back,
// byte for byte.
func TestConversationsAreUnchanged(t *testing.T) {
	t.Parallel()
	golden, err := os.ReadFile("testdata/conversation.json")
	require.NoError(t, err)
	var items []model.Item
	require.NoError(t, json.Unmarshal(golden, &items))
	one := "["
	for _, item := range items {
		one += string(item) + ","
	}
	one = strings.TrimSuffix(one, ",") + "]"
	require.Contains(t, one, `": "`, "the golden has space in it")
	require.Contains(t, one, "<b>", "and what an encoder would escape")
	var sent []byte
	c := client(t, func(w http.ResponseWriter, r *http.Request) {
		sent, _ = io.ReadAll(r.Body)
		require.Equal(t, "Bearer sk-test", r.Header.Get("Authorization"))
		require.Equal(t, "blue", r.Header.Get("X-Team"))
		require.Equal(t, "/responses", r.URL.Path)
		stream(w, `{"type":"response.completed","sequence_number":0,"response":{"id":"resp_1","object":"response","model":"gpt-x-2026","status":"completed","output":`+one+
			`,"usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":4},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":2},"total_tokens":15}}}`)
	})
	r, err := c.Respond(t.Context(), model.Request{Input: items, Parallel: true}, nothing)
	require.NoError(t, err)
	require.Equal(t, items, r.Output)
	require.Equal(t, "gpt-x-2026", r.Model)
	require.Equal(t, int64(15), r.Usage.Total())
	require.Equal(t, int64(4), r.Usage.InputDetails.Cached)
	require.Equal(t, int64(2), r.Usage.OutputDetails.Reasoning)
	var body struct {
		Input           json.RawMessage `json:"input"`
		Model           string          `json:"model"`
		MaxOutputTokens int             `json:"max_output_tokens"`
		Stream, Store   bool
	}
	require.NoError(t, json.Unmarshal(sent, &body))
	require.Equal(t, one, string(body.Input))
	require.Equal(t, "gpt-x", body.Model)
	require.Equal(t, 77, body.MaxOutputTokens)
	require.True(t, body.Stream)
	require.False(t, body.Store)
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"status": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("x-request-id", "req_9")
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":{"message":"Incorrect API key provided.","type":"invalid_request_error","code":"invalid_api_key"}}`)
		}, "the model provider refused the request with status 401 (invalid_api_key): Incorrect API key provided. [request req_9]"},
		"in the stream": {func(w http.ResponseWriter, _ *http.Request) {
			stream(w, `{"type":"error","sequence_number":0,"code":"server_error","message":"it broke","param":null}`)
		}, "the model provider refused the request (server_error): it broke"},
		"failed": {func(w http.ResponseWriter, _ *http.Request) {
			stream(w, `{"type":"response.failed","sequence_number":0,"response":{"id":"r","status":"failed","error":{"code":"rate_limit_exceeded","message":"quota"},"output":[]}}`)
		}, "the model provider refused the request (rate_limit_exceeded): quota"},
		"no answer": {func(w http.ResponseWriter, _ *http.Request) { stream(w) }, "the answer broke off"},
		"no stream": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, "the answer broke off"},
		"not JSON":  {func(w http.ResponseWriter, _ *http.Request) { stream(w, `{"type":`) }, "the answer broke off"},
		"odd refusal": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusTeapot)
			fmt.Fprint(w, "short and stout")
		}, "status 418"},
	} {
		_, err := client(t, c.answer).Respond(t.Context(), model.Request{Input: []model.Item{model.Item(`{}`)}}, nothing)
		require.ErrorContains(t, err, c.want, name)
		_, ok := errors.AsType[*model.Error](err)
		require.True(t, ok, name)
		require.NotContains(t, err.Error(), "sk-test")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := client(t, func(http.ResponseWriter, *http.Request) {}).Respond(ctx, model.Request{}, nothing)
	require.ErrorIs(t, err, context.Canceled)
}

// The pieces of an answer are passed on as they come, those of a call with its
// id and name. An answer that breaks off comes again, after a sign that what
// was passed on does not count.
func TestPiecesArePassedOn(t *testing.T) {
	t.Parallel()
	asked := 0
	c := client(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.Contains(t, string(body), `"tool_choice":"required"`)
		require.Contains(t, string(body), `"tools":[{"type":"function","name":"add"`)
		if asked++; asked == 1 {
			stream(w, `{"type":"response.output_text.delta","sequence_number":0,"delta":"Los"}`)
			return
		}
		stream(w,
			`{"type":"response.reasoning_summary_text.delta","sequence_number":0,"delta":"Hm. "}`,
			`{"type":"response.output_text.delta","sequence_number":1,"delta":"I "}`,
			`{"type":"response.refusal.delta","sequence_number":2,"delta":"add."}`,
			`{"type":"response.output_item.added","sequence_number":3,"item":{"type":"function_call","id":"fc_1","call_id":"call_1","name":"add","arguments":""}}`,
			`{"type":"response.function_call_arguments.delta","sequence_number":4,"item_id":"fc_1","delta":"{\"n\""}`,
			`{"type":"response.function_call_arguments.delta","sequence_number":5,"item_id":"fc_1","delta":":1}"}`,
			`{"type":"response.incomplete","sequence_number":6,"response":{"id":"r","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[],"usage":{"input_tokens":3,"output_tokens":4}}}`)
	})
	choice, err := model.ParseChoice(json.RawMessage(`"required"`))
	require.NoError(t, err)
	add, err := c.Fit(model.Tool{Name: "add", Description: "Adds.", Schema: json.RawMessage(`{"type":"object","properties":{}}`)})
	require.NoError(t, err)
	var got []model.Delta
	r, err := c.Respond(t.Context(), model.Request{Input: []model.Item{model.User("Add")}, Tools: []model.Definition{add.Definition}, Choice: choice}, func(d model.Delta) { got = append(got, d) })
	require.NoError(t, err)
	require.Equal(t, []model.Delta{
		{Kind: model.Text, Text: "Los"},
		{Kind: model.Restart},
		{Kind: model.Reasoning, Text: "Hm. "},
		{Kind: model.Text, Text: "I "},
		{Kind: model.Text, Text: "add."},
		{Kind: model.Arguments, Text: `{"n"`, CallID: "call_1", Name: "add"},
		{Kind: model.Arguments, Text: ":1}", CallID: "call_1", Name: "add"},
	}, got)
	require.Equal(t, "max_output_tokens", r.Incomplete.Reason)
	var sum model.Usage
	sum.Add(r.Usage)
	sum.Add(r.Usage)
	require.Equal(t, int64(14), sum.Total())
}

// What a model wrote is in the log when that is asked for, and an answer that
// cannot be read is an error.
func TestAnswersInTheLog(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		stream(w, `{"type":"response.completed","sequence_number":0,"response":{"id":"r","model":"m","output":[{"type":"message","password":"hunter2"}],"usage":"many"}}`)
	}))
	t.Cleanup(web.Close)
	c := model.New(model.Config{BaseURL: web.URL, APIKey: "sk-test", Model: "m", LogOutput: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	_, err := c.Respond(t.Context(), model.Request{}, nothing)
	require.ErrorContains(t, err, "unreadable")
	require.Contains(t, log.String(), "model output")
	require.NotContains(t, log.String(), "hunter2")
}
