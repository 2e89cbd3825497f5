package loop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/scripted"
	"github.com/portico-run/portico/modules/agent/loop"
	"github.com/portico-run/portico/modules/model"
)

// recorder is an observer that remembers.
type recorder struct {
	mu     sync.Mutex
	text   strings.Builder
	events []string
	broken error // what Answered returns
}

func (r *recorder) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, fmt.Sprintf(format, args...))
}

func (r *recorder) Delta(d model.Delta) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch d.Kind {
	case model.Text:
		r.text.WriteString(d.Text)
	case model.Restart:
		r.text.Reset()
	}
}

func (r *recorder) Answered(_ context.Context, m model.Response) error {
	r.note("answer %s", m.Model)
	return r.broken
}

func (r *recorder) Called(_ context.Context, c loop.Call) { r.note("call %s %s", c.Name, c.Arguments) }

func (r *recorder) Returned(_ context.Context, c loop.Call, _ string, err error) {
	r.note("return %s %v", c.Name, err)
}

// setting is a loop with a scripted model behind the official client.
type setting struct {
	*loop.Loop
	server   *scripted.Server
	recorder *recorder
	log      *strings.Builder
}

const noSchema = `{"type":"object","properties":{},"required":[],"additionalProperties":false}`

func set(t *testing.T, script string, tools ...loop.Tool) setting {
	t.Helper()
	parsed, err := scripted.Parse([]byte("name: test\nturns:\n" + script))
	require.NoError(t, err)
	server := scripted.New(parsed)
	web := httptest.NewServer(server)
	t.Cleanup(web.Close)
	log := &strings.Builder{}
	client := model.New(model.Config{
		BaseURL: web.URL + "/v1", APIKey: "sk-secret-key", Model: "any", Retries: 2, Timeout: 10 * time.Second,
		Headers: map[string]string{"X-Secret": "header-secret"}, Logger: slog.New(slog.NewTextHandler(log, nil)), LogOutput: true,
	})
	list, err := loop.NewTools(new(model.Client), tools...)
	require.NoError(t, err)
	r := &recorder{}
	return setting{&loop.Loop{Model: client, System: "You are a test.", Tools: list, Observer: r}, server, r, log}
}

