package dialogue_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/agenttest"
	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/agent/dialogue"
	"github.com/portico-run/portico/modules/model"
)

// program asks the model for a program with the client's tool.
func program(question string) dialogue.Request {
	return dialogue.Request{
		Items: []model.Item{model.User(question)}, Tools: []dialogue.Tool{order(false)}, Programs: &dialogue.Programs{Toolsets: []string{}},
	}
}

// results continue an answer with one result for each of its calls.
func results(a dialogue.Answer, values ...string) *dialogue.Continue {
	c := &dialogue.Continue{}
	for i, call := range of[dialogue.Call](a) {
		c.Results = append(c.Results, dialogue.Result{CallID: call.ID, Value: json.RawMessage(values[i])})
	}
	return c
}

const oneCall = `
- on: one call
  output: [{call: {name: run_code, arguments: {code: "print(get_order(id=1))"}}}]
- expect: ["seven"]
  output: [{text: "It is seven."}]
`

// A request that is sent again gets the same answer, and nothing is executed twice.
func TestARequestThatIsSentAgainIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, oneCall)
	req := program("one call")
	req.Digest = [32]byte{1}
	var group sync.WaitGroup
	answers := make([]dialogue.Answer, 8)
	for i := range answers {
		group.Go(func() { answers[i] = asks(t, s, req) })
	}
	group.Wait()
	first := answers[0]
	for _, a := range answers {
		require.Equal(t, first, a, "they came at once")
	}
	for _, sent := range []dialogue.Sent{dialogue.SentFirst, dialogue.SentAgain, ""} {
		req.Sent = sent
		require.Equal(t, first, asks(t, s, req), "the first answer was lost")
	}
	turn, err := s.Dialogues.Begin(t.Context(), s.User, req)
	require.NoError(t, err)
	turn.Delivered()
	for _, sent := range []dialogue.Sent{dialogue.SentAgain, ""} {
		req.Sent = sent
		require.Equal(t, first, asks(t, s, req), "the client did not get it, or says nothing")
	}
	require.Len(t, s.Model.Requests(), 1)

	next := dialogue.Request{Continue: results(first, `"seven"`), Digest: [32]byte{2}}
	for i := range answers {
		group.Go(func() { answers[i] = asks(t, s, next) })
	}
	group.Wait()
	for _, a := range answers {
		require.Equal(t, "It is seven.", of[dialogue.Text](a)[0].Text)
		require.Equal(t, answers[0], a)
	}
	require.Len(t, s.Model.Requests(), 2)

	other := dialogue.Request{Continue: results(first, `"eight"`)}
	_, err = s.Dialogues.Begin(t.Context(), s.User, other)
	require.ErrorIs(t, err, dialogue.ErrOtherResults)
	other.Continue = results(first, `"seven"`)
	other.Continue.More = []model.Item{model.User("In French.")}
	_, err = s.Dialogues.Begin(t.Context(), s.User, other)
	require.ErrorIs(t, err, dialogue.ErrOtherResults, "nobody has answered these words")

	req.Sent = dialogue.SentFirst
	require.NotEqual(t, first, asks(t, s, req), "a new request is one")
}

