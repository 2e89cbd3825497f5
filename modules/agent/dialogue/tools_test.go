package dialogue_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/agenttest"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/agent/dialogue"
	"github.com/portico-run/portico/modules/model"
	"github.com/portico-run/portico/modules/tool/approval"
)

// One program calls tools of the server, which executes them, and of the client's,
// which are asked for.
func TestAProgramMixesTools(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, `
- expect: ["get_order(id: int)", "get_weather(city: str"]
  output: [{call: {name: run_code, arguments: {code: "o = get_order(id=1)\nprint(get_weather(city=o['city'])['city'], o['total'])"}}}]
- expect: ["Oslo 10"]
  output: [{text: "Done."}]
`, "AGENT_MAX_REQUESTS=3")
	req := program("order 1?")
	req.Programs.Toolsets = []string{"demo"}
	got := asks(t, s, req)
	require.Len(t, of[dialogue.Call](got), 1, "the server's own call is not the client's")
	got = asks(t, s, dialogue.Request{Continue: results(got, `{"city":"Oslo","total":10}`)})
	require.Equal(t, "Done.", of[dialogue.Text](got)[0].Text)
}

const weatherOnce = `
- output: [{call: {name: run_code, arguments: {code: "try:\n    print(get_weather(city='Oslo')['city'])\nexcept ToolExecutionError as e:\n    print(e.code, e)"}}}]
- output: [{text: "Done."}]
`

// A call that waits for a person is in the answer where the client can ask, and the
// client may bring the decision. Nothing that a model writes decides.
func TestACallWaitsForAPerson(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		decision dialogue.Decision
		printed  string
	}{
		"allowed": {dialogue.Decision{Allow: true}, "Oslo\n"},
		"refused": {dialogue.Decision{Reason: "not today"}, "not today"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := agenttest.Serve(t, weatherOnce)
			req := dialogue.Request{Items: []model.Item{model.User("weather?")}, Programs: &dialogue.Programs{
				Toolsets: []string{"demo"}, Approval: approval.Always, Asks: true,
			}}
			got := asks(t, s, req)
			require.Equal(t, dialogue.StopCalls, got.Stop)
			waiting := of[dialogue.Approval](got)
			require.Len(t, waiting, 1)
			require.Equal(t, "get_weather", waiting[0].Tool)
			require.Regexp(t, "^[A-Za-z0-9_-]+$", waiting[0].CallID)
			require.JSONEq(t, `{"city":"Oslo","days":3}`, string(waiting[0].Arguments))
			one.decision.CallID = waiting[0].CallID
			got = asks(t, s, dialogue.Request{Continue: &dialogue.Continue{Decisions: []dialogue.Decision{one.decision}}})
			require.Contains(t, of[dialogue.Output](got)[0].Stdout, one.printed)
			require.Equal(t, dialogue.StopEnd, got.Stop)
		})
	}
}

// A client that cannot ask waits for what a person decides elsewhere.
func TestADecisionElsewhere(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, weatherOnce)
	turn, err := s.Dialogues.Begin(t.Context(), s.User, dialogue.Request{Items: []model.Item{model.User("weather?")}, Programs: &dialogue.Programs{
		Toolsets: []string{"demo"}, Approval: approval.Always,
	}})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		page, err := s.Approvals.Service.List(t.Context(), s.User, false, httpapi.PageQuery{})
		require.NoError(t, err)
		if len(page.Items) == 0 {
			return false
		}
		_, err = s.Approvals.Service.Decide(t.Context(), s.User, approval.Ruling{CallID: page.Items[0].CallID, Decision: approval.Allow})
		require.NoError(t, err)
		return true
	}, testTimeout, testTick)
	got, err := turn.Answer(t.Context())
	require.NoError(t, err)
	require.Equal(t, "Oslo\n", of[dialogue.Output](got)[0].Stdout)
}

