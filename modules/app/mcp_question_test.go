package app_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/connector/mcp/hubtest"
	"github.com/portico-run/portico/modules/tool/approval"
)

const mail = `{"type":"object","required":["to"],"properties":{"to":{"type":"string","format":"email"},"copies":{"type":"integer","minimum":1,"maximum":3},"kind":{"type":"string","enum":["plain","rich"]}}}`

// mailer asks whom to write to.
func mailer(of *hubtest.Server, legacy bool) {
	asks := &mcp.ElicitParams{Message: "To whom? <b>now</b>", RequestedSchema: json.RawMessage(mail)}
	of.Add("send", `{"type":"object","properties":{"text":{"type":"string"}}}`, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var got *mcp.ElicitResult
		switch {
		case legacy:
			var err error
			if got, err = r.Session.Elicit(ctx, asks); err != nil {
				return nil, err
			}
		case len(r.Params.InputResponses) == 0:
			return &mcp.CallToolResult{RequestState: "s", InputRequests: mcp.InputRequestMap{"q": asks}}, nil
		default:
			got, _ = r.Params.InputResponses["q"].(*mcp.ElicitResult)
		}
		text, err := json.Marshal(map[string]any{"action": got.Action, "content": got.Content})
		return hubtest.Words(string(text)), err
	})
}

const sending = `
for _ in range(4):
    try:
        r = mail__send(text="Hi")
        print(r["action"], (r["content"] or {}).get("to"))
    except ToolExecutionError as e:
        print(e.code)
`

// A question of an MCP server waits for a person: the program goes on with the answer,
// and neither its time nor that of the call passes meanwhile.
func TestQuestionsOfServersWaitForAPerson(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	eachServers(t, func(t *testing.T, s *instance, d *hubtest.Directory) {
		for name, legacy := range map[string]bool{"mail": false, "post": true} {
			of := hubtest.New()
			mailer(of, legacy)
			handler := of.Handler()
			if legacy {
				handler = of.Legacy()
			}
			d.Put(hubtest.Listen(t, name, handler))
			id := ids.New(ids.Run)
			done := make(chan outcome, 1)
			go func() {
				done <- s.run(map[string]any{"code": strings.ReplaceAll(sending, "mail__", name+"__"), "resultId": id, "toolsets": []string{name}, "timeout": 4000})
			}()
			first := s.waits(1)[0]
			require.Equal(t, "MCP server "+name+" asks a question.", first.Reason)
			require.NotNil(t, first.Question)
			require.Equal(t, "MCP server "+name, first.Question.From)
			require.Equal(t, "To whom? <b>now</b>", first.Question.Message)
			require.JSONEq(t, mail, string(first.Question.Schema))
			require.JSONEq(t, `{"text":"Hi"}`, string(first.Arguments))
			require.Contains(t, s.send(s.key, "GET", "/v1/tool/calls?resultId="+id, nil).raw, `"status":"waiting"`)
			other := s.another("ben" + id)
			require.Equal(t, http.StatusNotFound, s.send(other, "POST", "/v1/tool/call/decide", map[string]any{"callId": first.CallID, "decision": "refuse"}).status)

			// What is no answer changes nothing.
			for want, bad := range map[string][]any{
				"the answer as arguments": {"allow"},
				"copies":                  {"allow", "arguments", map[string]any{"to": "anna@example.com", "copies": 7}},
				"to":                      {"allow", "arguments", map[string]any{}},
				"allow_always is none":    {"allow_always"},
				"allow_run is none":       {"allow_run"},
			} {
				a := s.decide(first.CallID, bad[0].(string), bad[1:]...)
				require.Equal(t, http.StatusBadRequest, a.status, a.raw)
				require.Contains(t, a.body.ErrMsg+a.body.ErrDetail, want)
			}
			a := s.decide(first.CallID, "allow", "arguments", map[string]any{"to": "anna@example.com", "copies": 2})
			require.Equal(t, http.StatusOK, a.status, a.raw)
			require.Contains(t, a.raw, `"changedArguments":{"copies":2,"to":"anna@example.com"}`)
			require.Equal(t, http.StatusConflict, s.decide(first.CallID, "refuse").status)
			require.Equal(t, http.StatusOK, s.decide(s.waits(1)[0].CallID, "refuse", "reason", "no").status)
			last := s.waits(1)[0]
			require.Equal(t, http.StatusOK, s.decide(last.CallID, "allow", "arguments", map[string]any{"to": "ben@example.com"}).status)
			// Nobody answers the last one.
			o := <-done
			require.Equal(t, "accept anna@example.com\ndecline None\naccept ben@example.com\ncancel None\n", o.Stdout, o.Stderr)

			require.Equal(t, 1, s.count(`SELECT count(*) FROM tool_call_results WHERE call_id = ? AND input LIKE '{"input":{"text":"Hi"%'`, first.CallID), "the arguments are as they were")
			events, _ := s.watch(t.Context(), s.key, id, 0, 1<<30)
			var names []string
			for _, e := range events {
				if e.Meta.ToolCallID == first.CallID {
					names = append(names, strings.TrimPrefix(e.Name, "tool_call_"))
				}
			}
			require.Equal(t, []string{"start", "waiting", "decided", "end"}, names)
		}
	}, "APPROVAL_EXPIRY=6s", "TOOL_TIMEOUT=4s", "TOOL_MAX_TIMEOUT=4s")
}

// A call may have to be allowed, and ask, and ask again: each is a wait of its own.
func TestACallThatIsAllowedAndAsks(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	eachServers(t, func(t *testing.T, s *instance, d *hubtest.Directory) {
		of := hubtest.New()
		mailer(of, false)
		d.Put(hubtest.Listen(t, "mail", of.Handler()))
		require.NoError(t, s.app.Approvals.Service.SetRule(t.Context(), approval.Rule{Toolset: "mail", Level: approval.Always}))
		done := make(chan outcome, 1)
		go func() {
			done <- s.run(map[string]any{"code": "print(mail__send(text='Hi')['action'])", "toolsets": []string{"mail"}})
		}()
		allows := s.waits(1)[0]
		require.Nil(t, allows.Question)
		require.Zero(t, of.Calls.Load())
		require.Equal(t, http.StatusOK, s.decide(allows.CallID, "allow").status)
		var asks waiting
		require.Eventually(t, func() bool {
			asks = s.waits(1)[0]
			return asks.Question != nil
		}, time.Minute, 20*time.Millisecond)
		require.Equal(t, allows.CallID, asks.CallID)
		require.Equal(t, http.StatusOK, s.decide(asks.CallID, "allow", "arguments", map[string]any{"to": "a@example.com"}).status)
		require.Equal(t, "accept\n", (<-done).Stdout)
		a := s.send(s.key, "GET", "/v1/tool/approvals?state=all", nil)
		require.Equal(t, 2, strings.Count(a.raw, allows.CallID), "both are kept")
	})
}