// Results must fit the calls, one for each.
func TestResultsFitTheCalls(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, `
- output: [{call: {name: run_code, arguments: {code: "print(await asyncio.gather(get_order(id=1), get_order(id=2)))"}}}]
- expect: ["[1, 2]"]
  output: [{text: "Both."}]
`)
	got := asks(t, s, program("two calls"))
	calls := of[dialogue.Call](got)
	begin := func(who actor.Actor, c dialogue.Continue) error {
		_, err := s.Dialogues.Begin(t.Context(), who, dialogue.Request{Continue: &c})
		return err
	}
	one := []dialogue.Result{{CallID: calls[0].ID, Value: json.RawMessage(`1`)}}
	var missing *dialogue.Missing
	require.ErrorAs(t, begin(s.User, dialogue.Continue{Results: one}), &missing)
	require.Equal(t, &dialogue.Missing{Programs: []string{calls[1].ID}}, missing)
	require.ErrorAs(t, begin(s.User, dialogue.Continue{Results: append(one, one...)}), &missing)
	require.Equal(t, []string{calls[0].ID}, missing.Unknown)
	require.ErrorAs(t, begin(s.User, dialogue.Continue{Results: append(one, dialogue.Result{CallID: "other"})}), &missing)
	require.Equal(t, []string{"other"}, missing.Unknown)

	both := results(got, "1", "2")
	require.ErrorIs(t, begin(actor.Actor{UID: "u-somebody"}, *both), dialogue.ErrCallGone, "they are another user's")
	require.False(t, s.Dialogues.WaitsHere(actor.Actor{UID: "u-somebody"}, []string{calls[0].ID}))
	require.True(t, s.Dialogues.WaitsHere(s.User, []string{calls[0].ID}))
	checked := *both
	checked.Checked = true
	require.ErrorIs(t, begin(s.User, checked), dialogue.ErrSessionMissing)
	checked.Session = strings.Repeat("x", 21)
	require.ErrorIs(t, begin(s.User, checked), dialogue.ErrSessionGone)

	large := results(got, "1", `"`+strings.Repeat("x", 33<<20)+`"`)
	turn, err := s.Dialogues.Begin(t.Context(), s.User, dialogue.Request{Continue: large})
	require.NoError(t, err)
	_, err = turn.Answer(t.Context())
	require.Equal(t, errs.TooLarge, errs.CodeOf(err))

	require.Equal(t, "Both.", of[dialogue.Text](asks(t, s, dialogue.Request{Continue: both}))[0].Text, "after all of these it can still be continued")
}

// A tool of the client's that failed raises in the program.
func TestAFailedResultRaises(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, `
- output: [{call: {name: run_code, arguments: {code: "try:\n    get_order(id=1)\nexcept ToolExecutionError as e:\n    print('failed:', e)"}}}]
- expect: ["failed: no such order"]
  output: [{text: "There is none."}]
`)
	got := asks(t, s, program("order 1?"))
	got = asks(t, s, dialogue.Request{Continue: &dialogue.Continue{Results: []dialogue.Result{
		{CallID: of[dialogue.Call](got)[0].ID, Failed: true, Error: "no such order"},
	}}})
	require.Equal(t, "There is none.", of[dialogue.Text](got)[0].Text)
}

// A model that does not answer after the results were taken is asked again when the
// client sends them again: the program does not run twice.
func TestResultsThatWereTakenAreSentAgain(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, `
- output: [{call: {name: run_code, arguments: {code: "print(get_order(id=1))"}}}]
- expect: ["seven"]
  fail: [{status: 400, code: no, message: not now}]
  output: [{text: "It is seven."}]
`)
	got := asks(t, s, program("one call"))
	next := dialogue.Request{Continue: results(got, `"seven"`)}
	next.Continue.More = []model.Item{model.User("In words.")}
	turn, err := s.Dialogues.Begin(t.Context(), s.User, next)
	require.NoError(t, err)
	_, err = turn.Answer(t.Context())
	require.ErrorContains(t, err, "does not answer")
	other := *next.Continue
	other.More = []model.Item{model.User("In French.")}
	_, err = s.Dialogues.Begin(t.Context(), s.User, dialogue.Request{Continue: &other})
	require.ErrorIs(t, err, dialogue.ErrOtherResults, "the conversation has the first words already")
	next.Continue.More = append(next.Continue.More, model.User("Try again."))
	require.Equal(t, "It is seven.", of[dialogue.Text](asks(t, s, next))[0].Text)
	sent := s.Model.Requests()
	for _, words := range []string{"In words.", "Try again."} {
		require.Equal(t, 1, bytes.Count(sent[len(sent)-1], []byte(words)), words)
	}
}

