package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/tool/approval"
)

// asks is a toolset whose calls wait, on the bundled upstream.
const asks = `
key: asks
name: Asks
domain: ${PORTICO_DEMO_URL}
credential: {type: header, name: X-Demo-Key, value: "${PORTICO_DEMO_KEY}"}
egress: {allow: [127.0.0.0/8]}
approval: always
billing: 2
methods:
  - {name: tool_0, description: The weather., endpoint: "/cities/{city}/weather", method: GET,
     request: {type: object, additionalProperties: false, required: [city], properties: {city: {type: string}, days: {type: integer, default: 1}}}}
`

// waiting is an approval as the API shows it.
type waiting struct {
	CallID, ParentID, Tool, Reason, State, Note, Host, Decision, DecidedBy string

	Arguments, ChangedArguments json.RawMessage

	Question *struct {
		From, Message, URL string
		Schema             json.RawMessage
	}
}

// waits returns the approvals that wait, as soon as there are so many.
func (s *instance) waits(n int) (list []waiting) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		var page struct{ Items []waiting }
		a := s.send(s.key, "GET", "/v1/tool/approvals", nil)
		require.Equal(s.t, http.StatusOK, a.status, a.raw)
		require.NoError(s.t, json.Unmarshal(a.body.Data, &page))
		list = page.Items
		return len(list) == n
	}, time.Minute, 20*time.Millisecond)
	return list
}

func (s *instance) decide(callID, decision string, more ...any) answer {
	s.t.Helper()
	body := map[string]any{"callId": callID, "decision": decision}
	for i := 0; i < len(more); i += 2 {
		body[more[i].(string)] = more[i+1]
	}
	return s.send(s.key, "POST", "/v1/tool/call/decide", body)
}

const asking = `
def attempt(**given):
    try:
        return tool_0(**given)
    except ApprovalDenied as e:
        return type(e).__name__ + ": " + e.reason + " " + e.code
    except ApprovalTimeout as e:
        return type(e).__name__ + ": " + e.reason
for city in ["Rome", "Oslo", "Berlin", "Lima"]:
    print(attempt(city=city))
`

// A program's calls wait for the decisions of its user, and its time limit does not
// pass meanwhile. Nobody who decides nothing allows anything.
func TestProgramWaitsForApprovals(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		s.apply(t, map[string]string{"asks.yaml": asks})
		id := ids.New(ids.Run)
		done := make(chan outcome, 1)
		go func() {
			done <- s.run(map[string]any{"code": asking, "resultId": id, "toolsets": []string{"asks"}, "timeout": 3000})
		}()
		first := s.waits(1)[0]
		require.JSONEq(t, `{"city":"Rome","days":1}`, string(first.Arguments))
		require.NotEmpty(t, first.ParentID)
		a := s.send(s.key, "GET", "/v1/tool/calls?resultId="+id, nil)
		require.Contains(t, a.raw, `"status":"waiting"`)
		require.Equal(t, http.StatusNotFound, s.send(s.another("ben"), "POST", "/v1/tool/call/decide", map[string]any{"callId": first.CallID, "decision": "allow"}).status)
		require.Equal(t, http.StatusOK, s.decide(first.CallID, "allow").status)
		late := s.decide(first.CallID, "refuse")
		require.Equal(t, http.StatusConflict, late.status)
		require.Equal(t, "APPROVAL_SETTLED", late.body.ErrCode)
		require.Contains(t, late.body.ErrMsg, "already settled: allowed")

		require.Equal(t, http.StatusOK, s.decide(s.waits(1)[0].CallID, "refuse", "reason", "not Oslo").status)
		changed := s.waits(1)[0]
		require.Equal(t, http.StatusBadRequest, s.decide(changed.CallID, "allow", "arguments", map[string]any{"city": 7}).status)
		a = s.decide(changed.CallID, "allow", "arguments", map[string]any{"city": "Lisbon"})
		require.Equal(t, http.StatusOK, a.status, a.raw)
		require.Contains(t, a.raw, `"changedArguments":{"city":"Lisbon"}`)
		// The last one expires, after more than the program's time limit.
		o := <-done
		require.Equal(t, "completed", o.Status, o.Stderr)
		lines := strings.Split(strings.TrimSpace(o.Stdout), "\n")
		require.Len(t, lines, 4, o.Stdout)
		require.Contains(t, lines[0], "Rome")
		require.Equal(t, "ApprovalDenied: not Oslo APPROVAL_DENIED", lines[1])
		require.Contains(t, lines[2], "Lisbon")
		require.Equal(t, "ApprovalTimeout: Nobody decided in time.", lines[3])

		events, _ := s.watch(t.Context(), s.key, id, 0, 1<<30)
		var names []string
		for _, e := range events {
			if strings.HasPrefix(e.Meta.ToolCallID, "ptc:") {
				names = append(names, strings.TrimPrefix(e.Name, "tool_call_")+" "+e.Meta.Status)
			}
		}
		ok := []string{"start executing", "waiting waiting", "decided executing", "end completed"}
		bad := []string{"start executing", "waiting waiting", "decided executing", "error failed"}
		require.Equal(t, append(append(append(append([]string{}, ok...), bad...), ok...), bad...), names)
		require.Equal(t, 3, s.count("SELECT count(*) FROM audit_events WHERE action = 'approval.decide'"))
	}, "APPROVAL_EXPIRY=5s")
}