func tool(name string, run func(ctx context.Context, c loop.Call) (string, error)) loop.Tool {
	return loop.Tool{Name: name, Description: "Does it.", Schema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`), Run: run}
}

func echo(_ context.Context, c loop.Call) (string, error) { return "got " + string(c.Arguments), nil }

// sent is the input of one request.
func (s setting) sent(t *testing.T, n int) []map[string]any {
	t.Helper()
	requests := s.server.Requests()
	require.Greater(t, len(requests), n)
	var body struct{ Input []map[string]any }
	require.NoError(t, json.Unmarshal(requests[n], &body))
	return body.Input
}

func kinds(items []map[string]any) []string {
	var list []string
	for _, it := range items {
		kind := fmt.Sprint(it["type"])
		if it["role"] != nil {
			kind = fmt.Sprint(it["role"])
		}
		list = append(list, kind)
	}
	return list
}

// A2, A4, A7: text blocks in order, one user message, the answer in the
// history; the model is labelled as scripted.
func TestMessageOnly(t *testing.T) {
	t.Parallel()
	s := set(t, `
- output: [{text: "Hello "}, {text: "there."}]
- output: [{text: "Again."}]
`)
	o, err := s.Turn(t.Context(), nil, "Hi")
	require.NoError(t, err)
	require.Equal(t, "Hello there.", o.Text)
	require.Equal(t, "Hello there.", s.recorder.text.String())
	require.Equal(t, "scripted:test", o.Model)
	require.Len(t, o.History, 3)
	o, err = s.Turn(t.Context(), o.History, "And?")
	require.NoError(t, err)
	require.Equal(t, "Again.", o.Text)
	// A1: the prompt comes first each time and is in no history.
	require.Equal(t, []string{"system", "user"}, kinds(s.sent(t, 0)))
	require.Equal(t, []string{"system", "user", "assistant", "assistant", "user"}, kinds(s.sent(t, 1)))
	for _, item := range o.History {
		require.NotContains(t, string(item), "You are a test.")
	}
}

// A3, A6: calls and outputs go back in order, with items nobody knows and
// reasoning unchanged.
func TestCallsAndUnknownItems(t *testing.T) {
	t.Parallel()
	s := set(t, `
- output:
    - reasoning: "I should look."
    - item: {type: tool_search_call, status: completed, odd: {deep: [1, 2.50, null]}}
    - call: {name: echo, arguments: {n: 5}}
- expect: ["got {\"n\":5}", "I should look.", "tool_search_call"]
  output: [{text: "Five."}]
`, tool("echo", echo))
	o, err := s.Turn(t.Context(), nil, "Look")
	require.NoError(t, err)
	require.Equal(t, "Five.", o.Text)
	require.Equal(t, 2, o.Requests)
	require.Equal(t, 1, o.Calls)
	require.Positive(t, o.Usage.Total())
	sent := s.sent(t, 1)
	require.Equal(t, []string{"system", "user", "reasoning", "tool_search_call", "function_call", "function_call_output"}, kinds(sent))
	require.Equal(t, map[string]any{"deep": []any{1.0, 2.5, nil}}, sent[3]["odd"])
	require.Equal(t, "scripted", sent[2]["encrypted_content"])
	require.Equal(t, sent[4]["call_id"], sent[5]["call_id"])
	var body map[string]any
	require.NoError(t, json.Unmarshal(s.server.Requests()[0], &body))
	require.Equal(t, false, body["store"])
	require.Equal(t, true, body["parallel_tool_calls"])
	require.Equal(t, "auto", body["tool_choice"])
	// A20: attempts and outputs are in the log, secrets are not.
	require.Contains(t, s.log.String(), "model attempt")
	require.Contains(t, s.log.String(), "tool_search_call")
	require.NotContains(t, s.log.String(), "secret")
}

// A5: an answer without anything is an error, not a loop.
func TestEmptyAnswers(t *testing.T) {
	t.Parallel()
	for name, output := range map[string]string{"nothing": "[]", "no words": "[{reasoning: hm}]"} {
		s := set(t, "- output: "+output)
		o, err := s.Turn(t.Context(), nil, "Hi")
		require.ErrorIs(t, err, loop.ErrEmpty, name)
		require.Equal(t, 1, o.Requests)
	}
	s := set(t, "- output: [{text: 'Half of'}]\n  incomplete: max_output_tokens")
	_, err := s.Turn(t.Context(), nil, "Hi")
	require.ErrorIs(t, err, loop.ErrCut)
	require.ErrorContains(t, err, "max_output_tokens")
}

// A11: calls of one answer run at once, and all outputs go back together,
// whatever the order in which they came.
func TestParallelCalls(t *testing.T) {
	t.Parallel()
	var together, most atomic.Int64
	all := make(chan struct{})
	slow := func(ctx context.Context, c loop.Call) (string, error) {
		if n := together.Add(1); n == 3 {
			close(all)
		}
		most.Store(max(most.Load(), together.Load()))
		select {
		case <-all: // none ends before all have begun
			return "done " + string(c.Arguments), nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	s := set(t, `
- output: [{call: {name: slow, arguments: {n: 1}}}, {call: {name: slow, arguments: {n: 2}}}, {call: {name: slow, arguments: {n: 3}}}]
- expect: ["done {\"n\":1}", "done {\"n\":2}", "done {\"n\":3}"]
  output: [{text: ok}]
`, tool("slow", slow))
	o, err := s.Turn(t.Context(), nil, "Go")
	require.NoError(t, err)
	require.Equal(t, "ok", o.Text)
	require.Equal(t, int64(3), most.Load())
	require.Equal(t, []string{
		"system", "user", "function_call", "function_call", "function_call",
		"function_call_output", "function_call_output", "function_call_output",
	}, kinds(s.sent(t, 1)))
}

// A12, A13: a tool that fails or panics costs only itself; tools that conflict
// do not overlap.
func TestFailuresStayAlone(t *testing.T) {
	t.Parallel()
	var inside, overlaps atomic.Int64
	var order []string // of serial calls; only one runs at a time
	serial := tool("serial", func(_ context.Context, c loop.Call) (string, error) {
		order = append(order, string(c.Arguments))
		if inside.Add(1) > 1 {
			overlaps.Add(1)
		}
		defer inside.Add(-1)
		return "alone", nil
	})
	serial.Serial = true
	s := set(t, `
- output: [{call: {name: fails}}, {call: {name: panics}}, {call: {name: serial}}, {call: {name: serial, arguments: {n: 2}}}, {call: {name: nothing}}]
- expect: ["Error: it is broken\npartial", "Error: the tool failed inside", "alone", "there is no tool \"nothing\". The tools are: fails, panics, serial."]
  reject: ["secret of the panic"]
  output: [{text: "Recovered."}]
`, tool("fails", func(context.Context, loop.Call) (string, error) { return "partial", errors.New("it is broken") }),
		tool("panics", func(context.Context, loop.Call) (string, error) { panic("secret of the panic") }), serial)
	o, err := s.Turn(t.Context(), nil, "Go")
	require.NoError(t, err)
	require.Equal(t, "Recovered.", o.Text)
	require.Zero(t, overlaps.Load())
	require.Equal(t, []string{"{}", `{"n":2}`}, order)
}

// A9: arguments that are wrong are explained, and nothing is executed.
func TestWrongArguments(t *testing.T) {
	t.Parallel()
	executed := false
	s := set(t, `
- output: [{call: {name: count, raw: '{"n": '}}, {call: {name: count, raw: '[1]'}}, {call: {name: count, raw: '{"n":"five"}'}}, {call: {name: count, raw: 'null'}}]
- expect: ["are not valid JSON", "must be a JSON object", "do not fit: n: "]
  output: [{text: "Sorry."}]
`, tool("count", func(context.Context, loop.Call) (string, error) { executed = true; return "", nil }))
	o, err := s.Turn(t.Context(), nil, "Go")
	require.NoError(t, err)
	require.Equal(t, "Sorry.", o.Text)
	require.False(t, executed)
}

// A tool that checks its arguments itself gets those that do not fit, too. What it
// refuses is told and recorded as the model wrote it, as what the loop refuses.
func TestToolsThatCheckTheirArguments(t *testing.T) {
	t.Parallel()
	checks := tool("count", func(_ context.Context, c loop.Call) (string, error) {
		if string(c.Arguments) == `{"n":5}` {
			return "five", nil
		}
		return "", loop.Refusal{Kind: loop.WrongArguments, Reason: fmt.Sprintf("not executed: %d bytes", len(c.Arguments))}
	})
	checks.Checks = true
	s := set(t, `
- output: [{call: {name: count, raw: '{"n": "five"}'}}, {call: {name: count, raw: '{"n":'}}, {call: {name: count, raw: '{"n": 5}'}}]
- expect: ["Error: not executed: 12 bytes", "are not valid JSON", "five"]
  output: [{text: "Sorry."}]
`, checks)
	var mu sync.Mutex
	refused := map[string]loop.RefusalKind{}
	s.Refused = func(_ context.Context, c loop.Call, r loop.Refusal) {
		mu.Lock()
		defer mu.Unlock()
		refused[string(c.Arguments)] = r.Kind
	}
	_, err := s.Turn(t.Context(), nil, "Go")
	require.NoError(t, err)
	require.Equal(t, map[string]loop.RefusalKind{`{"n": "five"}`: loop.WrongArguments, `"{\"n\":"`: loop.WrongArguments}, refused)
}

// A10: ten thousand random texts as arguments; none is a panic, and what a tool
// gets is always an object that its schema takes.
func TestRandomArguments(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2)) // the same texts each time
	pieces := []string{`{`, `}`, `[`, `]`, `"`, `:`, `,`, `n`, `"n"`, `1`, `-`, `1e9`, `null`, `true`, `\u00`, `\`, "\x00", "\xff", `ä`, ` `, "\n", `{"n":1}`, `{"n":null}`, `1.5`, `99999999999999999999`}
	var bad atomic.Int64
	run := func(_ context.Context, c loop.Call) (string, error) {
		var v map[string]any
		if json.Unmarshal(c.Arguments, &v) != nil || v == nil {
			bad.Add(1)
		}
		return "ok", nil
	}
	m := &canned{}
	tools, err := loop.NewTools(new(model.Client), tool("count", run))
	require.NoError(t, err)
	l := &loop.Loop{Model: m, Tools: tools, Observer: &recorder{}, Limits: loop.Limits{Requests: 3}}
	for range 100 {
		m.calls = nil
		for n := range 100 {
			var text strings.Builder
			for range random.IntN(8) {
				text.WriteString(pieces[random.IntN(len(pieces))])
			}
			m.calls = append(m.calls, call(t, fmt.Sprint("c", n), "count", text.String()))
		}
		m.asked = 0
		o, err := l.Turn(t.Context(), nil, "Go")
		require.NoError(t, err)
		require.Equal(t, 100, o.Calls)
		require.Len(t, o.History, 1+100+100+1)
	}
	require.Zero(t, bad.Load())
}

// canned is a model that makes calls once and then ends.
type canned struct {
	calls []model.Item
	asked int
}

func (m *canned) Respond(context.Context, model.Request, func(model.Delta)) (model.Response, error) {
	m.asked++
	if m.asked == 1 {
		return model.Response{Output: m.calls}, nil
	}
	return model.Response{Output: []model.Item{model.Item(`{"type":"message","content":[{"type":"output_text","text":"end"}]}`)}}, nil
}

func call(t *testing.T, id, name, arguments string) model.Item {
	t.Helper()
	text, err := json.Marshal(map[string]string{"type": "function_call", "call_id": id, "name": name, "arguments": arguments})
	require.NoError(t, err)
	return text
}

// A14, A15: every form of a choice, and calls one by one.
func TestChoices(t *testing.T) {
	t.Parallel()
	const script = `
- output: [{call: {name: echo}}, {call: {name: other}}]
- output: [{text: done}]
`
	for raw, want := range map[string][2]bool{ // which of the two are executed
		`"auto"`:                            {true, true},
		``:                                  {true, true},
		`"required"`:                        {true, true},
		`"none"`:                            {false, false},
		`{"type":"function","name":"echo"}`: {true, false},
		`{"type":"function","function":{"name":"other"}}`:                                    {false, true},
		`{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"echo"}]}`: {true, false},
	} {
		s := set(t, script, tool("echo", echo), tool("other", echo))
		choice, err := model.ParseChoice(json.RawMessage(raw))
		require.NoError(t, err, raw)
		s.Choice = choice
		o, err := s.Turn(t.Context(), nil, "Go")
		require.NoError(t, err, raw)
		require.Equal(t, "done", o.Text)
		events := strings.Join(s.recorder.events, "\n")
		require.Equal(t, want[0], strings.Contains(events, "call echo"), raw)
		require.Equal(t, want[1], strings.Contains(events, "call other"), raw)
		var first, second map[string]any
		require.NoError(t, json.Unmarshal(s.server.Requests()[0], &first))
		require.NoError(t, json.Unmarshal(s.server.Requests()[1], &second))
		if raw == `"required"` || strings.Contains(raw, `"type":"function","`) && !strings.Contains(raw, "allowed") {
			require.Equal(t, "auto", second["tool_choice"], "a demand holds once: %s", raw)
			require.NotEqual(t, "auto", first["tool_choice"])
		}
	}
	for _, bad := range []string{`"maybe"`, `5`, `{"type":"function"}`, `{"type":"x"}`, `{"type":"allowed_tools","mode":"auto"}`} {
		_, err := model.ParseChoice(json.RawMessage(bad))
		require.Error(t, err, bad)
	}
	s := set(t, script, tool("echo", echo), tool("other", echo))
	s.OneByOne = true
	_, err := s.Turn(t.Context(), nil, "Go")
	require.NoError(t, err)
	events := strings.Join(s.recorder.events, "\n")
	require.Contains(t, events, "call echo")
	require.NotContains(t, events, "call other")
	require.Contains(t, string(s.server.Requests()[1]), "one at a time")
	require.Contains(t, string(s.server.Requests()[0]), `"parallel_tool_calls":false`)
}

// A8: each limit stops the turn with the numbers, and leaves a history that the
// provider takes.
func TestLimits(t *testing.T) {
	t.Parallel()
	repeat := strings.Repeat("- output: [{call: {name: echo, arguments: {n: 1}}}]\n", 10)
	var counting strings.Builder
	for n := range 10 {
		fmt.Fprintf(&counting, "- output: [{call: {name: echo, arguments: {n: %d}}}]\n  usage: {input: 100, output: 50}\n", n)
	}
	for name, c := range map[string]struct {
		script string
		limits loop.Limits
		want   string
	}{
		"requests": {counting.String(), loop.Limits{Requests: 4}, "asked 4 times, the limit is 4 (4 requests, 4 calls, 600 tokens)"},
		"tokens":   {counting.String(), loop.Limits{Tokens: 400}, "used 450 tokens, the limit is 400 (3 requests, 2 calls, 450 tokens)"},
		"repeats":  {repeat, loop.Limits{Repeats: 3}, "same calls 4 times in a row, the limit is 3 (4 requests, 3 calls"},
	} {
		s := set(t, c.script, tool("echo", echo))
		s.Limits = c.limits
		o, err := s.Turn(t.Context(), nil, "Go")
		require.ErrorIs(t, err, loop.ErrLimit, name)
		require.ErrorContains(t, err, c.want, name)
		consistent(t, o.History)
	}
	s := set(t, "- output: [{call: {name: waits}}]", tool("waits", func(ctx context.Context, _ loop.Call) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	}))
	s.Limits.Wall = 300 * time.Millisecond
	o, err := s.Turn(t.Context(), nil, "Go")
	require.ErrorIs(t, err, loop.ErrLimit)
	require.ErrorContains(t, err, "the limit is 300ms (1 requests, 1 calls")
	consistent(t, o.History)
}

