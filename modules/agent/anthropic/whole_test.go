package anthropic_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/agenttest"
	"github.com/portico-run/portico/internal/actor"
)

// request sends a request as a client of the vendor's does.
func request(t *testing.T, s *agenttest.Server, method, path string, body any, headers ...string) (*http.Response, string) {
	t.Helper()
	url, key := s.Reach()
	var in io.Reader
	switch b := body.(type) {
	case nil:
	case io.Reader:
		in = b
	default:
		text, err := json.Marshal(b)
		require.NoError(t, err)
		in = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, url+path, in)
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+key)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp, string(text)
}

func decoded(t *testing.T, text string) (a answer) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &a), text)
	return a
}

// second is another user, and their key.
func second(t *testing.T, s *agenttest.Server) (key string) {
	t.Helper()
	u, err := s.Accounts.Service.CreateUser(t.Context(), "ben", "")
	require.NoError(t, err)
	_, plain, err := s.Accounts.Service.CreateKey(t.Context(), actor.Actor{UID: u.UID}, "x", 1)
	require.NoError(t, err)
	return plain.Reveal()
}

const sums = `
- expect: ["get_order", "Total"]
  output:
    - reasoning: "Two calls."
    - text: "Let me add them."
    - call: {name: run_code, arguments: {code: "a, b = await asyncio.gather(get_order(id=1), get_order(id=2))\nprint(a['total'] + b['total'])"}}
- expect: ["Let me add them.", "run_code", "42"]
  output: [{reasoning: "Done."}, {text: "42."}]
- expect: ["Let me add them.", "42.", "Thanks"]
  output: [{text: "You are welcome."}]
`

// The same works whatever protocol the model's provider speaks, as a stream and in one
// piece; what was said, thought and done goes back with each request, once.
func TestWhateverTheProviderSpeaks(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"responses", "chat", "messages"} {
		for _, streamed := range []bool{false, true} {
			t.Run(protocol+map[bool]string{false: " in one piece", true: " as a stream"}[streamed], func(t *testing.T) {
				t.Parallel()
				s := agenttest.Serve(t, sums, "MODEL_PROTOCOL="+protocol)
				c := begin(t, s, "Total of orders 1 and 2?", code(), order("code_execution_20260521"))
				c.stream = streamed
				got := c.send(http.StatusOK)
				require.Equal(t, "tool_use", got.StopReason)
				var calls []any
				for _, b := range got.blocks(t) {
					if b.Type == "tool_use" {
						calls = append(calls, result(b.ID, `{"total":21}`))
					}
				}
				require.Len(t, calls, 2)
				c.says(calls)
				got = c.send(http.StatusOK)
				require.Equal(t, "end_turn", got.StopReason)
				c.says("Thanks")
				got = c.send(http.StatusOK)
				require.Equal(t, "end_turn", got.StopReason)
				asked := s.Model.Requests()
				last := string(asked[len(asked)-1])
				require.Equal(t, 1, strings.Count(last, "Let me add them."), last)
				require.Equal(t, 1, strings.Count(last, `"42."`), last)
			})
		}
	}
}

// A client that lost an answer sends the request again, and nothing runs twice.
func TestARequestThatIsSentAgain(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, sums)
	body := map[string]any{
		"model": "scripted", "max_tokens": 1024, "tools": []any{code(), order("code_execution_20260521")},
		"messages": []any{map[string]any{"role": "user", "content": "Total of orders 1 and 2?"}},
	}
	_, first := request(t, s, "POST", path, body)
	_, again := request(t, s, "POST", path, body, "X-Stainless-Retry-Count", "1")
	require.JSONEq(t, first, again)
	require.Len(t, s.Model.Requests(), 1)

	// Results are taken once, too; others for the same calls are refused.
	a := decoded(t, first)
	results := func(total string) []any {
		var list []any
		for _, b := range a.blocks(t) {
			if b.Type == "tool_use" {
				list = append(list, result(b.ID, total))
			}
		}
		return list
	}
	body["messages"] = append(body["messages"].([]any), map[string]any{"role": "assistant", "content": a.Content}, map[string]any{"role": "user", "content": results(`{"total":21}`)})
	resp, said := request(t, s, "POST", path, body)
	require.Equal(t, 400, resp.StatusCode)
	require.Contains(t, said, "container_id is required when there are pending tool uses")
	body["container"] = "container_" + strings.Repeat("x", 21)
	resp, said = request(t, s, "POST", path, body)
	require.Equal(t, 404, resp.StatusCode)
	require.Equal(t, "container_expired", decoded(t, said).Error.Details["error_code"])
	body["container"] = a.Container.ID
	resp, first = request(t, s, "POST", path, body)
	require.Equal(t, 200, resp.StatusCode, first)
	_, again = request(t, s, "POST", path, body)
	require.JSONEq(t, text(t, decoded(t, first).Content), text(t, decoded(t, again).Content))
	require.Len(t, s.Model.Requests(), 2)
	list, _ := body["messages"].([]any)
	list[2] = map[string]any{"role": "user", "content": results(`{"total":1}`)}
	resp, said = request(t, s, "POST", path, body)
	require.Equal(t, 409, resp.StatusCode, said)
	require.Equal(t, "conflict_error", decoded(t, said).Error.Type)
	require.Equal(t, "false", resp.Header.Get("X-Should-Retry"))
	require.Equal(t, decoded(t, said).RequestID, resp.Header.Get("Request-Id"))

	// Another user has none of it.
	list[2] = map[string]any{"role": "user", "content": results(`{"total":21}`)}
	resp, said = request(t, s, "POST", path, body, "Authorization", "Bearer "+second(t, s))
	require.Equal(t, 404, resp.StatusCode, said)
	require.Equal(t, "container_expired", decoded(t, said).Error.Details["error_code"])
}

