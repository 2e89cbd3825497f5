package chat_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/agenttest"
)

type object = map[string]any

// got is a completion, or an error.
type got struct {
	Object, Model string
	Choices       []struct {
		Message object
		Delta   object
		Finish  *string `json:"finish_reason"`
	}
	Usage *struct {
		Prompt int64 `json:"prompt_tokens"`
		Total  int64 `json:"total_tokens"`
	}
	Error struct{ Message, Type, Param, Code string }
}

func (g got) calls() (list []object) {
	for _, c := range g.Choices[0].Message["tool_calls"].([]any) {
		list = append(list, c.(object))
	}
	return list
}

func ask(t *testing.T, s *agenttest.Server, want int, body object) got {
	t.Helper()
	status, text := s.Send(http.MethodPost, "/v1/chat/completions", body)
	require.Equal(t, want, status, text)
	var g got
	require.NoError(t, json.Unmarshal([]byte(text), &g), text)
	return g
}

// chunks are those of a stream, which ends with [DONE].
func chunks(t *testing.T, s *agenttest.Server, body object) (list []got) {
	t.Helper()
	body["stream"] = true
	status, text := s.Send(http.MethodPost, "/v1/chat/completions", body)
	require.Equal(t, 200, status, text)
	frames := strings.Split(strings.TrimSpace(text), "\n\n")
	for _, frame := range frames[:len(frames)-1] {
		var g got
		require.NoError(t, json.Unmarshal([]byte(strings.TrimPrefix(frame, "data: ")), &g), frame)
		list = append(list, g)
	}
	require.Equal(t, "data: [DONE]", frames[len(frames)-1])
	return list
}

func function(name, schema string) object {
	return object{"type": "function", "function": object{"name": name, "description": "It is " + name + ".", "parameters": json.RawMessage(schema)}}
}

func tools() []object {
	return []object{
		function("run_code", `{"type":"object","properties":{"code":{"type":"string"}}}`),
		function("get_order", `{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}`),
	}
}

func result(call object, text string) object {
	return object{"role": "tool", "tool_call_id": call["id"], "content": text}
}

// Every protocol of models answers in the one form.
func TestPlainProxy(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"responses", "chat", "messages"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			s := agenttest.Serve(t, `
- expect: ["Be brief.", "Weather?"]
  output:
    - text: "Looking."
    - call: {name: weather, arguments: {city: Oslo}}
- expect: ["Looking.", "rain"]
  output: [{text: "It rains."}]
- on: "Thanks"
  expect: ["It rains.", "iVBORw0KGgo"]
  output: [{text: "Bye."}]
`, "MODEL_PROTOCOL="+protocol)
			messages := []any{object{"role": "system", "content": "Be brief."}, object{"role": "user", "content": []object{{"type": "text", "text": "Weather?"}}}}
			offered := []object{function("weather", `{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`)}
			g := ask(t, s, 200, object{"model": "scripted", "messages": messages, "tools": offered, "max_tokens": 100})
			require.Equal(t, "chat.completion", g.Object)
			require.Equal(t, "tool_calls", *g.Choices[0].Finish)
			require.Equal(t, "Looking.", g.Choices[0].Message["content"])
			require.Positive(t, g.Usage.Prompt)
			call := g.calls()[0]
			require.JSONEq(t, `{"city":"Oslo"}`, call["function"].(object)["arguments"].(string))
			messages = append(messages, g.Choices[0].Message, result(call, "rain"))

			list := chunks(t, s, object{"messages": messages, "tools": offered, "stream_options": object{"include_usage": true}})
			var said strings.Builder
			for _, c := range list {
				require.Equal(t, "chat.completion.chunk", c.Object)
				if len(c.Choices) > 0 {
					text, _ := c.Choices[0].Delta["content"].(string)
					said.WriteString(text)
				}
			}
			require.Equal(t, "It rains.", said.String())
			require.Equal(t, "stop", *list[len(list)-2].Choices[0].Finish)
			require.Positive(t, list[len(list)-1].Usage.Total)
			messages = []any{
				object{"role": "developer", "content": "Be brief."},
				object{"role": "user", "content": []object{{"type": "image_url", "image_url": object{"url": "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="}}}},
				object{"role": "assistant", "content": "It rains."},
				object{"role": "user", "content": "Thanks"},
			}
			g = ask(t, s, 200, object{"messages": messages, "tools": offered})
			require.Equal(t, "Bye.", g.Choices[0].Message["content"])
		})
	}
}

