package app_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/testenv"
)

// card is what a frontend draws of a message: words, or a tool call.
type card struct {
	MessageID, Text, Reasoning   string
	CallID, Parent, Tool, Key    string
	Step, Status, Error          string
	Code                         bool
	Input, Output                any
	Began, Ended, Created, Moved any
}

// draw fills in what an event, or a message that is read again, says of a call.
func (c *card) draw(m map[string]any) {
	meta, _ := m["toolCallMeta"].(map[string]any)
	text := func(v any) string { s, _ := v.(string); return s }
	c.MessageID, c.CallID, c.Code = text(m["messageId"]), text(meta["toolCallId"]), m["isPtc"] == true
	c.Tool, c.Key, c.Status, c.Began, c.Ended = text(meta["toolName"]), text(meta["toolsetKey"]), text(meta["status"]), meta["startTs"], meta["endTs"]
	if r, ok := m["toolCallResult"].(map[string]any); ok {
		c.Parent, c.Step, c.Error, c.Input, c.Output = text(r["ptcCallId"]), text(r["stepName"]), text(r["error"]), r["input"], r["output"]
		c.Created, c.Moved = r["createdAt"], r["updatedAt"]
	}
}

// drawn are the cards of a stream, in the order in which they appear.
func drawn(t *testing.T, events []map[string]any) []card {
	t.Helper()
	var list []*card
	known := map[string]*card{}
	at := func(e map[string]any) *card {
		id, _ := e["messageId"].(string)
		require.Regexp(t, `^[a-zA-Z0-9_:.-]+$`, id, "%v", e)
		if known[id] == nil {
			known[id] = &card{MessageID: id}
			list = append(list, known[id])
		}
		return known[id]
	}
	for _, e := range events {
		switch name := fmt.Sprint(e["event"]); {
		case name == "stream":
			c := at(e)
			c.Text += fmt.Sprint(e["content"])
			if more, ok := e["reasoningContent"].(string); ok {
				c.Reasoning += more
			}
		case strings.HasPrefix(name, "tool_call_"):
			c := at(e)
			meta, _ := e["toolCallMeta"].(map[string]any)
			_, ours := ids.OriginOf(fmt.Sprint(meta["toolCallId"]))
			require.True(t, ours, "%v has the id of its record", e)
			require.Contains(t, []any{"", meta["toolCallId"]}, any(c.CallID), "all events of a call have one id")
			c.draw(e)
		}
	}
	out := make([]card, len(list))
	for i, c := range list {
		out[i] = *c
	}
	return out
}

// reloaded are the cards of a run that is read again.
func (s *instance) reloaded(t *testing.T, id string) (cards []card, raw string) {
	t.Helper()
	a := s.send(s.key, "GET", "/v1/action/result?resultId="+id, nil)
	require.Equal(t, 200, a.status, a.raw)
	var data struct {
		Messages       []map[string]any
		MessagesCursor string
	}
	require.NoError(t, json.Unmarshal(a.body.Data, &data))
	require.Empty(t, data.MessagesCursor, "the answer is whole")
	for _, m := range data.Messages {
		var c card
		switch m["type"] {
		case "tool":
			c.draw(m)
			require.Equal(t, c.CallID, m["toolCallId"])
		case "ai":
			c.MessageID, c.Text = fmt.Sprint(m["messageId"]), fmt.Sprint(m["content"])
			c.Reasoning, _ = m["reasoningContent"].(string)
		default:
			continue
		}
		cards = append(cards, c)
	}
	return cards, a.raw
}

// events follows a run from after an event to its end.
func (s *instance) events(t *testing.T, id, after string) []map[string]any {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/v1/action/"+id+"/events", nil)
	require.NoError(t, err)
	r.Header.Set("X-API-Key", s.key)
	if after != "" {
		r.Header.Set("Last-Event-ID", after)
	}
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, 200, answer.StatusCode)
	return eventsOf(t, bufio.NewScanner(answer.Body))
}

