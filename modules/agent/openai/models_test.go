package openai_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/agenttest"
)

const hello = `
- output: [{text: "Hi."}]
`

func TestOneModel(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, hello)
	status, text := s.Send(http.MethodGet, "/v1/models/scripted", nil)
	require.Equal(t, 200, status)
	require.Contains(t, text, `{"id":"scripted","object":"model","created":0,"owned_by":"portico","default":true`)
	status, text = s.Send(http.MethodGet, "/v1/models/other", nil)
	require.Equal(t, 404, status)
	require.JSONEq(t, `{"error":{"message":"The model 'other' does not exist. GET /v1/models lists those that there are.","type":"invalid_request_error","param":"model","code":"model_not_found"}}`, text)
}

// The face can be switched off, and says so where there is no model.
func TestOffAndWithoutAModel(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, hello, "OPENAI_API=false")
	for _, path := range []string{"/v1/responses", "/v1/chat/completions"} {
		status, _ := s.Send(http.MethodPost, path, map[string]any{"input": "Hi"})
		require.Equal(t, 404, status)
	}
	s = agenttest.Serve(t, hello, "MODEL_NAME=")
	for path, body := range map[string]map[string]any{
		"/v1/responses": {"input": "Hi"}, "/v1/chat/completions": {"messages": []map[string]any{{"role": "user", "content": "Hi"}}},
	} {
		status, text := s.Send(http.MethodPost, path, body)
		require.Equal(t, 503, status, text)
		require.Contains(t, text, "This server has no model.")
		require.Contains(t, text, `"type":"server_error"`)
	}
}