// With run_code the server executes programs: docs/openai.md#programs-in-chat-completions.
func TestProgramsBehindAFunction(t *testing.T) {
	t.Parallel()
	for _, streams := range []bool{false, true} {
		s := agenttest.Serve(t, `
- expect: ["get_order(id: int)", "Sum?"]
  output:
    - text: "I add."
    - call: {name: run_code, arguments: {code: "a, b = await asyncio.gather(get_order(id=1), get_order(id=2))\nprint(a['total'] + b['total'])\nprint(get_order(id=3))"}}
- expect: ["42\nthree"]
  output: [{call: {name: get_order, arguments: {id: 4}}}]
- expect: ["42\nthree", "four"]
  output: [{text: "Done."}]
- on: "Thanks"
  expect: ["I add.", "Done."]
  reject: ["call_portico", "asyncio.gather(get_order"]
  output: [{text: "Bye."}]
`)
		messages := []any{object{"role": "user", "content": "Sum?"}}
		send := func() (string, []object, string) {
			t.Helper()
			body := object{"messages": messages, "tools": tools()}
			if !streams {
				g := ask(t, s, 200, body)
				messages = append(messages, g.Choices[0].Message)
				text, _ := g.Choices[0].Message["content"].(string)
				if g.Choices[0].Message["tool_calls"] == nil {
					return text, nil, *g.Choices[0].Finish
				}
				return text, g.calls(), *g.Choices[0].Finish
			}
			var text strings.Builder
			var calls []object
			list := chunks(t, s, body)
			for _, c := range list {
				piece, _ := c.Choices[0].Delta["content"].(string)
				text.WriteString(piece)
				more, _ := c.Choices[0].Delta["tool_calls"].([]any)
				for _, one := range more {
					require.InDelta(t, len(calls), one.(object)["index"], 0)
					calls = append(calls, one.(object))
				}
			}
			said := object{"role": "assistant", "content": text.String()}
			if calls != nil {
				said["tool_calls"] = calls
			}
			messages = append(messages, said)
			return text.String(), calls, *list[len(list)-1].Choices[0].Finish
		}
		text, calls, finish := send()
		require.Equal(t, "I add.", text)
		require.Equal(t, "tool_calls", finish)
		require.Len(t, calls, 2)
		for _, c := range calls {
			require.Regexp(t, `^call_portico_[\w-]+$`, c["id"])
			require.Equal(t, "get_order", c["function"].(object)["name"])
		}
		messages = append(messages, result(calls[0], `{"total":10}`), result(calls[1], `{"total":32}`))
		_, calls, _ = send()
		messages = append(messages, result(calls[0], "three"))
		_, calls, finish = send()
		require.Equal(t, "tool_calls", finish)
		require.NotContains(t, calls[0]["id"], "portico", "the model's own call")
		messages = append(messages, result(calls[0], "four"))
		text, _, finish = send()
		require.Equal(t, "Done.", text)
		require.Equal(t, "stop", finish)
		messages = append(messages[:len(messages)-3], messages[len(messages)-1], object{"role": "user", "content": "Thanks"}) // without the direct call: the script would take it up
		text, _, _ = send()
		require.Equal(t, "Bye.", text)
	}
}

// Results of a program that is gone do not make the model begin anew unseen.
func TestResultsOfAProgramThatIsGone(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, `
- output: [{text: "Never."}]
`)
	call := object{"id": "call_portico_pAAAA", "type": "function", "function": object{"name": "get_order", "arguments": "{}"}}
	g := ask(t, s, 404, object{"tools": tools(), "messages": []any{object{"role": "user", "content": "Sum?"}, object{"role": "assistant", "tool_calls": []any{call}}, result(call, "1")}})
	require.Contains(t, g.Error.Message, "Nothing waits for the results of these calls.")
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, `
- output: [{text: "Never."}]
`)
	user := []any{object{"role": "user", "content": "Hi"}}
	call := object{"id": "call_1", "type": "function", "function": object{"name": "f", "arguments": "{}"}}
	for param, body := range map[string]object{
		"n":                            {"messages": user, "n": 2},
		"logprobs":                     {"messages": user, "logprobs": true},
		"functions":                    {"messages": user, "functions": []any{}},
		"modalities":                   {"messages": user, "modalities": []string{"audio"}},
		"temperature":                  {"messages": user, "temperature": 3},
		"stop":                         {"messages": user, "stop": []string{"a", "b", "c", "d", "e"}},
		"stream_options":               {"messages": user, "stream_options": object{"include_usage": true}},
		"model":                        {"messages": user, "model": "other"},
		"portico":                      {"messages": user, "portico": object{"approval": "always"}},
		"messages":                     {"messages": []any{user[0], object{"role": "assistant", "tool_calls": []any{call}}}},
		"messages[0].role":             {"messages": []any{object{"role": "wizard", "content": "Hi"}}},
		"tools[0].type":                {"messages": user, "tools": []any{object{"type": "custom", "custom": object{"name": "f"}}}},
		"tool_choice":                  {"messages": user, "tool_choice": object{"type": "function", "function": object{"name": "f"}}},
		"response_format.json_schema":  {"messages": user, "response_format": object{"type": "json_schema"}},
		"tools[0].function.name":       {"messages": user, "tools": []any{function("a b", `{"type":"object"}`)}},
		"tools[0].function.parameters": {"messages": user, "tools": []any{function("f", `{"type":"string"}`)}},
		"messages[0].content[0].type":  {"messages": []any{object{"role": "user", "content": []any{object{"type": "input_audio"}}}}},
		"messages[1].tool_call_id":     {"messages": []any{user[0], object{"role": "tool", "tool_call_id": "x", "content": "1"}}},
	} {
		want := 400
		if param == "model" {
			want = 404
		}
		g := ask(t, s, want, body)
		require.Equal(t, param, g.Error.Param, g.Error.Message)
		require.Equal(t, "invalid_request_error", g.Error.Type)
	}
}

// A function is held to its schema where the client asks for that, and not otherwise.
func TestStrictFunctions(t *testing.T) {
	t.Parallel()
	for _, strict := range []bool{true, false} {
		s := agenttest.Serve(t, `- output: [{text: "Hi."}]`)
		schema := object{"type": "object", "properties": object{"a": object{"type": "string"}}}
		ask(t, s, 200, object{"model": "scripted", "messages": []object{{"role": "user", "content": "Hello"}}, "tools": []object{
			{"type": "function", "function": object{"name": "f", "description": "F.", "parameters": schema, "strict": strict}},
		}})
		var asked struct{ Tools []object }
		require.NoError(t, json.Unmarshal(s.Model.Requests()[0], &asked))
		require.Equal(t, strict, asked.Tools[0]["strict"])
		require.Equal(t, strict, asked.Tools[0]["parameters"].(object)["required"] != nil)
	}
}