// Words that come with results reach the model after the program, also where the program
// asks for another call first, and where the client sends its results again: since they
// were not taken, or since it had gone away meanwhile.
func TestWordsThatFollowResults(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, `
- output: [{call: {name: run_code, arguments: {code: "print(get_order(id=1))\nprint(get_order(id=2))"}}}]
- expect: ["one\ntwo", "In French.", "Be brief."]
  output: [{text: "Un, deux."}]
`)
	answer := asks(t, s, program("two calls"))
	next := results(answer, `"one"`)
	next.More = []model.Item{model.User("In French.")}
	refused := *next
	refused.Results = []dialogue.Result{{CallID: next.Results[0].CallID, Value: json.RawMessage(`"` + strings.Repeat("x", 33<<20) + `"`)}}
	turn, err := s.Dialogues.Begin(t.Context(), s.User, dialogue.Request{Continue: &refused})
	require.NoError(t, err)
	_, err = turn.Answer(t.Context())
	require.Equal(t, errs.TooLarge, errs.CodeOf(err))

	answer = asks(t, s, dialogue.Request{Continue: next})
	next = results(answer, `"two"`)
	next.More = []model.Item{model.User("Be brief.")}
	turn, err = s.Dialogues.Begin(t.Context(), s.User, dialogue.Request{Continue: next})
	require.NoError(t, err)
	dialogue.Hurry(turn)
	_, err = turn.Answer(t.Context())
	require.Equal(t, errs.Cancelled, errs.CodeOf(err))
	answer = asks(t, s, dialogue.Request{Continue: next})
	require.Equal(t, "Un, deux.", of[dialogue.Text](answer)[0].Text)
	require.Equal(t, 1, bytes.Count(s.Model.Requests()[1], []byte("In French.")))
}

// What a model calls directly is the client's own business, unless a program of the
// same answer waits: then all results come together.
func TestDirectCallsAndProgramsTogether(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, `
- on: alone
  output: [{call: {name: get_order, arguments: {id: 5}}}]
- expect: ["five"]
  output: [{text: "Five."}]
- on: both
  output: [{call: {name: get_order, arguments: {id: 6}}}, {call: {name: run_code, arguments: {code: "print(get_order(id=7))"}}}]
- expect: ["six!", "seven!"]
  output: [{text: "Both."}]
`)
	req := program("alone")
	req.Tools = []dialogue.Tool{order(true)}
	got := asks(t, s, req)
	call := of[dialogue.Call](got)[0]
	require.Equal(t, dialogue.StopCalls, got.Stop)
	require.Empty(t, call.Program)
	require.False(t, s.Dialogues.WaitsHere(s.User, []string{call.ID}), "the client has all of it")
	req.Items = append(req.Items, model.CallItem(call.ID, call.Name, string(call.Arguments)), model.Output(call.ID, "five"))
	again := asks(t, s, req)
	require.Equal(t, []dialogue.Part{dialogue.Text{Text: "Five."}}, again.Parts)

	req = program("both")
	req.Tools = []dialogue.Tool{order(true)}
	got = asks(t, s, req)
	calls := of[dialogue.Call](got)
	require.Len(t, calls, 2)
	require.Empty(t, calls[0].Program)
	require.NotEmpty(t, calls[1].Program)
	got = asks(t, s, dialogue.Request{Continue: &dialogue.Continue{Results: []dialogue.Result{
		{CallID: calls[0].ID, Text: "six!"}, {CallID: calls[1].ID, Value: json.RawMessage(`"seven!"`)},
	}}})
	require.Equal(t, "Both.", of[dialogue.Text](got)[0].Text)
}

// However many requests come after one that is worked on, it is known when it is sent
// again, and ends with the service.
func TestARequestThatIsWorkedOnIsKnown(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, `
- on: long
  delay: 1h
  output: [{text: "late"}]
- on: short
  output: [{text: "soon"}]
`)
	long := dialogue.Request{Items: []model.Item{model.User("long")}, Digest: [32]byte{1}}
	first, err := s.Dialogues.Begin(t.Context(), s.User, long)
	require.NoError(t, err)
	for range 65 { // one more than are remembered
		asks(t, s, dialogue.Request{Items: []model.Item{model.User("short")}})
	}
	long.Sent = dialogue.SentAgain
	again, err := s.Dialogues.Begin(t.Context(), s.User, long)
	require.NoError(t, err)
	require.Equal(t, first.Begun(), again.Begun())
	require.NoError(t, s.Dialogues.Stop(t.Context()))
	_, err = first.Answer(t.Context())
	require.ErrorContains(t, err, "stopping")
}