// A run with two hundred calls of a program is the same list of cards live, from
// the middle on, and read again; so is one that nobody watches.
func TestALargeRunIsDrawnTheSame(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	program := `
for n in range(200):
    try:
        get_weather(city="" if n % 50 == 7 else "Oslo", file_name_title=str(n))
    except ToolExecutionError:
        pass
print("made")
`
	_, env := script(t, `
- output: [{text: "I count."}, `+programCall(t, "execute_code", program)+`]
- expect: [made]
  output: [{text: "Two hundred."}]
`)
	each(t, func(t *testing.T, s *instance) {
		_, body := s.stream(t, s.key, map[string]any{"query": "Count", "toolsets": []string{"demo"}, "resultId": "ar-large"})
		live := eventsOf(t, body)
		want := drawn(t, live)
		require.Len(t, want, 1+1+200+1)
		failed := 0
		for _, c := range want[2:202] {
			require.True(t, c.Code)
			require.Equal(t, want[1].CallID, c.Parent)
			require.NotEmpty(t, c.Ended)
			if c.Status == "failed" {
				failed++
				require.NotEmpty(t, c.Error)
			}
		}
		require.Equal(t, 4, failed)
		require.Equal(t, "completed", want[1].Status)

		got, _ := s.reloaded(t, "ar-large")
		require.Empty(t, cmp.Diff(want, got), "read again")
		require.Empty(t, cmp.Diff(want, drawn(t, s.events(t, "ar-large", ""))), "watched later")
		rest := s.events(t, "ar-large", "100")
		require.Equal(t, live[100:], rest, "watched from the middle on")
		require.Equal(t, 1, s.count("SELECT COUNT(*) FROM action_messages WHERE type = 'tool'"), "messages of calls that code made are their events")

		o := s.run(map[string]any{"code": program, "toolsets": []string{"demo"}})
		require.Equal(t, "completed", o.Status, o.Stderr)
		alone, _ := s.reloaded(t, o.ResultID)
		require.Len(t, alone, 201)
		require.Empty(t, cmp.Diff(alone, drawn(t, s.events(t, o.ResultID, ""))), "watched by nobody")
	}, append(env, "PTC_TIMEOUT=300")...)
}

// Whatever becomes of a call, it is one card from the first word that the model
// writes of it to its end, and the same one when the run is read again.
func TestEveryCallOfAnAgentIsOneCard(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	_, env := script(t, `
- break: 1
  output:
    - reasoning: "Hm."
    - text: "First I look."
    - call: {name: demo_get_weather, arguments: {city: Oslo, file_name_title: x}}
    - call: {name: demo_get_weather, arguments: {city: 5}}
    - call: {name: demo_get_weather, raw: '{"city": "Os'}
    - call: {name: nothing_like_it, arguments: {a: 1}}
    - call: {name: get_time, arguments: {zone: Mars/Base}}
- output: [{call: {name: python_repl, arguments: {code: "", reset: true, timeout: null}}}]
- output: [{text: "Nearly."}, {call: {name: get_time, arguments: {zone: null}}}]
- output: [{text: "Done."}]
`)
	each(t, func(t *testing.T, s *instance) {
		_, body := s.stream(t, s.key, map[string]any{"query": "Go", "toolsets": []string{"demo"}, "resultId": "ar-cards"})
		events := eventsOf(t, body)
		cards := drawn(t, events)
		got, raw := s.reloaded(t, "ar-cards")
		require.Contains(t, raw, `"status":"finish"`)

		ended := map[string]int{}
		for _, e := range events {
			if meta, ok := e["toolCallMeta"].(map[string]any); ok && (e["event"] == "tool_call_end" || e["event"] == "tool_call_error") {
				ended[fmt.Sprint(meta["toolCallId"])]++
			}
		}
		var calls, words []string
		var lost []card
		for _, c := range cards {
			switch {
			case c.CallID == "":
				words = append(words, c.Text)
				continue
			case strings.Contains(c.Error, "broke off"):
				lost = append(lost, c)
			default:
				calls = append(calls, c.Key+"."+c.Tool+" "+c.Status+" "+regexp.MustCompile(`^.{0,40}`).FindString(c.Error))
			}
			require.Equal(t, 1, ended[c.CallID], "%+v ends once", c)
			require.NotEmpty(t, c.Input)
		}
		require.Equal(t, []string{
			"demo.get_weather completed ",
			"demo.get_weather failed demo_get_weather was not executed: the a",
			"demo.get_weather failed demo_get_weather was not executed: the a",
			"builtin.nothing_like_it failed there is no tool \"nothing_like_it\". The ",
			"builtin.get_time failed there is no time zone \"Mars/Base\"",
			"python_repl.python_repl completed ",
			"builtin.get_time completed ",
		}, calls)
		require.Equal(t, []string{"First I look.", "", "Nearly.", "Done."}, words[len(words)-4:], "each answer is a message, also one that only calls")
		require.LessOrEqual(t, len(lost), 1)

		// The words of the answer that broke off are nobody's message.
		if len(words) == 5 {
			cards = append(cards[:0:0], cards[1:]...)
		}
		require.Empty(t, cmp.Diff(cards, got))
		require.Equal(t, s.count("SELECT COUNT(*) FROM tool_call_results"), s.count("SELECT COUNT(*) FROM action_messages WHERE type = 'tool'"))
		require.Equal(t, 4, s.count("SELECT COUNT(*) FROM action_messages WHERE type = 'ai' AND usage_meta IS NOT NULL"))
	}, append(env, "PTC_MODE=off")...)
}