// Thoughts go back to their writer byte for byte, whatever its protocol.
func TestThoughtsGoBack(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"responses", "chat", "messages"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			s := agenttest.Serve(t, `
- output: [{reasoning: "I need the order."}, {text: "Let me look."}, {call: {name: run_code, arguments: {code: "print(get_order(id=1))"}}}]
- output: [{text: "It is seven."}]
`, "MODEL_PROTOCOL="+protocol)
			got := asks(t, s, program("order 1?"))
			thoughts := of[dialogue.Thought](got)
			require.NotEmpty(t, thoughts)
			require.Equal(t, "I need the order.", thoughts[0].Text)
			ended := asks(t, s, dialogue.Request{Continue: results(got, `"seven"`)})
			require.Equal(t, "It is seven.", of[dialogue.Text](ended)[0].Text)

			// What a client makes of it for its next request.
			items, covered := []model.Item{model.User("order 1?")}, false
			for _, p := range append(got.Parts, ended.Parts...) {
				switch p := p.(type) {
				case dialogue.Thought:
					restored, covers, ok := dialogue.Restore(p.Token)
					require.True(t, ok)
					items, covered = append(items, restored...), covers
				case dialogue.Text:
					if !covered {
						items = append(items, model.Assistant(p.Text))
					}
				case dialogue.Program:
					if !covered {
						items = append(items, dialogue.ProgramCall(p))
					}
				case dialogue.Output:
					items, covered = append(items, dialogue.ProgramOutput(p, 0)), false
				}
			}
			req := program("")
			req.Items = append(items, model.User("sure?"))
			require.Equal(t, "It is seven.", of[dialogue.Text](asks(t, s, req))[0].Text)
			sent := s.Model.Requests()
			var before, after struct {
				Input    []json.RawMessage
				Messages []json.RawMessage
			}
			require.NoError(t, json.Unmarshal(sent[1], &before))
			require.NoError(t, json.Unmarshal(sent[2], &after))
			past := append(before.Input, before.Messages...)
			now := append(after.Input, after.Messages...)
			require.Greater(t, len(now), len(past))
			thought := map[string]int{"responses": 2, "chat": 2, "messages": 1}[protocol] // after the instructions and the question
			require.JSONEq(t, string(past[thought]), string(now[thought]))
			if protocol == "messages" {
				const block = `{"signature":"c2NyaXB0ZWQ=","thinking":"I need the order.","type":"thinking"}`
				require.Contains(t, string(past[thought]), block)
				require.Contains(t, string(now[thought]), block, "the provider wrote that, byte for byte")
				return
			}
			require.Equal(t, string(past[thought]), string(now[thought]), "the provider wrote that, byte for byte")
		})
	}
	_, _, ok := dialogue.Restore("an Anthropic signature")
	require.False(t, ok)
}

// The server's own tools are executed between two questions to the model, and may load
// tools of the client's.
func TestOwnToolsLoadOthers(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, `
- reject: ["get_order"]
  output: [{call: {name: find, arguments: {words: "orders"}}}]
- expect: ["get_order", "found it"]
  output: [{call: {name: get_order, arguments: {id: 1}}}]
`)
	deferred := order(true)
	deferred.Code, deferred.Deferred = false, true
	got := asks(t, s, dialogue.Request{
		Items: []model.Item{model.User("find it")}, Tools: []dialogue.Tool{deferred},
		Own: []dialogue.OwnTool{{
			Name: "find", Description: "Find tools.", Schema: json.RawMessage(`{"type":"object","properties":{"words":{"type":"string"}},"required":["words"]}`),
			Run: func(context.Context, json.RawMessage) (dialogue.OwnResult, error) {
				return dialogue.OwnResult{Text: "found it", Loads: []string{"get_order"}}, nil
			},
		}},
	})
	require.Len(t, of[dialogue.OwnCall](got), 1)
	require.Len(t, of[dialogue.Call](got), 1)
}

// What may be called where is enforced when it is called, wherever the call comes from.
func TestCallersAreEnforced(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, `
- output: [{call: {name: get_order, arguments: {id: 1}}}]
- expect: ["called from programs only"]
  output: [{call: {name: run_code, arguments: {code: "print(delete_order(id=1))"}}}]
- expect: ["NameError"]
  output: [{text: "No."}]
`)
	req := program("delete it")
	req.Tools = append(req.Tools, dialogue.Tool{Name: "delete_order", Direct: true, Schema: json.RawMessage(`{"type":"object","properties":{"id":{"type":"integer"}}}`)})
	got := asks(t, s, req)
	require.Equal(t, "No.", of[dialogue.Text](got)[0].Text)
}

