package responses_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/agenttest"
)

var update = flag.Bool("update", false, "write the golden files")

// read are the events of a stream. Their numbers have no gaps.
func read(t *testing.T, stream string) (list []object) {
	t.Helper()
	for frame := range strings.SplitSeq(strings.TrimSpace(stream), "\n\n") {
		if strings.HasPrefix(frame, ":") {
			continue
		}
		name, data, ok := strings.Cut(frame, "\ndata: ")
		require.True(t, ok, frame)
		var e object
		require.NoError(t, json.Unmarshal([]byte(data), &e))
		require.Equal(t, "event: "+e["type"].(string), name)
		require.InDelta(t, len(list), e["sequence_number"], 0)
		list = append(list, e)
	}
	return list
}

// streamed sends a request whose answer is a stream.
func streamed(t *testing.T, s *agenttest.Server, body object) []object {
	t.Helper()
	body["stream"] = true
	status, text := s.Send(http.MethodPost, "/v1/responses", body)
	require.Equal(t, 200, status, text)
	return read(t, text)
}

// followed is what a client has that follows the events, as the vendor's do.
func followed(t *testing.T, events []object) (output []any) {
	t.Helper()
	texts := map[string]string{}
	for _, e := range events {
		id, _ := e["item_id"].(string)
		switch e["type"] {
		case "response.output_item.added":
			require.InDelta(t, len(output), e["output_index"], 0)
			output = append(output, e["item"])
		case "response.output_text.delta", "response.reasoning_summary_text.delta", "response.function_call_arguments.delta":
			texts[id] += e["delta"].(string)
		case "response.output_text.done", "response.reasoning_summary_text.done":
			require.Equal(t, e["text"], texts[id])
		case "response.function_call_arguments.done":
			require.Equal(t, e["arguments"], texts[id])
		case "response.output_item.done":
			output[int(e["output_index"].(float64))] = e["item"]
		}
	}
	return output
}

// written is a stream without what differs each time.
func written(t *testing.T, events []object) string {
	t.Helper()
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	for _, e := range events {
		require.NoError(t, encoder.Encode(e))
	}
	text := out.String()
	for pattern, with := range map[string]string{
		`[0-9a-f]{32}`: "ID", `"created_at":\d+`: `"created_at":0`, `"completed_at":\d+`: `"completed_at":0`,
		`"fingerprint":"[^"]+"`: `"fingerprint":"F"`, `portico1\.[\w-]+`: "TOKEN", `call_p[\w-]{24}`: "call_P",
	} {
		text = regexp.MustCompile(pattern).ReplaceAllString(text, with)
	}
	return text
}

func golden(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.True(t, string(want) == text, "%s: run go test ./modules/agent/openai/responses -run TestStreams -update and review the difference", name)
}

func TestStreams(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"responses", "chat", "messages"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			s := agenttest.Serve(t, `
- output:
    - reasoning: "I add them."
    - text: "Let me add them."
    - call: {name: run_code, arguments: {code: "print(get_order(id=1)['total'] + 32)"}}
  usage: {input: 100, output: 20}
- expect: ["42"]
  output: [{text: "It is 42."}]
  usage: {input: 200, output: 10}
`, "MODEL_PROTOCOL="+protocol, "MODEL_INPUT_PRICE=1000", "MODEL_OUTPUT_PRICE=1000")
			tools := []object{{"type": "programmatic_tool_calling"}, order()}
			events := streamed(t, s, object{"input": "Sum?", "tools": tools})
			last := events[len(events)-1]
			require.Equal(t, "response.completed", last["type"])
			response := last["response"].(object)
			require.Equal(t, response["output"], followed(t, events))
			all := written(t, events)
			output := response["output"].([]any)
			call := output[len(output)-1].(object)

			events = streamed(t, s, object{"previous_response_id": response["id"], "tools": tools, "input": []any{outputOf(call, `{"total":10}`)}})
			last = events[len(events)-1]
			require.Equal(t, last["response"].(object)["output"], followed(t, events))
			golden(t, fmt.Sprintf("stream-%s.jsonl", protocol), all+written(t, events))

			status, text := s.Send(http.MethodGet, "/v1/responses/"+last["response"].(object)["id"].(string), nil)
			require.Equal(t, 200, status)
			var kept object
			require.NoError(t, json.Unmarshal([]byte(text), &kept))
			require.Equal(t, last["response"], kept, "what is stored is what the client got")
		})
	}
}

// An answer that breaks off comes again; what was shown of it stays, marked.
func TestAStreamWhoseAnswerComesAgain(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, `
- break: 1
  output: [{text: "One two three four five six seven eight nine ten."}]
- expect: ["again"]
  output: [{text: "Bye."}]
`, "MODEL_RETRIES=2")
	events := streamed(t, s, object{"input": "Count", "store": false})
	output := followed(t, events)
	require.Equal(t, events[len(events)-1]["response"].(object)["output"], output)
	require.Len(t, output, 2)
	require.Equal(t, "incomplete", output[0].(object)["status"])
	require.Equal(t, "completed", output[1].(object)["status"])
	require.Contains(t, output[1].(object)["content"].([]any)[0].(object)["text"], "nine ten.")
}

// What fails after the stream has begun is its last event.
func TestAStreamThatFails(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, `
- fail: [{status: 400, code: bad, message: "The prompt is odd."}]
  output: [{text: "Never."}]
`)
	events := streamed(t, s, object{"input": "Hello"})
	last := events[len(events)-1]
	require.Equal(t, "response.failed", last["type"])
	failed := last["response"].(object)["error"].(object)
	require.Equal(t, "invalid_prompt", failed["code"])
	require.Contains(t, failed["message"], "The prompt is odd.")
}