// What a request selects of a toolset is all that the run can call: plainly and
// in programs, however these name it.
func TestARunCallsOnlyWhatIsSelected(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	model, env := script(t, `
- on: Plain
  expect: [demo_get_weather]
  reject: [demo_list_cities]
  output: [{call: {name: demo_list_cities, arguments: {file_name_title: x}}}, {call: {name: demo_get_weather, arguments: {city: Oslo, file_name_title: x}}}]
- expect: ["there is no tool", celsius]
  output: [{text: "Done."}]
- on: Code
  expect: [get_weather]
  reject: [list_cities]
  output: [`+programCall(t, "execute_code", `
from refly_tools.demo import Demo
print("weather", Demo.get_weather(city="Oslo", file_name_title="x")["status"])
print("cities", Demo.list_cities(file_name_title="x"))
print("function", "list_cities" in globals())
`)+`]
- expect: ["weather success", "was not selected for this run", "function False"]
  output: [{text: "Done."}]
- on: Nothing
  reject: [list_cities, demo_get_weather]
  output: [{text: "Done."}]
`)
	s := serve(t, databasetest.URL(t, database.SQLite), env...)
	toolsets := []any{map[string]any{
		"type": "regular", "id": "ts-any", "name": "Demo", "toolset": map[string]any{"toolsetId": "ts-any", "key": "demo", "odd": 1},
		"selectedTools": []string{"get_weather", "gone"},
	}}
	plain := s.invoke(t, map[string]any{"query": "Plain", "toolsets": toolsets, "ptc": "off"})
	require.Equal(t, "finish", plain.Status, "%v", plain.Errors)
	require.Equal(t, 0, s.count("SELECT COUNT(*) FROM tool_call_results WHERE tool_name = 'list_cities'"))
	code := s.invoke(t, map[string]any{"query": "Code", "toolsets": toolsets, "ptc": "on", "resultId": "ar-code"})
	require.Equal(t, "finish", code.Status, "%v", code.Errors)
	require.Equal(t, 1, s.count("SELECT COUNT(*) FROM tool_call_results WHERE tool_name = 'list_cities' AND status = 'failed'"))
	require.Contains(t, s.send(s.key, "GET", "/v1/action/result?resultId=ar-code", nil).raw, "Toolset demo has no tool gone, which the request selects.")
	none := []any{map[string]any{"type": "regular", "toolset": map[string]any{"key": "demo"}, "selectedTools": []string{}}}
	nothing := s.invoke(t, map[string]any{"query": "Nothing", "toolsets": none, "resultId": "ar-nothing"})
	require.Equal(t, "finish", nothing.Status, "%v", nothing.Errors)
	require.Contains(t, s.send(s.key, "GET", "/v1/action/result?resultId=ar-nothing", nil).raw, "Toolset demo is left out: its selectedTools is empty.")
	require.NotEmpty(t, model.Requests())
}

// Each item of a list may cost a warning, an event or a query, so that both
// routes refuse long ones.
func TestARunIsAskedForWithinBounds(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	_, env := script(t, "- output: [{text: Done.}]\n")
	s := serve(t, databasetest.URL(t, database.SQLite), env...)
	many := func(n int, item any) []any { return slices.Repeat([]any{item}, n) }
	for name, body := range map[string]map[string]any{
		"toolsets":      {"toolsets": many(201, map[string]any{"type": "mcp", "name": "files"})},
		"selectedTools": {"toolsets": many(2, map[string]any{"id": "demo", "selectedTools": many(501, "get_weather")})},
		"a name":        {"toolsets": many(1, map[string]any{"id": "demo", "selectedTools": many(1, strings.Repeat("x", 129))})},
		"history":       {"history": many(51, "ar-1"), "resultHistory": many(50, "ar-1")},
		"input.images":  {"input": map[string]any{"images": many(101, "x")}},
	} {
		body["query"] = "Go"
		for _, route := range []string{"/v1/skill/streamInvoke", "/v1/skill/invoke"} {
			a := s.send(s.key, "POST", route, body)
			require.Equal(t, 400, a.status, "%s: %s: %s", route, name, a.raw)
		}
	}
	require.Zero(t, s.count("SELECT COUNT(*) FROM action_results"))
}