// Of two calls to which the provider gave one id, one is executed, and the model is told
// so.
func TestCallsOfOneID(t *testing.T) {
	t.Parallel()
	var asked []string
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		output := `{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Done."}]}`
		if asked = append(asked, string(body)); len(asked) == 1 {
			direct := `{"type":"function_call","call_id":"twice","name":"get_order","arguments":"{\"id\":1}"},`
			output = direct + direct + `{"type":"function_call","call_id":"code","name":"run_code","arguments":"{\"code\":\"print(get_order(id=3))\"}"}`
		}
		fmt.Fprintf(w, "data: "+`{"type":"response.completed","response":{"id":"r","model":"m","output":[%s]}}`+"\n\n", output)
	}))
	t.Cleanup(web.Close)
	s := agenttest.Serve(t, "- output: [{text: Never.}]\n", "MODEL_BASE_URL="+web.URL)
	req := program("both")
	req.Tools = []dialogue.Tool{order(true)}
	calls := of[dialogue.Call](asks(t, s, req))
	require.Len(t, calls, 2)
	asks(t, s, dialogue.Request{Continue: &dialogue.Continue{Results: []dialogue.Result{
		{CallID: calls[0].ID, Text: "one"}, {CallID: calls[1].ID, Value: json.RawMessage(`"three"`)},
	}}})
	require.Len(t, asked, 2)
	require.Contains(t, asked[1], `"output":"one"`)
	require.Contains(t, asked[1], "another call has the same id")
	require.NotContains(t, asked[1], "null")
}

// A request that nobody follows any more ends, after a while in which its client may
// come back.
func TestARequestThatNobodyFollowsEnds(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, "- delay: 1h\n  output: [{text: \"late\"}]\n")
	req := dialogue.Request{Items: []model.Item{model.User("anybody?")}}
	turn, err := s.Dialogues.Begin(t.Context(), s.User, req)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = turn.Answer(ctx)
	require.ErrorIs(t, err, context.Canceled)
	for range turn.Events(ctx) {
	}
	dialogue.Hurry(turn)
	_, err = turn.Answer(t.Context())
	require.Equal(t, errs.Cancelled, errs.CodeOf(err))
}

// What one user's conversations hold is bounded, and given back.
func TestConversationsHoldSoMuch(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, oneCall)
	dialogue.Bound(s.Dialogues, 1<<20)
	large := program("one call")
	large.Items = append([]model.Item{model.User(strings.Repeat("x", 120<<10))}, large.Items...)
	first := asks(t, s, large)
	asks(t, s, large)
	_, err := s.Dialogues.Begin(t.Context(), s.User, large)
	require.Equal(t, errs.RateLimited, errs.CodeOf(err))
	asks(t, s, dialogue.Request{Continue: results(first, `"seven"`)})
	asks(t, s, large)
}

// What nobody continues in time is over, and says so.
func TestAProgramThatNobodyContinuesIsOver(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, oneCall, "CODEAPI_IDLE_MS=1000")
	got := asks(t, s, program("one call"))
	require.WithinDuration(t, time.Now().Add(time.Second), got.Expires, time.Second)
	require.Eventually(t, func() bool {
		_, text := s.Send("GET", "/metrics", nil)
		return strings.Contains(text, `portico_code_programs_total{cause="idle"} 1`)
	}, testTimeout, testTick)
	for range 2 {
		_, err := s.Dialogues.Begin(t.Context(), s.User, dialogue.Request{Continue: results(got, `"seven"`)})
		require.ErrorIs(t, err, dialogue.ErrCallGone, "before there is a stream, so that clients see a status")
	}
}
