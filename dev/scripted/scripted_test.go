package scripted_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/scripted"
)

func TestScripts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"turns: []":                        "has no name",
		"name: x\nturns: [{output: [{}]}]": "turn 1: an output is one of",
		"name: x\nturns: [{output: [{text: a, refusal: b}]}]": "turn 1: an output is one of",
		"name: x\nturns: [{output: [{call: {}}]}]":            "a call has no name",
		"name: x\nturns: [{fail: [{status: 200}]}]":           "200 is no status of a refusal",
		"name: x\nturns: [{odd: 1}]":                          "field odd not found",
		"":                                                    "has no name",
	} {
		_, err := scripted.Parse([]byte(text))
		require.ErrorContains(t, err, want, text)
	}
	file := filepath.Join(t.TempDir(), "script.yaml")
	require.NoError(t, os.WriteFile(file, []byte("name: x\nturns: [{output: [{text: a}], delay: 5ms}]"), 0o600))
	s, err := scripted.Load(file)
	require.NoError(t, err)
	require.Equal(t, "x", s.Name)
	require.NoError(t, os.WriteFile(file, []byte("name: ["), 0o600))
	_, err = scripted.Load(file)
	require.ErrorContains(t, err, file)
}

// What the real service refuses, in its words.
func TestRefusals(t *testing.T) {
	t.Parallel()
	s, err := scripted.Parse([]byte("name: x\nturns: [{output: [{text: a}], expect: [needle], reject: [bad]}]"))
	require.NoError(t, err)
	web := httptest.NewServer(scripted.New(s))
	t.Cleanup(web.Close)
	const message = `{"type":"message","role":"user","content":"needle"}`
	for body, want := range map[string]string{
		`{`:             "could not parse the JSON body",
		`{"input":"x"}`: "Missing required parameter: 'model'.",
		`{"model":"m"}`: "Missing required parameter: 'input'.",
		`{"model":"m","input":[` + message + `,{"type":"function_call","call_id":"c1","name":"a","arguments":"{}"}]}`:                                                                                          "No tool output found for function call c1.",
		`{"model":"m","input":[` + message + `,{"type":"function_call_output","call_id":"c2","output":""}]}`:                                                                                                   "No tool call found for function call output with call_id c2.",
		`{"model":"m","input":"needle","tools":[{"type":"function","name":"a b"}]}`:                                                                                                                            "Invalid 'tools[0].name'",
		`{"model":"m","input":"needle","tools":[{"type":"function","name":"a"},{"type":"function","name":"a"}]}`:                                                                                               "Duplicate tool name",
		`{"model":"m","input":"needle","tools":[{"type":"function","name":"a","strict":true,"parameters":{"type":"object","properties":{"x":{"type":"string"}},"required":[],"additionalProperties":false}}]}`: "required is required to be supplied",
		`{"model":"m","input":"hay"}`:        `turn 1 expects "needle" in the request`,
		`{"model":"m","input":"needle bad"}`: `turn 1 rejects "bad" in the request`,
		`{"model":"m","input":[` + message + `,{"type":"message","id":"msg_scripted_0_0","role":"assistant","content":[]}]}`: "has 1 turns, and this is turn 2",
	} {
		status, text := post(t, web.URL+"/v1/responses", body)
		require.Equal(t, 400, status, body)
		require.Contains(t, text, want, body)
	}
	status, _ := post(t, web.URL+"/v1/embeddings", `{}`)
	require.Equal(t, 404, status)
	// Without a stream, the answer comes in one piece.
	status, text := post(t, web.URL+"/responses", `{"model":"m","input":[`+message+`]}`)
	require.Equal(t, 200, status, text)
	var answer struct {
		Model  string
		Status string
		Output []struct{ Content []struct{ Text string } }
	}
	require.NoError(t, json.Unmarshal([]byte(text), &answer))
	require.Equal(t, "scripted:x", answer.Model)
	require.Equal(t, "completed", answer.Status)
	require.Equal(t, "a", answer.Output[0].Content[0].Text)
}

func post(t *testing.T, url, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	var e struct {
		Error struct{ Message string }
	}
	if json.Unmarshal(text, &e) == nil && e.Error.Message != "" {
		return answer.StatusCode, e.Error.Message
	}
	return answer.StatusCode, string(text)
}

// Each protocol refuses what its service refuses, in its form.
func TestRefusalsOfOtherProtocols(t *testing.T) {
	t.Parallel()
	script, err := scripted.Parse([]byte("name: x\nturns: [{output: [{text: a}]}]"))
	require.NoError(t, err)
	web := httptest.NewServer(scripted.New(script))
	t.Cleanup(web.Close)
	for body, want := range map[string]string{
		`{`:             "could not parse",
		`{"model":"m"}`: "Missing required parameter: 'messages'",
		`{"messages":[{"role":"user","content":"x"}]}`:                                                                                     "Missing required parameter: 'model'",
		`{"model":"m","messages":[{"role":"user","content":"x"},{"role":"odd","content":"y"}]}`:                                            "'messages[1].role'",
		`{"model":"m","messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"id":"c1"}]}]}`:                         "No tool output found for function call c1",
		`{"model":"m","messages":[{"role":"user","content":"x"},{"role":"tool","tool_call_id":"c2","content":""}]}`:                        "No tool call found for function call output with call_id c2",
		`{"model":"m","messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"a b","parameters":{}}}]}`: "Invalid 'tools[0].name'",
	} {
		status, text := post(t, web.URL+"/v1/chat/completions", body)
		require.Equal(t, 400, status, body)
		require.Contains(t, text, want, body)
	}
	user := `{"role":"user","content":[{"type":"text","text":"x"}]}`
	for body, want := range map[string]string{
		`{"model":"m","messages":[` + user + `]}`:                                                                                                                  "max_tokens: Field required",
		`{"model":"m","max_tokens":1,"messages":[]}`:                                                                                                               "at least one message",
		`{"model":"m","max_tokens":1,"messages":[{"role":"system","content":"x"}]}`:                                                                                `unexpected role "system"`,
		`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"text","text":" "}]}]}`:                                                         "non-whitespace",
		`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"odd"}]}]}`:                                                                     `Input tag "odd"`,
		`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[]}]}`:                                                                                   "neither a text nor a list",
		`{"model":"m","max_tokens":1,"tools":[{"name":"a","input_schema":{}}],"messages":[` + user + `]}`:                                                          "input_schema.type",
		`{"model":"m","max_tokens":1,"messages":[` + user + `,{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"a","input":{}}]},` + user + `]}`: "No tool output found for function call t1",
		`{"model":"m","max_tokens":1,"messages":[` + user + `,{"role":"assistant","content":[{"type":"tool_use","id":"t.1","name":"a","input":{}}]}]}`:             "id or input is not valid",
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL+"/v1/messages", strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Anthropic-Version", "2023-06-01")
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, answer.Body.Close())
		require.NoError(t, err)
		require.Equal(t, 400, answer.StatusCode, body)
		require.Contains(t, string(text), `{"error":{"message":`, body)
		require.Contains(t, strings.ReplaceAll(string(text), `\"`, `"`), want, body)
	}
	status, text := post(t, web.URL+"/v1/messages", `{}`)
	require.Equal(t, 400, status)
	require.Contains(t, text, "anthropic-version")
}