// consistent checks that every call of a history has its output.
func consistent(t *testing.T, history []model.Item) {
	t.Helper()
	open := map[string]bool{}
	for _, raw := range history {
		var it struct {
			Type   string
			CallID string `json:"call_id"`
		}
		require.NoError(t, json.Unmarshal(raw, &it))
		switch it.Type {
		case "function_call":
			open[it.CallID] = true
		case "function_call_output":
			require.True(t, open[it.CallID])
			delete(open, it.CallID)
		}
	}
	require.Empty(t, open)
}

// Refusals that pass are waited for, answers that break off come again, and no
// tool is executed twice for it.
func TestRetries(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	s := set(t, `
- fail: [{status: 429, code: rate_limit_exceeded, message: slow down, retryAfter: "0.01"}]
  output: [{call: {name: count}}]
- fail: [{status: 503, message: overloaded, retryAfter: "0.01"}]
  break: 1
  output: [{text: "Done at last."}]
`, tool("count", func(context.Context, loop.Call) (string, error) { calls.Add(1); return "1", nil }))
	o, err := s.Turn(t.Context(), nil, "Go")
	require.NoError(t, err)
	require.Equal(t, "Done at last.", o.Text)
	require.Equal(t, "Done at last.", s.recorder.text.String(), "what broke off is still there")
	require.Equal(t, int64(1), calls.Load())

	s = set(t, "- fail: [{status: 400, code: bad, message: no such model}]\n  output: [{text: x}]")
	_, err = s.Turn(t.Context(), nil, "Go")
	refusal, ok := errors.AsType[*model.Error](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, &model.Error{Status: 400, Code: "bad", Message: "no such model", RequestID: "req_scripted", Attempts: 1}, refusal)

	s = set(t, "- break: 9\n  output: [{text: x}]")
	_, err = s.Turn(t.Context(), nil, "Go")
	require.ErrorContains(t, err, "broke off")
}

