package dialogue_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/agenttest"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/agent/dialogue"
	"github.com/portico-run/portico/modules/model"
)

// small are the limits of a model that reads little.
const small = "context: 6000, maxOutput: 1000"

// long are outputs of the model's own calls, the first of 7,000 bytes and the others of
// 4,000, and a question.
func long(question string, outputs ...string) []model.Item {
	items := []model.Item{model.User("Begin.")}
	size := 7000
	for _, o := range outputs {
		items = append(items, model.CallItem("call_"+o, "get_order", `{"id":1}`), model.Output("call_"+o, strings.Repeat(o, size)))
		size = 4000
	}
	return append(items, model.Assistant("Ready."), model.User(question))
}

// reads has a program read what was left out, before, between and beside calls of the
// client's.
const reads = `
- expect: ['[This output of 7000 bytes is left out to make room. In a program, earlier_output("call_a") returns it as a text.]', "ccccc"]
  reject: ["aaaaaa"]
  output: [{call: {name: run_code, arguments: {code: "a = earlier_output(\"call_a\")\nprint('first', len(a), a[:3])\no = get_order(id=1)\nb, p = await asyncio.gather(earlier_output(\"call_a\", 6990), get_order(id=2))\nprint('second', b, o['total'] + p['total'])\ntry:\n    earlier_output(\"call_of_another\")\nexcept ToolExecutionError as e:\n    print('third', e)"}}}]
- expect: ["first 7000 aaa\nsecond aaaaaaaaaa 42\nthird", "There is no output"]
  output: [{text: "Done."}]
`

// Outputs that a model has no room for are left out, the oldest first, and programs read
// them again.
func TestWhatIsLeftOutIsReadAgain(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, reads, agenttest.Window(t, small))
	req := program("order 1?")
	req.Items = long("order 1?", "a", "b", "c")
	turn, err := s.Dialogues.Begin(t.Context(), s.User, req)
	require.NoError(t, err)
	require.Equal(t, 1, turn.Begun().Compacted)
	got, err := turn.Answer(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, got.Compacted)
	calls := of[dialogue.Call](got)
	require.Len(t, calls, 1, "the client is not asked for what the server answers")
	got = asks(t, s, dialogue.Request{Continue: results(got, `{"total":10}`)})
	require.JSONEq(t, `{"id":2}`, string(of[dialogue.Call](got)[0].Arguments))
	require.Equal(t, 1, got.Compacted)
	got = asks(t, s, dialogue.Request{Continue: results(got, `{"total":32}`)})
	require.Equal(t, "Done.", of[dialogue.Text](got)[0].Text)
	require.Contains(t, string(req.Items[2]), "aaaaaa", "the client's own conversation is as it was")
}

// What was left out stays left out, and no more is, while a conversation grows by less
// than there is room for: the provider's cache holds.
func TestTheBeginningStaysAsItWas(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, `
- on: "one?"
  output: [{text: "One."}]
- on: "two?"
  output: [{text: "Two."}]
`, agenttest.Window(t, small))
	req := program("")
	read := func(n int) {
		id := fmt.Sprint("call_", n)
		req.Items = append(req.Items, model.CallItem(id, "get_order", `{"id":1}`), model.Output(id, strings.Repeat("x", 1500)))
	}
	for n := range 9 {
		read(n)
	}
	req.Items = append(req.Items, model.User("one?"))
	require.Greater(t, asks(t, s, req).Compacted, 1)
	req.Items = append(req.Items, model.Assistant("One."))
	read(9)
	req.Items = append(req.Items, model.User("two?"))
	asks(t, s, req)
	var inputs [2]struct{ Input []json.RawMessage }
	for i, raw := range s.Model.Requests() {
		require.NoError(t, json.Unmarshal(raw, &inputs[i]))
	}
	require.Equal(t, inputs[0].Input, inputs[1].Input[:len(inputs[0].Input)])
}

// An output of any length is read in parts, and a function of the client's keeps its name.
func TestLongOutputsAreReadInParts(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, `
- expect: ['earlier_output_("call_long") returns it as a text, 200000 characters at most; earlier_output_("call_long", 200000) goes on after those.]']
  output: [{call: {name: run_code, arguments: {code: "both = earlier_output_(\"call_long\"), earlier_output_(\"call_long\", 200000)\nprint([len(x) for x in both], both[1][-1], earlier_output_(\"call_long\", 300000) == '')"}}}]
- expect: ["[200000, 100000] e True"]
  output: [{text: "Done."}]
`, agenttest.Window(t, small))
	req := program("")
	req.Items = []model.Item{model.User("Begin."), model.CallItem("call_long", "x", "{}"), model.FailedOutput("call_long", strings.Repeat("é", 299_999)+"e"), model.User("Read it.")}
	req.Tools = append(req.Tools, dialogue.Tool{Name: "earlier_output", Code: true, Schema: json.RawMessage(`{"type":"object","properties":{}}`)})
	require.Equal(t, "Done.", of[dialogue.Text](asks(t, s, req))[0].Text)
}

// What does not fit even so is refused before the model is asked, and so is a
// conversation that has no programs to read anything again.
func TestWhatDoesNotFitIsRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(r *dialogue.Request){
		"words": func(r *dialogue.Request) { r.Items = append(r.Items, model.User(strings.Repeat("word ", 6000))) },
		"no programs": func(r *dialogue.Request) {
			r.Items, r.Programs, r.Tools = long("?", "a", "b", "c", "d", "e", "f"), nil, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := agenttest.Serve(t, `- output: [{text: "Never."}]`, agenttest.Window(t, small))
			req := program("?")
			change(&req)
			turn, err := s.Dialogues.Begin(t.Context(), s.User, req)
			require.NoError(t, err)
			_, err = turn.Answer(t.Context())
			require.ErrorIs(t, err, dialogue.ErrTooLong)
			e, ok := errors.AsType[*errs.Error](err)
			require.True(t, ok)
			require.Contains(t, e.Detail, "> 6000 maximum")
			require.Empty(t, s.Model.Requests())
		})
	}
}

// Pictures are not taken for text.
func TestPicturesTakeNoMoreRoomThanTheyDo(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, `
- expect: ["aaaaaa"]
  output: [{text: "A picture."}]
`, agenttest.Window(t, small))
	req := program("")
	req.Items = append(long("What is it?", "a"), model.UserParts([]model.Part{{Type: "input_image", URL: "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAA" + strings.Repeat("AAAA", 5_000)}}))
	require.Zero(t, asks(t, s, req).Compacted)
}