// The keys of programs reach no route of approvals, so that code cannot allow itself
// anything.
func TestProgramsCannotDecide(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		o := s.run(map[string]any{"code": `
import json, os, urllib.request
for url, data in [("/v1/tool/approvals", None), ("/v1/tool/call/decide", b'{"callId":"x","decision":"allow"}')]:
    r = urllib.request.Request(os.environ["REFLY_TOOL_SERVICE_API_URL"] + url, data, {"Content-Type": "application/json"})
    try:
        print(urllib.request.urlopen(r).status)
    except urllib.error.HTTPError as e:
        print(e.code)
print(os.environ["REFLY_TOOL_SERVICE_API_KEY"])
import sys; sys.stdout.flush()
`, "toolsets": []string{"demo"}})
		lines := strings.Fields(o.Stdout)
		require.Equal(t, []string{"404", "404"}, lines[:2], "by its own channel")
		for _, route := range [][2]string{{"GET", "/v1/tool/approvals"}, {"POST", "/v1/tool/call/decide"}} {
			a := s.send(lines[2], route[0], route[1], map[string]any{"callId": "x", "decision": "allow"}, "x-ptc-call-id", o.CallID)
			require.Equal(t, http.StatusForbidden, a.status, a.raw)
		}
	})
}

// A rule of an operator holds for the next call, and for the key that it names.
func TestRulesOfOperators(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		weather := map[string]any{"toolsetKey": "demo", "toolName": "get_weather", "arguments": map[string]any{"city": "Rome"}}
		require.Contains(t, s.send(s.key, "POST", "/v1/tool/execute", weather).raw, `"status":"success"`)
		require.NoError(t, s.app.Approvals.Service.SetRule(t.Context(), approval.Rule{Toolset: "demo", Tool: "get_weather", Level: approval.First}))
		require.Contains(t, s.send(s.key, "POST", "/v1/tool/execute", weather).raw, `"errorCode":"APPROVAL_TIMEOUT"`)
		require.NoError(t, s.app.Approvals.Service.SetRule(t.Context(), approval.Rule{Toolset: "demo", Tool: "get_weather"}))
		require.Contains(t, s.send(s.key, "POST", "/v1/tool/execute", weather).raw, `"status":"success"`)
		key := s.send(s.key, "GET", "/v1/auth/me", nil)
		var me struct{ KeyID string }
		require.NoError(t, json.Unmarshal(key.body.Data, &me))
		require.NoError(t, s.app.Approvals.Service.SetRule(t.Context(), approval.Rule{KeyID: me.KeyID, Level: approval.Always}))
		o := s.run(map[string]any{"code": "try:\n    get_weather(city='Rome')\nexcept ApprovalTimeout as e:\n    print(e.code)", "toolsets": []string{"demo"}})
		require.Equal(t, "APPROVAL_TIMEOUT\n", o.Stdout, "the key began the program: %s", o.Stderr)
	}, "APPROVAL_EXPIRY=1s")
}