// An answer that cannot be recorded, and so not paid for, has no effect.
func TestUnrecordedAnswer(t *testing.T) {
	t.Parallel()
	s := set(t, "- output: [{call: {name: echo}}]", tool("echo", echo))
	s.recorder.broken = errors.New("no database")
	o, err := s.Turn(t.Context(), nil, "Go")
	require.ErrorIs(t, err, s.recorder.broken)
	require.NotContains(t, strings.Join(s.recorder.events, "\n"), "call echo")
	consistent(t, o.History)
}

// An abort ends the tools that run, and the turn.
func TestAbort(t *testing.T) {
	t.Parallel()
	ctx, abort := context.WithCancel(t.Context())
	ended := make(chan struct{})
	s := set(t, "- output: [{call: {name: waits}}]", tool("waits", func(ctx context.Context, _ loop.Call) (string, error) {
		abort()
		<-ctx.Done()
		close(ended)
		return "", ctx.Err()
	}))
	o, err := s.Turn(ctx, nil, "Go")
	require.ErrorIs(t, err, context.Canceled)
	<-ended
	consistent(t, o.History)
}

// Everything that a model is given back is bounded, and says what is missing.
func TestLongOutputs(t *testing.T) {
	t.Parallel()
	s := set(t, `
- output: [{call: {name: long}}, {call: {name: object}}, {call: {name: lost}}]
- expect: ["bytes are left out here", "[The whole is 1048576 bytes; read_tool_result with call_id \"agent:1\" reads all of it.]"]
  output: [{text: ok}]
`, tool("long", func(_ context.Context, c loop.Call) (string, error) {
		c.Recorded("agent:1")
		return strings.Repeat("x", 1<<20), nil
	}), tool("object", func(_ context.Context, c loop.Call) (string, error) {
		c.Recorded("agent:2")
		return `{"list":[` + strings.Repeat("123,", 10_000) + `0]}`, nil
	}), tool("lost", func(context.Context, loop.Call) (string, error) { return "", errors.New(strings.Repeat("e", 10_000)) }))
	s.Limits.Output = 1000
	_, err := s.Turn(t.Context(), nil, "Go")
	require.NoError(t, err)
	require.Less(t, len(s.server.Requests()[1]), 9000)
	sent := s.sent(t, 1)
	object := sent[len(sent)-2]["output"].(string)
	var short struct {
		Truncated struct {
			Bytes int
			Read  map[string]any
		}
		Value struct{ List []any }
	}
	require.NoError(t, json.Unmarshal([]byte(object), &short), "an object stays one")
	require.Equal(t, 40_012, short.Truncated.Bytes)
	require.Equal(t, map[string]any{"tool": "read_tool_result", "call_id": "agent:2", "offset": 0.0}, short.Truncated.Read)
	require.Contains(t, short.Value.List[len(short.Value.List)-1], "items omitted")
	require.Contains(t, sent[len(sent)-1]["output"], "[The whole is 10007 bytes.]")
}