func text(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	return string(raw)
}

// What goes wrong before the first words has a status, also where a stream was asked for.
func TestErrorsOfTheProvider(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, `
- fail: [{status: 400, code: bad, message: "Not like this."}, {status: 400, code: bad, message: "Not like this."}]
  output: [{text: "Hi."}]
`)
	for _, streamed := range []bool{false, true} {
		resp, said := request(t, s, "POST", path, map[string]any{"model": "scripted", "max_tokens": 9, "stream": streamed, "messages": []any{map[string]any{"role": "user", "content": "Hello"}}})
		require.Equal(t, 400, resp.StatusCode, said)
		require.Contains(t, decoded(t, said).Error.Message, "Not like this.")
		require.Empty(t, resp.Header.Get("X-Should-Retry"), "nothing ran")
	}
	resp, said := request(t, s, "POST", path, map[string]any{"model": "none", "max_tokens": 9, "messages": []any{map[string]any{"role": "user", "content": "Hello"}}})
	require.Equal(t, 404, resp.StatusCode)
	require.Equal(t, "not_found_error", decoded(t, said).Error.Type)
	resp, said = request(t, s, "POST", path, map[string]any{}, "Authorization", "Bearer rf_none")
	require.Equal(t, 401, resp.StatusCode)
	require.Equal(t, "authentication_error", decoded(t, said).Error.Type)
	require.NotEmpty(t, resp.Header.Get("Request-Id"))
	resp, said = request(t, s, "GET", path, nil)
	require.Equal(t, 405, resp.StatusCode)
	require.Equal(t, "invalid_request_error", decoded(t, said).Error.Type)
}

// Tools that wait to be found are found, and can be called from then on.
func TestToolsAreFound(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, `
- expect: ["tool_search_tool_regex", "tool_search_tool_bm25"]
  reject: ["get_order", "One order."]
  output:
    - call: {name: tool_search_tool_regex, arguments: {pattern: "["}}
    - call: {name: tool_search_tool_bm25, arguments: {query: "an order"}}
- expect: ["missing closing", "You have these tools now: get_order", "One order."]
  output: [{reasoning: "There."}, {call: {name: get_order, arguments: {id: 7}}}]
- expect: ["One order.", "Seven."]
  output: [{text: "7."}]
`)
	deferred := order("direct")
	deferred["defer_loading"] = true
	other := map[string]any{"name": "send_mail", "description": "Writes to somebody.", "defer_loading": true, "input_schema": map[string]any{"type": "object"}}
	c := begin(t, s, "Order 7?", map[string]any{"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"},
		map[string]any{"type": "tool_search_tool_bm25", "name": "tool_search_tool_bm25"}, deferred, other)
	got := c.send(http.StatusOK)
	blocks := got.blocks(t)
	require.Contains(t, string(got.Content[1]), `"error_code":"invalid_tool_input"`)
	require.Contains(t, string(got.Content[3]), `"tool_references":[{"type":"tool_reference","tool_name":"get_order"}]`)
	call := blocks[len(blocks)-1]
	require.Equal(t, []string{"tool_use", "get_order", "direct"}, []string{call.Type, call.Name, call.Caller.Type})
	c.says([]any{result(call.ID, "Seven.")})
	require.Equal(t, "7.", c.send(http.StatusOK).blocks(t)[0].Text)
}