// someApprovals leaves three calls that wait and three permissions, until end.
func (s *instance) someApprovals() (end func()) {
	s.t.Helper()
	require.NoError(s.t, s.app.Approvals.Service.SetRule(s.t.Context(), approval.Rule{Toolset: "demo", Level: approval.Always}))
	var calls sync.WaitGroup
	for i := range 6 {
		calls.Go(func() {
			s.send(s.key, "POST", "/v1/tool/execute", fmt.Sprintf(`{"toolsetKey":"demo","toolName":"get_weather","arguments":{"city":"City %d"}}`, i))
		})
	}
	list := s.waits(6)
	for _, w := range list[:3] {
		a := s.decide(w.CallID, "allow_always")
		require.Equal(s.t, http.StatusOK, a.status, a.raw)
	}
	return func() {
		for _, w := range list[3:] {
			s.decide(w.CallID, "refuse")
		}
		calls.Wait()
	}
}

// A webhook is told of a call that waits, signed and with a link, again where it
// fails, and not any more once it took it.
func TestTheWebhookIsTold(t *testing.T) {
	testenv.Slow(t, "a retry after five seconds")
	t.Parallel()
	type told struct {
		signature string
		body      []byte
	}
	got := make(chan told, 10)
	var asked atomic.Int64
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || asked.Add(1) == 1 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		got <- told{r.Header.Get(approval.HeaderSignature), body}
	}))
	t.Cleanup(hook.Close)
	s := serve(t, databasetest.URL(t, database.SQLite), "APPROVAL_WEBHOOK="+hook.URL, "APPROVAL_WEBHOOK_SECRET=a-secret-of-the-webhook", "ENDPOINT=https://portico.example.com")
	s.apply(t, map[string]string{"asks.yaml": asks})
	done := make(chan answer, 1)
	go func() {
		done <- s.send(s.key, "POST", "/v1/tool/execute", `{"toolsetKey":"asks","toolName":"tool_0","arguments":{"city":"Rome"}}`)
	}()
	w := s.waits(1)[0]
	first := <-got
	var body struct {
		Type, Link string
		Approval   waiting
	}
	require.NoError(t, json.Unmarshal(first.body, &body))
	require.Equal(t, "approval.waiting", body.Type)
	require.Equal(t, "https://portico.example.com/console/approvals/"+w.CallID, body.Link)
	require.Equal(t, w.CallID, body.Approval.CallID)
	require.JSONEq(t, `{"city":"Rome","days":1}`, string(body.Approval.Arguments))
	stamp, _, found := strings.Cut(strings.TrimPrefix(first.signature, "t="), ",")
	require.True(t, found, first.signature)
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	require.NoError(t, err)
	require.Equal(t, approval.Sign("a-secret-of-the-webhook", time.Unix(seconds, 0), first.body), first.signature)
	require.NotEqual(t, approval.Sign("another", time.Unix(seconds, 0), first.body), first.signature)
	require.NoError(t, s.app.Approvals.Service.Tend(t.Context()))
	require.EqualValues(t, 2, asked.Load())
	require.Equal(t, http.StatusOK, s.decide(w.CallID, "refuse", "reason", "no").status)
	require.Contains(t, (<-done).raw, "APPROVAL_DENIED")
	require.NotContains(t, s.log.String(), "a-secret-of-the-webhook")
}

// Without a console, the webhook is told of a call with no link.
func TestTheWebhookIsSentNoLinkToAConsoleThatIsOff(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	got := make(chan []byte, 10)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil {
			got <- body
		}
	}))
	t.Cleanup(hook.Close)
	s := serve(t, databasetest.URL(t, database.SQLite), "APPROVAL_WEBHOOK="+hook.URL, "APPROVAL_WEBHOOK_SECRET=a-secret-of-the-webhook", "CONSOLE_ENABLED=false")
	s.apply(t, map[string]string{"asks.yaml": asks})
	done := make(chan answer, 1)
	go func() {
		done <- s.send(s.key, "POST", "/v1/tool/execute", `{"toolsetKey":"asks","toolName":"tool_0","arguments":{"city":"Rome"}}`)
	}()
	w := s.waits(1)[0]
	var told map[string]any
	require.NoError(t, json.Unmarshal(<-got, &told))
	require.NotContains(t, told, "link")
	require.Contains(t, told, "approval")
	require.Equal(t, http.StatusOK, s.decide(w.CallID, "refuse").status)
	<-done
}