// A16, A17: tools that no provider would take are refused when they are
// registered; foreign schemas are fitted, or sent as they are with a note.
func TestRegistration(t *testing.T) {
	t.Parallel()
	good := tool("good", echo)
	for want, change := range map[string]func(*loop.Tool){
		"its name must be": func(x *loop.Tool) { x.Name = "a b" },
		"it has no descr":  func(x *loop.Tool) { x.Description = " " },
		"nothing executes": func(x *loop.Tool) { x.Run = nil },
		"required is required to be supplied and to be an array including every key in properties": func(x *loop.Tool) {
			x.Own, x.Schema = true, json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}},"required":[],"additionalProperties":false}`)
		},
	} {
		bad := good
		change(&bad)
		_, err := loop.NewTools(new(model.Client), bad)
		require.ErrorContains(t, err, want)
	}
	_, err := loop.NewTools(new(model.Client), good, good)
	require.ErrorContains(t, err, "two of this name")
	broken := good
	broken.Name, broken.Schema = "broken", json.RawMessage(`{"type":"nothing"}`)
	some, err := loop.NewTools(new(model.Client), good, broken)
	require.NoError(t, err, "what cannot be used does not cost the rest")
	require.Len(t, some.Definitions(), 1)
	require.Len(t, some.Notes, 1)
	require.Contains(t, some.Notes[0], "broken is left out: its schema is no JSON Schema")
	open := good
	open.Name, open.Schema = "open", json.RawMessage(`{"type":"object","properties":{"a":{"type":"object","additionalProperties":true}}}`)
	own := good
	own.Name, own.Own, own.Schema = "own", true, json.RawMessage(noSchema)
	tools, err := loop.NewTools(new(model.Client), good, open, own)
	require.NoError(t, err)
	require.Equal(t, []string{"open is not strict: a is a map with keys of the caller's"}, tools.Notes)
	definitions := tools.Definitions()
	require.True(t, definitions[0].Strict)
	require.False(t, definitions[1].Strict)
	require.True(t, definitions[2].Strict)
}

// C19: tools that come and go between two requests are in the next one; what
// runs keeps what it had.
func TestToolsChange(t *testing.T) {
	t.Parallel()
	s := set(t, `
