package embedding_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/knowledge/embedding"
	"github.com/portico-run/portico/modules/knowledge/knowledgetest"
)

func client(t *testing.T, h http.Handler, change func(c *embedding.Config)) *embedding.Client {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	config := embedding.Config{URL: server.URL + "/v1", APIKey: knowledgetest.Key, Model: knowledgetest.Model, Timeout: 10 * time.Second}
	if change != nil {
		change(&config)
	}
	c, err := embedding.New(config)
	require.NoError(t, err)
	return c
}

func TestVectorsComeInTheOrderOfTheTexts(t *testing.T) {
	t.Parallel()
	var service knowledgetest.Embeddings
	c := client(t, &service, func(c *embedding.Config) { c.Dimensions = 64 })
	texts := make([]string, 200)
	for i := range texts {
		texts[i] = strings.Repeat("lamp ", i+1)
	}
	texts[150] = strings.Repeat("a long text ", 30_000) // goes alone
	vectors, err := c.Embed(t.Context(), texts)
	require.NoError(t, err)
	require.Len(t, vectors, 200)
	for i, v := range vectors {
		want := knowledgetest.Embed(texts[i], 64)
		for n := range want {
			require.InDelta(t, want[n], v[n], 1e-6)
		}
	}
	require.EqualValues(t, 200, service.Texts.Load())
	require.EqualValues(t, 4, service.Requests.Load(), "in batches")
	require.Equal(t, "stand-in/64", c.Model())
}

func TestRefusalsNameTheReasonAndNoKey(t *testing.T) {
	t.Parallel()
	var service knowledgetest.Embeddings
	service.Broken.Store(http.StatusBadRequest)
	c := client(t, &service, nil)
	_, err := c.EmbedQuery(t.Context(), "a question")
	require.ErrorContains(t, err, "Bad Request")
	require.NotContains(t, err.Error(), knowledgetest.Key)
	require.Equal(t, "stand-in", c.Model())
}

func TestTextsAreAskedForAgainAndQuestionsAreNot(t *testing.T) {
	t.Parallel()
	answers := 0
	var service knowledgetest.Embeddings
	c := client(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answers++; answers%2 == 1 {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		service.ServeHTTP(w, r)
	}), func(c *embedding.Config) { c.Retries = 1 })
	_, err := c.Embed(t.Context(), []string{"a text"})
	require.NoError(t, err)
	_, err = c.EmbedQuery(t.Context(), "a question")
	require.Error(t, err)
	require.Equal(t, 3, answers)
}

func TestAnswersThatAreNotWholeAreErrors(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"none":              `{"data":[]}`,
		"one is missing":    `{"data":[{"index":0,"embedding":[1,0]}]}`,
		"no such text":      `{"data":[{"index":0,"embedding":[1,0]},{"index":2,"embedding":[1,0]}]}`,
		"another dimension": `{"data":[{"index":0,"embedding":[1,0]},{"index":1,"embedding":[1,0,0]}]}`,
		"no direction":      `{"data":[{"index":0,"embedding":[1,0]},{"index":1,"embedding":[0,0]}]}`,
		"no JSON":           `<html>`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := client(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }), nil)
			_, err := c.Embed(t.Context(), []string{"a", "b"})
			require.Error(t, err)
		})
	}
	c := client(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"data":[{"index":0,"embedding":[1,0]}]}`))
	}), func(c *embedding.Config) { c.Dimensions = 3 })
	_, err := c.EmbedQuery(t.Context(), "a")
	require.ErrorContains(t, err, "EMBEDDING_DIMENSIONS")
}
