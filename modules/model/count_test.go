package model_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/scripted"
	"github.com/portico-run/portico/modules/model"
	"github.com/portico-run/portico/modules/model/content"
)

// A provider that counts is asked as the vendor's client asks, without what it refuses
// there.
func TestTokensAreCountedByTheProvider(t *testing.T) {
	t.Parallel()
	script, err := scripted.Parse([]byte("name: x"))
	require.NoError(t, err)
	var bodies, paths []string
	provider := scripted.New(script)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies, paths = append(bodies, string(body)), append(paths, r.Method+" "+r.URL.Path)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		provider.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	client := model.New(model.Config{Protocol: model.Messages, BaseURL: web.URL + "/v1", Model: "m", MaxOutput: 9, Logger: slog.New(slog.DiscardHandler)})
	got, err := client.CountTokens(t.Context(), model.Request{Input: []model.Item{model.System("Be kind."), model.User("Go")}, Options: model.Options{Temperature: new(0.5), Stop: []string{"END"}, Effort: "low"}})
	require.NoError(t, err)

	last := anthropic.NewTextBlock("Go")
	last.OfText.CacheControl = anthropic.NewCacheControlEphemeralParam()
	vendor := anthropicOf(web.URL)
	theirs, err := vendor.Messages.CountTokens(t.Context(), anthropic.MessageCountTokensParams{
		Model: "m", Messages: []anthropic.MessageParam{anthropic.NewUserMessage(last)},
		System:       anthropic.MessageCountTokensParamsSystemUnion{OfTextBlockArray: []anthropic.TextBlockParam{{Text: "Be kind.", CacheControl: anthropic.NewCacheControlEphemeralParam()}}},
		OutputConfig: anthropic.OutputConfigParam{Effort: anthropic.OutputConfigEffortLow},
	})
	require.NoError(t, err)
	require.JSONEq(t, bodies[1], bodies[0])
	require.Equal(t, paths[1], paths[0])
	require.Equal(t, model.Counted{Tokens: theirs.InputTokens, Exact: true}, got)
}

// Where nobody counts, bytes are; a picture is not as long as its bytes.
func TestTokensAreEstimated(t *testing.T) {
	t.Parallel()
	long := "data:image/png;base64," + strings.Repeat("A", 400_000)
	req := model.Request{Input: []model.Item{model.User(strings.Repeat("word", 1000)), model.UserParts([]model.Part{{Type: content.Image, URL: long}})}}
	for _, protocol := range model.Protocols() {
		client, asked := faulty(t, model.Config{Protocol: protocol}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
		got, err := client.CountTokens(t.Context(), req)
		require.NoError(t, err)
		require.False(t, got.Exact)
		require.InDelta(t, 1000+1600, got.Tokens, 100, protocol)
		require.LessOrEqual(t, asked.Load(), int64(1))
	}
	for _, c := range []struct {
		want, body string
		status     int
	}{
		{"with status 401 (authentication_error): Not [redacted].", `{"type":"error","error":{"type":"authentication_error","message":"Not sk-the-whole-key."}}`, 401},
		{"did not say how many", `{}`, 200},
	} {
		client, _ := faulty(t, model.Config{Protocol: model.Messages}, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			fmt.Fprint(w, c.body)
		})
		_, err := client.CountTokens(t.Context(), req)
		require.ErrorContains(t, err, c.want)
	}
	client, _ := faulty(t, model.Config{}, func(http.ResponseWriter, *http.Request) {})
	_, err := client.CountTokens(t.Context(), model.Request{Input: []model.Item{model.UserParts(nil)}})
	require.ErrorContains(t, err, "neither a text nor a list")
}