- output: [{call: {name: before}}]
- expect: ["You are new.", after]
  reject: ['"name":"before","parameters"']
  output: [{call: {name: after}}, {call: {name: before}}]
- expect: ["there is no tool \"before\". The tools are: after."]
  output: [{text: ok}]
`, tool("before", echo))
	changed, err := loop.NewTools(new(model.Client), tool("after", echo))
	require.NoError(t, err)
	asked := 0
	s.Refresh = func(context.Context) (string, *loop.Tools, bool) {
		asked++
		return "You are new.", changed, asked == 1
	}
	o, err := s.Turn(t.Context(), nil, "Go")
	require.NoError(t, err)
	require.Equal(t, "ok", o.Text)
	require.Equal(t, 2, asked, "before every request but the first")
}

// A13: of calls that conflict the next one begins when the one before has
// ended, however long that takes.
func TestToolsThatConflictDoNotOverlap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var inside, most atomic.Int64
		slow := tool("slow", func(context.Context, loop.Call) (string, error) {
			most.Store(max(most.Load(), inside.Add(1)))
			defer inside.Add(-1)
			<-time.After(time.Second) // it passes when everything else waits
			return "done", nil
		})
		slow.Serial = true
		tools, err := loop.NewTools(new(model.Client), slow)
		require.NoError(t, err)
		m := &canned{calls: []model.Item{call(t, "a", "slow", `{"n":1}`), call(t, "b", "slow", `{"n":2}`), call(t, "c", "slow", `{"n":3}`)}}
		l := &loop.Loop{Model: m, Tools: tools, Observer: &recorder{}}
		begin := time.Now()
		o, err := l.Turn(t.Context(), nil, "Go")
		require.NoError(t, err)
		require.Equal(t, 3, o.Calls)
		require.Equal(t, int64(1), most.Load())
		require.Equal(t, 3*time.Second, time.Since(begin))
	})
}
