package chat_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/agenttest"
)

// post sends a request and returns the head and the whole of its answer.
func post(t *testing.T, s *agenttest.Server, body object) (http.Header, string) {
	t.Helper()
	text, err := json.Marshal(body)
	require.NoError(t, err)
	url, key := s.Reach()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/chat/completions", bytes.NewReader(text))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s", got)
	return resp.Header, string(got)
}

// awkward is a text of about so many bytes that is easily changed on its way.
func awkward(name string, size int) string {
	piece := fmt.Sprintf("%s \t{\"a\": 1.0, \"b\": \"\\u00e9\\n\"} <&> é 🙂 \u2028\r\n", name)
	return " \n" + strings.Repeat(piece, size/len(piece)) + "\n\n "
}

// asked is a conversation in which the model called get_order itself: once, then twice at
// once, then once more.
func asked(question string, results ...string) []any {
	call := func(id string) object {
		return object{"id": id, "type": "function", "function": object{"name": "get_order", "arguments": `{"id":1}`}}
	}
	said := func(text any, calls ...any) object {
		return object{"role": "assistant", "content": text, "tool_calls": calls}
	}
	return []any{
		object{"role": "user", "content": "Begin."},
		said("I look.", call("call_a")), result(call("call_a"), results[0]),
		said(nil, call("call_b"), call("call_c")), result(call("call_b"), results[1]), result(call("call_c"), results[2]),
		object{"role": "assistant", "content": "More."},
		object{"role": "user", "content": "Go on."},
		said(nil, call("call_d")), result(call("call_d"), results[3]),
		object{"role": "assistant", "content": "Ready."},
		object{"role": "user", "content": question},
	}
}

// answered is an answer, whole or in chunks: its message, and how many outputs it says
// were left out.
func answered(t *testing.T, streams bool, text string) (message object, compacted int) {
	t.Helper()
	type piece struct {
		Choices []struct{ Message, Delta object }
		Portico struct{ Compacted int }
	}
	if !streams {
		var whole piece
		require.NoError(t, json.Unmarshal([]byte(text), &whole))
		return whole.Choices[0].Message, whole.Portico.Compacted
	}
	var said strings.Builder
	var calls []any
	frames := strings.Split(strings.TrimSpace(text), "\n\n")
	require.Equal(t, "data: [DONE]", frames[len(frames)-1])
	for _, frame := range frames[:len(frames)-1] {
		var one piece
		require.NoError(t, json.Unmarshal([]byte(strings.TrimPrefix(frame, "data: ")), &one), frame)
		words, _ := one.Choices[0].Delta["content"].(string)
		said.WriteString(words)
		more, _ := one.Choices[0].Delta["tool_calls"].([]any)
		calls = append(calls, more...)
		compacted = max(compacted, one.Portico.Compacted)
	}
	message = object{"role": "assistant", "content": said.String()}
	if calls != nil {
		message["tool_calls"] = calls
	}
	return message, compacted
}

// exchanged is a request to a model in which some texts stand for others.
func exchanged(t *testing.T, raw json.RawMessage, texts map[string]string) (body any) {
	t.Helper()
	require.NoError(t, json.Unmarshal(raw, &body))
	var walk func(v any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case string:
			if other, ok := texts[v]; ok {
				return other
			}
		case []any:
			for i := range v {
				v[i] = walk(v[i])
			}
		case object:
			for k := range v {
				v[k] = walk(v[k])
			}
		}
		return v
	}
	return walk(body)
}

// handle is what stands for a result of the model's own call that is left out.
func handle(call, text string) string {
	return fmt.Sprintf("[This output of %d bytes is left out to make room. In a program, earlier_output(%q) returns it as a text.]", len(text), call)
}