// A call of the server's own tool waits for a person: a client that has the tool for it
// is asked.
func TestAPersonIsAsked(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, `
- output: [{call: {name: run_code, arguments: {code: "print(get_weather(city='Oslo', days=1)['city'])\ntry:\n    get_weather(city='Rome', days=1)\nexcept Exception as e:\n    print('no:', e)"}}}]
- expect: ["Oslo\nno:"]
  output: [{text: "Oslo."}]
`)
	c := begin(t, s, "Weather?", code(), map[string]any{"name": "portico_approval", "input_schema": map[string]any{"type": "object"}})
	c.more["portico"] = map[string]any{"approval": "always", "toolsets": []string{"demo"}}
	got := c.send(http.StatusOK)
	for i, decision := range []string{`{"decision":"allow"}`, `{"decision":"refuse","reason":"Not there."}`} {
		require.Equal(t, "tool_use", got.StopReason, i)
		blocks := got.blocks(t)
		ask := blocks[len(blocks)-1]
		require.Equal(t, []string{"tool_use", "portico_approval", "code_execution_20260120"}, []string{ask.Type, ask.Name, ask.Caller.Type})
		require.Contains(t, string(ask.Input), `"toolset":"demo"`)
		require.Contains(t, string(ask.Input), []string{`"city":"Oslo"`, `"city":"Rome"`}[i])
		c.says([]any{result(ask.ID, decision)})
		got = c.send(http.StatusOK)
	}
	require.Equal(t, "end_turn", got.StopReason)
	require.Contains(t, got.blocks(t)[0].Content.Stdout, "Not there.")
}

// Programs find uploaded files, the next ones find what the first left, and clients read
// it. Another user reads nothing.
func TestFilesOfPrograms(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, `
- output: [{call: {name: run_code, arguments: {code: "print(open('in.txt').read())\nopen('out.txt', 'w').write('left')"}}}]
- expect: ["brought"]
  output: [{reasoning: "More."}, {text: "Read."}]
- output: [{call: {name: run_code, arguments: {code: "print(open('out.txt').read(), 'again')"}}}]
- expect: ["left again", "out.txt\nleft"]
  reject: ["nothing"]
  output: [{text: "Both."}]
`)
	var form bytes.Buffer
	parts := multipart.NewWriter(&form)
	part, err := parts.CreateFormFile("file", "in.txt")
	require.NoError(t, err)
	_, err = part.Write([]byte("brought"))
	require.NoError(t, err)
	require.NoError(t, parts.Close())
	resp, said := request(t, s, "POST", "/anthropic/v1/files", &form, "Content-Type", parts.FormDataContentType())
	require.Equal(t, 200, resp.StatusCode, said)
	uploaded := decoded(t, said).ID

	c := begin(t, s, "", code())
	c.messages = nil
	c.says([]any{map[string]any{"type": "text", "text": "Read it."}, map[string]any{"type": "container_upload", "file_id": uploaded}})
	got := c.send(http.StatusOK)
	blocks := got.blocks(t)
	require.Equal(t, "brought\n", blocks[1].Content.Stdout)
	require.Len(t, blocks[1].Content.Content, 1)
	left := blocks[1].Content.Content[0].FileID
	resp, said = request(t, s, "GET", "/anthropic/v1/files/"+left+"/content", nil)
	require.Equal(t, "left", said)
	require.Equal(t, 200, resp.StatusCode)
	ben := second(t, s)
	for _, path := range []string{"/anthropic/v1/files/" + left + "/content", "/anthropic/v1/files/" + left} {
		resp, said = request(t, s, "GET", path, nil, "Authorization", "Bearer "+ben)
		require.Equal(t, 404, resp.StatusCode)
		require.Equal(t, "not_found_error", decoded(t, said).Error.Type)
	}
	resp, said = request(t, s, "GET", "/anthropic/v1/files?limit=1", nil)
	require.Equal(t, 200, resp.StatusCode)
	var list struct {
		Data     []struct{ ID, Filename string }
		NextPage string `json:"next_page"`
	}
	require.NoError(t, json.Unmarshal([]byte(said), &list))
	require.Equal(t, left, list.Data[0].ID)
	_, said = request(t, s, "GET", "/anthropic/v1/files?limit=1&page="+list.NextPage, nil)
	list.NextPage = ""
	require.NoError(t, json.Unmarshal([]byte(said), &list))
	require.Equal(t, uploaded, list.Data[0].ID)
	require.Empty(t, list.NextPage)
	_, said = request(t, s, "GET", "/anthropic/v1/files", nil, "Authorization", "Bearer "+ben)
	require.NotContains(t, said, "file_")

	c.says([]any{map[string]any{"type": "text", "text": "And the other?"}, map[string]any{"type": "document", "source": map[string]any{"type": "file", "file_id": left}}})
	got = c.send(http.StatusOK)
	require.Equal(t, "left again\n", got.blocks(t)[1].Content.Stdout)

	// Neither does another user's program work there.
	resp, said = request(t, s, "POST", path, map[string]any{
		"model": "scripted", "max_tokens": 99, "tools": []any{code()}, "container": got.Container.ID,
		"messages": []any{map[string]any{"role": "user", "content": "Read it."}},
	}, "Authorization", "Bearer "+ben)
	require.Equal(t, 404, resp.StatusCode, said)
	require.Equal(t, "container_expired", decoded(t, said).Error.Details["error_code"])

	resp, said = request(t, s, "DELETE", "/anthropic/v1/files/"+uploaded, nil)
	require.Equal(t, 200, resp.StatusCode)
	require.JSONEq(t, `{"type":"file_deleted","id":"`+uploaded+`"}`, said)
	resp, _ = request(t, s, "GET", "/anthropic/v1/files/"+uploaded, nil)
	require.Equal(t, 404, resp.StatusCode)
}

