package anthropic_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/agenttest"
)

const path = "/v1/messages"

// answer is a message, as far as tests look at it.
type answer struct {
	ID, Type, Role, Model string
	StopReason            string `json:"stop_reason"`
	Container             *struct {
		ID        string
		ExpiresAt string `json:"expires_at"`
	}
	Content []json.RawMessage
	Usage   struct {
		Input  int64 `json:"input_tokens"`
		Output int64 `json:"output_tokens"`
	}
	Error struct {
		Type, Message string
		Details       map[string]any
	}
	RequestID string `json:"request_id"`
}

// block is one of a message's, as far as tests look at it.
type block struct {
	Type, ID, Name, Text string
	Input                json.RawMessage
	Caller               struct {
		Type   string
		ToolID string `json:"tool_id"`
	}
	ToolUseID string `json:"tool_use_id"`
	Content   struct {
		Type, Stdout, Stderr string
		ErrorCode            string `json:"error_code"`
		ReturnCode           int    `json:"return_code"`
		Content              []struct {
			FileID string `json:"file_id"`
		}
	}
}

func (a answer) blocks(t *testing.T) []block {
	t.Helper()
	list := make([]block, len(a.Content))
	for i, raw := range a.Content {
		require.NoError(t, json.Unmarshal(raw, &list[i]), string(raw))
	}
	return list
}

// talk is a conversation as a client of the vendor's keeps it.
type talk struct {
	t *testing.T
	s *agenttest.Server

	tools    []any
	messages []any
	more     map[string]any
	stream   bool
}

func (c *talk) says(content any) {
	c.messages = append(c.messages, map[string]any{"role": "user", "content": content})
}

// send sends the conversation and keeps the answer.
func (c *talk) send(want int) answer {
	c.t.Helper()
	body := map[string]any{"model": "scripted", "max_tokens": 1024, "messages": c.messages, "tools": c.tools}
	maps.Copy(body, c.more)
	body["stream"] = c.stream
	status, text := c.s.Send(http.MethodPost, path, body)
	require.Equal(c.t, want, status, text)
	var a answer
	if c.stream {
		a = gathered(c.t, text)
	} else {
		a = decoded(c.t, text)
	}
	if status == http.StatusOK {
		c.messages = append(c.messages, map[string]any{"role": "assistant", "content": a.Content})
		if a.Container != nil {
			c.more["container"] = a.Container.ID
		}
	}
	return a
}

func begin(t *testing.T, s *agenttest.Server, text string, tools ...any) *talk {
	t.Helper()
	c := &talk{t: t, s: s, tools: tools, more: map[string]any{}}
	c.says(text)
	return c
}

// order is a tool of the client's.
func order(callers ...string) map[string]any {
	return map[string]any{
		"name": "get_order", "description": "One order.", "allowed_callers": callers,
		"input_schema": map[string]any{"type": "object", "properties": map[string]any{"id": map[string]any{"type": "integer"}}, "required": []string{"id"}},
	}
}

func code() map[string]any {
	return map[string]any{"type": "code_execution_20260521", "name": "code_execution"}
}

func result(id, text string) map[string]any {
	return map[string]any{"type": "tool_result", "tool_use_id": id, "content": text}
}

func TestAnswersInTheVendorsForm(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, `
- expect: ["Hello"]
  output: [{text: "Hi."}]
`)
	c := begin(t, s, "Hello")
	got := c.send(http.StatusOK)
	require.Equal(t, "end_turn", got.StopReason)
	require.Nil(t, got.Container)
	require.Equal(t, "Hi.", got.blocks(t)[0].Text)
	require.JSONEq(t, `{"type":"text","text":"Hi.","citations":null}`, string(got.Content[0]))
	require.Positive(t, got.Usage.Input)
}

// A program calls a tool of the client's twice at once, and once more; the next question
// gets the whole conversation.
func TestAProgramCallsTheClientsTools(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, `
- expect: ["get_order(id: int)", "Total of orders 1 and 2?"]
  output:
    - text: "Let me add them."
    - call: {name: run_code, arguments: {code: "a, b = await asyncio.gather(get_order(id=1), get_order(id=2))\nprint(a['total'] + b['total'])\ntry:\n    get_order(id=3)\nexcept ToolExecutionError as e:\n    print(e)\nopen('sum.txt', 'w').write('42')"}}
- expect: ["42\nnot found"]
  output: [{reasoning: "Done."}, {text: "42."}]
- expect: ["Total of orders 1 and 2?", "run_code", "42\nnot found", "Files: sum.txt", "encrypted_content", "Thanks"]
  output: [{text: "You are welcome."}]
`)
	c := begin(t, s, "Total of orders 1 and 2?", code(), order("code_execution_20260521"))
	got := c.send(http.StatusOK)
	require.Equal(t, "tool_use", got.StopReason)
	blocks := got.blocks(t)
	require.Len(t, blocks, 4)
	require.Equal(t, "text", blocks[0].Type)
	program := blocks[1]
	require.Equal(t, []string{"server_tool_use", "code_execution", "direct"}, []string{program.Type, program.Name, program.Caller.Type})
	require.Contains(t, program.ID, "srvtoolu_")
	for i, b := range blocks[2:] {
		require.Equal(t, []string{"tool_use", "get_order", "code_execution_20260120", program.ID}, []string{b.Type, b.Name, b.Caller.Type, b.Caller.ToolID})
		require.JSONEq(t, []string{`{"id":1}`, `{"id":2}`}[i], string(b.Input))
	}
	require.Contains(t, got.Container.ID, "container_")

	c.says([]any{result(blocks[2].ID, `{"total":10}`), result(blocks[3].ID, `{"total":32}`)})
	got = c.send(http.StatusOK)
	require.Equal(t, "tool_use", got.StopReason)
	require.Zero(t, got.Usage)
	blocks = got.blocks(t)
	require.Len(t, blocks, 1)
	require.Equal(t, program.ID, blocks[0].Caller.ToolID)

	failed := result(blocks[0].ID, "not found")
	failed["is_error"] = true
	c.says([]any{failed})
	got = c.send(http.StatusOK)
	require.Equal(t, "end_turn", got.StopReason)
	blocks = got.blocks(t)
	require.Equal(t, "code_execution_tool_result", blocks[0].Type)
	require.Equal(t, program.ID, blocks[0].ToolUseID)
	require.Equal(t, "code_execution_result", blocks[0].Content.Type)
	require.Contains(t, blocks[0].Content.Stdout, "42\n")
	require.Len(t, blocks[0].Content.Content, 1)
	require.Equal(t, "thinking", blocks[1].Type)
	require.Equal(t, "42.", blocks[2].Text)

	c.says("Thanks")
	got = c.send(http.StatusOK)
	require.Equal(t, "You are welcome.", got.blocks(t)[0].Text)
}

// A path that there is not is refused in the vendor's form, too.
func TestUnknownPaths(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, "")
	status, text := s.Send(http.MethodGet, "/anthropic/v1/none", nil)
	got := decoded(t, text)
	require.Equal(t, http.StatusNotFound, status)
	require.Equal(t, "not_found_error", got.Error.Type)
	require.NotEmpty(t, got.RequestID)
}