// A conversation whose results are too long for the model goes on: the oldest are left
// out, each in its place and with its id, and everything else is as it was. A program
// reads the same bytes again, beside calls of the client's, and each answer says how much
// was left out.
func TestLongConversations(t *testing.T) {
	t.Parallel()
	long := []string{awkward("first", 4500), awkward("second", 4500), "short", awkward("last", 4500)}
	left := map[string]string{long[0]: handle("call_a", long[0]), long[1]: handle("call_b", long[1])}
	for _, protocol := range []string{"responses", "chat", "messages"} {
		for _, streams := range []bool{false, true} {
			t.Run(fmt.Sprint(protocol, " ", streams), func(t *testing.T) {
				t.Parallel()
				limits := "protocol: " + protocol + ", maxOutput: 1000"
				s := agenttest.Serve(t, `
- on: "Read it."
  output: [{call: {name: run_code, arguments: {code: "import hashlib\nfor call in ['call_a', 'call_b']:\n    print(call, hashlib.sha256(earlier_output(call).encode()).hexdigest(), get_order(id=1)['total'])"}}}]
- output: [{text: "Read."}]
- on: "And now?"
  output: [{text: "The same."}]
`, agenttest.Window(t, limits+", context: 6000"))
				roomy := agenttest.Serve(t, `- output: [{text: "Whole."}]`, agenttest.Window(t, limits))
				list := asked("Read it.", long...)
				send := func() object {
					t.Helper()
					head, text := post(t, s, object{"messages": list, "tools": tools(), "stream": streams})
					require.Equal(t, "2", head.Get("X-Portico-Compacted"))
					message, compacted := answered(t, streams, text)
					require.Equal(t, 2, compacted)
					list = append(list, message)
					return message
				}
				compare := func(n int, messages []any) { // with what a model reads that has room
					t.Helper()
					head, text := post(t, roomy, object{"messages": messages, "tools": tools(), "stream": streams})
					require.Empty(t, head.Get("X-Portico-Compacted"))
					_, compacted := answered(t, streams, text)
					require.Zero(t, compacted)
					whole := roomy.Model.Requests()
					require.Equal(t, exchanged(t, whole[len(whole)-1], left), exchanged(t, s.Model.Requests()[n], nil))
				}
				begun := list
				for range 2 {
					calls := send()["tool_calls"].([]any)
					require.Len(t, calls, 1, "the client is not asked for what the server answers")
					require.Contains(t, calls[0].(object)["id"], "call_portico_")
					list = append(list, result(calls[0].(object), `{"total":10}`))
				}
				require.Equal(t, "Read.", send()["content"])
				requests := s.Model.Requests()
				require.Len(t, requests, 2)
				for i, call := range []string{"call_a", "call_b"} {
					require.Contains(t, string(requests[1]), fmt.Sprintf("%s %x 10", call, sha256.Sum256([]byte(long[i]))))
				}
				compare(0, begun)
				list = append(list, object{"role": "user", "content": "And now?"})
				require.Equal(t, "The same.", send()["content"])
				compare(2, list[:len(list)-1])
			})
		}
	}
}

// A conversation that fits is sent as it is, to the byte, and nothing says otherwise.
func TestConversationsThatFit(t *testing.T) {
	t.Parallel()
	list := asked("Go on.", awkward("first", 1500), awkward("second", 1500), "short", awkward("last", 1500))
	for _, protocol := range []string{"responses", "chat", "messages"} {
		for _, streams := range []bool{false, true} {
			t.Run(fmt.Sprint(protocol, " ", streams), func(t *testing.T) {
				t.Parallel()
				var sent []json.RawMessage
				for _, limits := range []string{", context: 6000", ""} {
					s := agenttest.Serve(t, `- output: [{text: "Done."}]`, agenttest.Window(t, "protocol: "+protocol+", maxOutput: 1000"+limits))
					head, text := post(t, s, object{"messages": list, "tools": tools(), "stream": streams})
					require.Empty(t, head.Values("X-Portico-Compacted"))
					require.NotContains(t, text, "compacted")
					sent = append(sent, s.Model.Requests()...)
				}
				require.Len(t, sent, 2)
				require.Equal(t, string(sent[1]), string(sent[0]))
				if protocol != "chat" {
					return
				}
				var got struct{ Messages []any }
				require.NoError(t, json.Unmarshal(sent[0], &got))
				want, err := json.Marshal(list)
				require.NoError(t, err)
				have, err := json.Marshal(got.Messages[1:]) // after the instructions
				require.NoError(t, err)
				require.JSONEq(t, string(want), string(have), "as the client sent it")
			})
		}
	}
}

// What programs print is left out, too, while the client does not see them: the answer
// says so at its end.
func TestLongOutputsOfPrograms(t *testing.T) {
	t.Parallel()
	for _, streams := range []bool{false, true} {
		s := agenttest.Serve(t, `
- output: [{call: {name: run_code, arguments: {code: "print('a' * 4000)"}}}]
- expect: ['earlier_output("call_scripted_0_0") returns it as a text.]']
  reject: ["aaaaaa"]
  output: [{call: {name: run_code, arguments: {code: "text = earlier_output(\"call_scripted_0_0\")\nprint(text == 'a' * 4000 + '\\n')"}}}]
- expect: ["True"]
  output: [{text: "Read."}]
`, agenttest.Window(t, "context: 6000"))
		head, text := post(t, s, object{"messages": []any{object{"role": "user", "content": strings.Repeat("word ", 900)}}, "tools": tools(), "max_tokens": 3000, "stream": streams})
		require.Equal(t, map[bool]string{true: "", false: "1"}[streams], head.Get("X-Portico-Compacted"), "the head of a stream is for what its request brought")
		message, compacted := answered(t, streams, text)
		require.Equal(t, "Read.", message["content"])
		require.Equal(t, 1, compacted)
	}
	s := agenttest.Serve(t, `- output: [{text: "Never."}]`, agenttest.Window(t, "context: 6000"))
	g := ask(t, s, 400, object{"messages": []any{object{"role": "user", "content": strings.Repeat("word ", 9000)}}, "tools": tools()})
	require.Equal(t, "context_length_exceeded", g.Error.Code)
	require.Contains(t, g.Error.Message, "> 6000 maximum")
}