func TestTokensAndModels(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, `- output: [{text: "Hi."}]`)
	count := func(tools ...any) int64 {
		resp, said := request(t, s, "POST", path+"/count_tokens", map[string]any{"model": "scripted", "tools": tools, "messages": []any{map[string]any{"role": "user", "content": "Hello"}}})
		require.Equal(t, 200, resp.StatusCode, said)
		var got struct {
			Tokens int64 `json:"input_tokens"`
		}
		require.NoError(t, json.Unmarshal([]byte(said), &got))
		return got.Tokens
	}
	require.Greater(t, count(code()), count()+100, "what the model is told of programs counts")
	require.Empty(t, s.Model.Requests())
	_, said := request(t, s, "GET", "/anthropic/v1/models", nil)
	require.Contains(t, said, `"has_more":false,"first_id":"scripted","last_id":"scripted"`)
	resp, said := request(t, s, "GET", "/anthropic/v1/models/scripted", nil)
	require.Equal(t, 200, resp.StatusCode, said)
	resp, _ = request(t, s, "GET", "/anthropic/v1/models/none", nil)
	require.Equal(t, 404, resp.StatusCode)
	_, said = request(t, s, "GET", "/v1/models", nil, "Anthropic-Version", "2023-06-01")
	require.Contains(t, said, `"first_id":"scripted"`)
	_, said = request(t, s, "GET", "/v1/models", nil)
	require.Contains(t, said, `"object":"list"`)
}

// gathered reads a stream as the vendor's clients do.
func gathered(t *testing.T, stream string) answer {
	t.Helper()
	var a answer
	blocks := map[int]map[string]any{}
	inputs := map[int]string{}
	var order []int
	lines := bufio.NewScanner(strings.NewReader(stream))
	lines.Buffer(nil, 8<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var e struct {
			Type    string
			Index   int
			Message json.RawMessage
			Block   map[string]any `json:"content_block"`
			Delta   map[string]any
		}
		require.NoError(t, json.Unmarshal([]byte(data), &e), data)
		switch e.Type {
		case "message_start":
			require.NoError(t, json.Unmarshal(e.Message, &a))
		case "content_block_start":
			blocks[e.Index] = e.Block
			order = append(order, e.Index)
		case "content_block_delta":
			for name, value := range e.Delta {
				piece, _ := value.(string)
				switch before, _ := blocks[e.Index][name].(string); name {
				case "partial_json":
					inputs[e.Index] += piece
				case "text", "thinking", "signature":
					blocks[e.Index][name] = before + piece
				}
			}
		case "message_delta":
			raw, err := json.Marshal(e.Delta)
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(raw, &a))
		}
	}
	for _, i := range order {
		if inputs[i] != "" {
			blocks[i]["input"] = json.RawMessage(inputs[i])
		}
		a.Content = append(a.Content, json.RawMessage(text(t, blocks[i])))
	}
	return a
}
