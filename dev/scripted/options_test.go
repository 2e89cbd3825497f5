package scripted_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/scripted"
)

const png = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="

// ask sends a request in a protocol, by its path.
func ask(t *testing.T, url, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Anthropic-Version", "2023-06-01")
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, strings.ReplaceAll(string(text), `\"`, `"`)
}

// What each service refuses of options and parts is refused, and what it takes is taken.
func TestOptionsAndParts(t *testing.T) {
	t.Parallel()
	script, err := scripted.Parse([]byte("name: x\nturns: [{output: [{text: a}], stop: END}]"))
	require.NoError(t, err)
	web := httptest.NewServer(scripted.New(script))
	t.Cleanup(web.Close)
	const (
		r, c, m, count = "/responses", "/chat/completions", "/v1/messages", "/v1/messages/count_tokens"
		text           = `"input":"x"`
		chat           = `"messages":[{"role":"user","content":"x"}]`
		talk           = `"max_tokens":9,"messages":[{"role":"user","content":"x"}]`
		schema         = `"schema":{"type":"object","properties":{},"required":[],"additionalProperties":false}`
	)
	parts := func(list string) string { return `"input":[{"type":"message","role":"user","content":[` + list + `]}]` }
	chats := func(list string) string { return `"messages":[{"role":"user","content":[` + list + `]}]` }
	talks := func(list string) string { return `"max_tokens":9,` + chats(list) }
	for _, one := range []struct{ path, body, want string }{
		{r, text + `,"stop":["x"]`, "Unknown parameter: 'stop'."},
		{r, text + `,"max_tokens":5`, "Unknown parameter: 'max_tokens'."},
		{r, text + `,"temperature":2.5`, "'temperature'"},
		{r, text + `,"top_p":1.5`, "'top_p'"},
		{r, text + `,"reasoning":{"effort":"huge"}`, "Invalid value: 'huge'"},
		{r, text + `,"text":{"format":{"type":"json_schema",` + schema + `}}`, "'text.format.name'"},
		{r, text + `,"text":{"format":{"type":"json_schema","name":"n"}}`, "'text.format.schema'"},
		{r, text + `,"text":{"format":{"type":"json_schema","name":"n","strict":true,"schema":{"type":"object","properties":{}}}}`, "Invalid schema for response_format 'n'"},
		{r, text + `,"text":{"format":{"type":"json_schema","name":"n","strict":true,` + schema + `}},"temperature":2,"reasoning":{"effort":"minimal"}`, ""},
		{r, `"input":[{"type":"function_call","call_id":"c","name":"a","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"x","is_error":true}]`, "Unknown parameter: 'input[1].is_error'."},
		{r, parts(`{"type":"image_url"}`), "Invalid value: 'image_url'"},
		{r, parts(`{"type":"input_image","image_url":"data:image/png;base64,AA=="}`), "does not represent a valid image"},
		{r, parts(`{"type":"input_image","image_url":"file:///etc/passwd"}`), "neither an https nor a data URL"},
		{r, parts(`{"type":"input_file"}`), "one of file_data and file_url"},
		{r, parts(`{"type":"input_image","image_url":"` + png + `"},{"type":"input_text","text":""}`), ""},
		{c, chat + `,"max_output_tokens":5`, "Unknown parameter: 'max_output_tokens'."},
		{c, chat + `,"stop":["1","2","3","4","5"]`, "'stop'"},
		{c, chat + `,"response_format":{"type":"json_schema",` + schema + `}`, "'response_format.json_schema'"},
		{c, chat + `,"response_format":{"type":"odd"}`, "'response_format.type'"},
		{c, chat + `,"response_format":{"type":"json_object"},"stop":["1"],"reasoning_effort":"low"`, ""},
		{c, chats(`{"type":"input_text","text":"x"}`), "Invalid value: 'input_text'"},
		{c, chats(`{"type":"image_url","image_url":"` + png + `"}`), "neither an https nor a data URL"},
		{c, chats(`{"type":"file","file":{}}`), "file.file_data is required"},
		{c, `"messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"id":"c"}]},{"role":"tool","tool_call_id":"c","content":[{"type":"image_url","image_url":{"url":"` + png + `"}}]}]`, "Invalid value: 'image_url' at 'messages[2].content[0]'"},
		{c, chats(`{"type":"image_url","image_url":{"url":"` + png + `"}}`), ""},
		{m, talk + `,"stop":["x"]`, "stop: Extra inputs are not permitted"},
		{m, talk + `,"temperature":1.5`, "'temperature'"},
		{m, talk + `,"output_config":{"effort":"minimal"}`, "Invalid value: 'minimal'"},
		{m, talk + `,"output_config":{"format":{"type":"json_object"}}`, "'output_config.format.type'"},
		{m, talk + `,"output_config":{"effort":"low","format":{"type":"json_schema",` + schema + `}}`, ""},
		{m, talks(`{"type":"image"}`), "source: Field required"},
		{m, talks(`{"type":"image","source":{"type":"base64","media_type":"image/jpeg","data":"` + strings.TrimPrefix(png, "data:image/png;base64,") + `"}}`), "It is image/png, not image/jpeg"},
		{m, talks(`{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"UEs="}}`), "The PDF specified was not valid"},
		{m, talks(`{"type":"document","source":{"type":"base64","media_type":"text/plain","data":"UEs="}}`), "does not match any of the expected sources"},
		{m, `"max_tokens":9,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"image","source":{"type":"url","url":"https://example.com"}}]}]`, "messages.1.content.0.image"},
		{m, `"max_tokens":9,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"a","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[{"type":"odd"}]}]}]`, "Invalid value: 'odd'"},
		{m, `"max_tokens":9,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"a","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","is_error":"yes"}]}]`, "neither a text nor a list"},
		{m, talk, `"stop_reason":"stop_sequence","stop_sequence":"END"`},
		{count, talk, "max_tokens: Extra inputs are not permitted"},
		{count, chat + `,"stream":true`, "stream: Extra inputs are not permitted"},
		{count, chat + `,"temperature":1`, "temperature: Extra inputs are not permitted"},
		{count, chat, `{"input_tokens":`},
	} {
		status, got := ask(t, web.URL+one.path, `{"model":"m",`+one.body+`}`)
		ok := one.want == "" || strings.HasPrefix(one.want, `{"input`) || strings.HasPrefix(one.want, `"stop_reason"`)
		require.Equal(t, ok, status == http.StatusOK, "%s %s: %s", one.path, one.body, got)
		require.Contains(t, got, one.want, one.body)
	}
}

// A script may expect numbers and truths.
func TestScriptsExpectOptions(t *testing.T) {
	t.Parallel()
	script, err := scripted.Parse([]byte("name: x\nturns: [{output: [{text: a}], expect: ['temperature: 0.5', 'is_error: true'], reject: ['max_tokens: 8']}]"))
	require.NoError(t, err)
	web := httptest.NewServer(scripted.New(script))
	t.Cleanup(web.Close)
	body := func(most, options string) string {
		return `{"model":"m","max_tokens":` + most + `,"temperature":0.5,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"a","input":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"x"` + options + `}]}]}`
	}
	status, got := ask(t, web.URL+"/messages", body("9", `,"is_error":true`))
	require.Equal(t, 200, status, got)
	_, got = ask(t, web.URL+"/messages", body("9", ``))
	require.Contains(t, got, `expects "is_error: true"`)
	_, got = ask(t, web.URL+"/messages", body("8", `,"is_error":true`))
	require.Contains(t, got, `rejects "max_tokens: 8"`)
}