// Tokens are paid for as the provider counted them, and a continuation that asked no
// model costs nothing.
func TestTokensArePaidFor(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, `
- output: [{call: {name: run_code, arguments: {code: "print(get_order(id=1))\nprint(get_order(id=2))"}}}]
  usage: {input: 1000, output: 100}
- output: [{text: "Done."}]
  usage: {input: 2000, output: 10}
`, "MODEL_INPUT_PRICE=1000", "MODEL_OUTPUT_PRICE=10000")
	got := asks(t, s, program("two"))
	require.EqualValues(t, 1100, got.Usage.Total())
	require.Equal(t, "2", got.Credits.String())
	got = asks(t, s, dialogue.Request{Continue: results(got, "1")})
	require.Zero(t, got.Credits)
	got = asks(t, s, dialogue.Request{Continue: results(got, "2")})
	require.Equal(t, "2.1", got.Credits.String())
	page, err := s.Credits.Service.Usages(t.Context(), s.User, httpapi.PageQuery{})
	require.NoError(t, err)
	var tokens []string
	for _, u := range page.Items {
		tokens = append(tokens, fmt.Sprintf("%s %s", u.Amount, u.Text))
	}
	require.Equal(t, []string{"2.1 Model call: scripted:test", "2 Model call: scripted:test"}, tokens)
}

// A request is refused where it names what there is not, before anything is asked.
func TestRequestsThatAreRefused(t *testing.T) {
	t.Parallel()
	s := agenttest.Serve(t, "- output: [{text: no}]\n")
	for name, one := range map[string]struct {
		change func(r *dialogue.Request)
		want   error
		code   errs.Code
	}{
		"model":    {change: func(r *dialogue.Request) { r.Model = "other" }, want: dialogue.ErrModelMissing},
		"twice":    {change: func(r *dialogue.Request) { r.Tools = append(r.Tools, order(false)) }, code: errs.Invalid},
		"nobody":   {change: func(r *dialogue.Request) { r.Tools[0].Code = false }, code: errs.Invalid},
		"name":     {change: func(r *dialogue.Request) { r.Tools[0].Name = "a b" }, code: errs.Invalid},
		"builtin":  {change: func(r *dialogue.Request) { r.Tools[0].Name = "print" }, code: errs.Invalid},
		"run_code": {change: func(r *dialogue.Request) { r.Tools[0].Name = dialogue.RunCode }, code: errs.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := program("no")
			one.change(&req)
			_, err := s.Dialogues.Begin(t.Context(), s.User, req)
			require.Error(t, err)
			if one.want != nil {
				require.ErrorIs(t, err, one.want)
				return
			}
			require.Equal(t, one.code, errs.CodeOf(err))
		})
	}
}

// An answer that the model refuses, or that is cut, says so.
func TestAnswersThatAreNotWhole(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		script, protocol string
		stop             dialogue.Stop
	}{
		"length":            {`- {output: [{text: Half}], incomplete: max_output_tokens}`, "responses", dialogue.StopLength},
		"length of chat":    {`- {output: [{text: Half}], incomplete: max_output_tokens}`, "chat", dialogue.StopLength},
		"refusal":           {`- {output: [{refusal: I will not.}]}`, "responses", dialogue.StopRefusal},
		"stop sequence":     {`- {output: [{text: Half}], stop: END}`, "messages", dialogue.StopSequence},
		"call in an answer": {`- {output: [{call: {name: get_order, arguments: {id: 1}}}], incomplete: max_output_tokens}`, "responses", dialogue.StopLength},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := agenttest.Serve(t, one.script+"\n", "MODEL_PROTOCOL="+one.protocol)
			req := program("go on")
			req.Tools = []dialogue.Tool{order(true)}
			got := asks(t, s, req)
			require.Equal(t, one.stop, got.Stop)
			require.Empty(t, of[dialogue.Call](got), "a call of an answer that is cut is not made")
			require.Positive(t, got.Usage.Total())
		})
	}
}
