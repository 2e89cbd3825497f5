package app_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/cli/mcp/stdio"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/tool/approval"
)

// willing is a client that says the same to every question.
func willing(said *mcp.ElicitResult) *mcp.ClientOptions {
	return &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) { return said, nil }}
}

func allowing() *mcp.ElicitResult {
	return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"decision": "allow"}}
}

// Requests of two users and of two keys of one, each 200 times and all at once, in both
// eras, with sessions and without: nobody sees what another one's credential shows.
func TestCallersOverMCPAreNeverMixed(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		ben := s.another("ben")
		his, err := s.app.Accounts.Service.UserByName(t.Context(), "ben")
		require.NoError(t, err)
		for title, who := range map[string]actor.Actor{"hers": s.first(), "his": {UID: his.UID}} {
			_, err := s.app.Runs.Service.Create(t.Context(), who, run.CreateParams{Title: title})
			require.NoError(t, err)
		}
		sees := func(session *mcp.ClientSession) string {
			list, err := session.ListResources(t.Context(), nil)
			if err != nil {
				return err.Error()
			}
			var titles []string
			for _, r := range list.Resources {
				titles = append(titles, r.Title)
			}
			return strings.Join(titles, ",")
		}
		var all sync.WaitGroup
		for key, want := range map[string]string{s.key: "hers", s.scoped("run"): "This key has the scopes run only.", ben: "his"} {
			for _, era := range eras() {
				session := s.agent(key, era, willing(allowing()))
				for range 4 {
					all.Go(func() {
						for range 50 {
							if got := sees(session); got != want && !(len(want) > 4 && strings.Contains(got, want)) {
								t.Errorf("%q in place of %q", got, want)
							}
						}
					})
				}
			}
		}
		all.Wait()
		servers, sessions := s.app.Clients.Kept.Kept()
		require.Equal(t, 3, servers, "one for each key")
		require.Equal(t, 2, sessions, "none for a key that decides nothing")
	})
}

// A client of the older era that can ask has a session; others need none. Where a
// process does not know a session, the client begins another one.
func TestSessionsOverMCP(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		accept := []string{"Accept", "application/json, text/event-stream"}
		list := map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
		begin := func(version string, capabilities map[string]any) map[string]any {
			return map[string]any{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": map[string]any{
				"protocolVersion": version, "capabilities": capabilities, "clientInfo": map[string]any{"name": "test", "version": "1"},
			}}
		}
		asks := map[string]any{"elicitation": map[string]any{}}
		for _, none := range []map[string]any{begin("2025-11-25", map[string]any{}), begin("2026-07-28", asks)} {
			a := s.send(s.key, "POST", "/mcp", none, accept...)
			require.Equal(t, 200, a.status, a.raw)
			require.Empty(t, a.header.Get("Mcp-Session-Id"))
		}
		a := s.send(s.scoped("run"), "POST", "/mcp", begin("2025-11-25", asks), accept...)
		require.Empty(t, a.header.Get("Mcp-Session-Id"), "it decides nothing, so that it is not asked")
		a = s.send(s.key, "POST", "/mcp", begin("2025-06-18", asks), accept...)
		id := a.header.Get("Mcp-Session-Id")
		require.NotEmpty(t, id, a.raw)
		in := func(id string) []string { return append([]string{"Mcp-Session-Id", id}, accept...) }
		require.Equal(t, 200, s.send(s.key, "POST", "/mcp", list, in(id)...).status)
		require.Equal(t, 200, s.send(s.key, "POST", "/mcp", list, accept...).status, "without one, too")
		require.Equal(t, 200, s.send(s.key, "POST", "/mcp", list, append(in("unknown"), "Mcp-Protocol-Version", "2025-11-25")[2:]...).status)
		require.Equal(t, 400, s.send(s.key, "POST", "/mcp", list, "Mcp-Session-Id", id, "Accept", "text/plain").status)
		answer := map[string]any{"jsonrpc": "2.0", "id": "9", "result": map[string]any{"action": "accept"}}
		require.Equal(t, 202, s.send(s.key, "POST", "/mcp", answer, in(id)...).status, "to nothing")
		require.Equal(t, 400, s.send(s.key, "POST", "/mcp", answer, accept...).status)
		for who, of := range map[string][2]string{"a stranger": {s.another("ben"), id}, "a narrower key": {s.scoped("run"), id}, "nobody knows it": {s.key, "unknown"}} {
			a := s.send(of[0], "POST", "/mcp", list, in(of[1])...)
			require.Equal(t, 404, a.status, who)
			require.Equal(t, "There is no such session.", a.body.ErrMsg, who)
			require.Equal(t, 404, s.send(of[0], "DELETE", "/mcp", nil, in(of[1])...).status, who)
		}
		require.Equal(t, 200, s.send(s.key, "DELETE", "/mcp", nil, in(id)...).status)
		require.Equal(t, 404, s.send(s.key, "POST", "/mcp", list, in(id)...).status)
	})
}

// MCP_SESSIONS=false begins no sessions: any process may answer anything, and nobody of
// the older era is asked.
func TestNoSessionsOverMCP(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		require.NoError(t, s.app.Approvals.Service.SetRule(t.Context(), approval.Rule{Toolset: "demo", Level: approval.Always}))
		session := s.agent(s.key, "2025-11-25", willing(allowing()))
		require.Empty(t, session.ID())
		r, _, _ := call(t, session, "run_code", map[string]any{"code": careful})
		require.Equal(t, "paused", r.Status)
	}, "MCP_SESSIONS=false")
}

// While a person thinks about a question in a session, the console may decide, the
// client may go away, and the server may stop: the call goes on, the program ends, and
// the client gets the handle.
func TestQuestionsInSessionsEnd(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		require.NoError(t, s.app.Approvals.Service.SetRule(t.Context(), approval.Rule{Toolset: "demo", Level: approval.Always}))
		thinking, over := make(chan string, 10), make(chan struct{})
		end := sync.OnceFunc(func() { close(over) })
		slow := &mcp.ClientOptions{ElicitationHandler: func(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			thinking <- r.Params.Message
			select {
			case <-ctx.Done(): // it is cancelled
			case <-over: // or nobody can tell it
			}
			return nil, context.Canceled
		}}
		begin := func(ctx context.Context, wait int) chan *mcp.CallToolResult {
			session, done := s.agent(s.key, "2025-11-25", slow), make(chan *mcp.CallToolResult, 1)
			t.Cleanup(end) // before the session
			go func() {
				got, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "run_code", Arguments: map[string]any{"code": careful, "wait_s": wait}})
				if err != nil {
					got = nil
				}
				done <- got
			}()
			return done
		}
		done := begin(t.Context(), 50)
		for range 2 {
			<-thinking
			require.Equal(t, http.StatusOK, s.decide(s.waits(1)[0].CallID, "allow").status)
		}
		require.Contains(t, (<-done).Content[0].(*mcp.TextContent).Text, `"status":"completed"`)

		// Too late: the address says where it is decided. A busy machine may need longer
		// until somebody is asked.
		for wait, asked := 2, false; !asked; wait *= 2 {
			done = begin(t.Context(), wait)
			answer := <-done
			select {
			case <-thinking:
				asked = true
			default:
			}
			got := answer.Content[0].(*mcp.TextContent).Text
			if strings.Contains(got, `"status":"running"`) { // it has not called anything yet
				s.waits(1)
			} else {
				require.Contains(t, got, `"status":"paused"`)
				require.Contains(t, got, "/console/approvals/")
			}
			for range 2 {
				require.Equal(t, http.StatusOK, s.decide(s.waits(1)[0].CallID, "refuse").status)
			}
		}

		ctx, cancel := context.WithCancel(t.Context())
		done = begin(ctx, 50)
		<-thinking
		cancel()
		require.Nil(t, <-done)
		const executing = "SELECT count(*) FROM tool_call_results WHERE tool_name = 'execute_code' AND status = 'executing'"
		require.Eventually(t, func() bool { return s.count(executing) == 0 }, time.Minute, 10*time.Millisecond, "nobody has its handle")

		s.dropQuestion()
		require.Eventually(t, func() bool { return s.count(executing) == 0 }, time.Minute, 10*time.Millisecond, "nobody has its handle")

		begun := time.Now()
		done = begin(t.Context(), 50)
		<-thinking
		s.app.Clients.Kept.Quiesce() // as the first step of stopping does
		require.Contains(t, (<-done).Content[0].(*mcp.TextContent).Text, `"status":"paused"`)
		require.Less(t, time.Since(begun), 50*time.Second, "it does not wait until the time of the call is over")
		require.Equal(t, http.StatusOK, s.decide(s.waits(1)[0].CallID, "refuse").status)
		require.Equal(t, http.StatusOK, s.decide(s.waits(1)[0].CallID, "refuse").status)
		require.Empty(t, s.agent(s.key, "2025-11-25", slow).ID(), "a session begins no more")
	})
}

// dropQuestion runs a program as a client that is asked something, and whose connection
// then breaks before it can say that it cancels anything.
func (s *instance) dropQuestion() {
	s.t.Helper()
	accept := []string{"Accept", "application/json, text/event-stream"}
	begun := s.send(s.key, "POST", "/mcp", map[string]any{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": map[string]any{
		"protocolVersion": "2025-11-25", "capabilities": map[string]any{"elicitation": map[string]any{}}, "clientInfo": map[string]any{"name": "test", "version": "1"},
	}}, accept...)
	in := append([]string{"Mcp-Session-Id", begun.header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", "2025-11-25"}, accept...)
	require.Equal(s.t, http.StatusAccepted, s.send(s.key, "POST", "/mcp", map[string]any{"jsonrpc": "2.0", "method": "notifications/initialized"}, in...).status)
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": map[string]any{
		"name": "run_code", "arguments": map[string]any{"code": careful, "wait_s": 50},
	}})
	require.NoError(s.t, err)
	answer, err := s.do(s.key, "POST", "/mcp", string(body), true, in)
	require.NoError(s.t, err)
	lines := bufio.NewScanner(answer.Body)
	for asked := false; !asked; asked = strings.Contains(lines.Text(), `"elicitation/create"`) {
		require.True(s.t, lines.Scan(), "nobody is asked: %v", lines.Err())
	}
	require.NoError(s.t, answer.Body.Close()) // and the connection, since it is not read to its end
}

// remembered keeps the id of the session that a server began.
type remembered struct {
	mu sync.Mutex
	id string
}

// RoundTrip implements http.RoundTripper.
func (m *remembered) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && answer.Header.Get("Mcp-Session-Id") != "" {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.id = answer.Header.Get("Mcp-Session-Id")
	}
	return answer, err
}

func (m *remembered) session() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.id
}

// A client on standard input asks the person in front of it, in both eras, many at once,
// and goes on where the server has forgotten its session.
func TestApprovalsOverStandardInput(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		require.NoError(t, s.app.Approvals.Service.SetRule(t.Context(), approval.Rule{Toolset: "demo", Level: approval.Always}))
		for _, era := range eras() {
			toBridge, fromClient := io.Pipe()
			toClient, fromBridge := io.Pipe()
			ended, seen := make(chan error, 1), &remembered{}
			go func() {
				ended <- stdio.Bridge{URL: s.url + "/mcp", Key: s.key, Client: &http.Client{Transport: seen}}.Serve(t.Context(), toBridge, fromBridge)
			}()
			client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				if strings.Contains(r.Params.Message, "Rome") {
					return allowing(), nil
				}
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"decision": "refuse", "reason": "no need"}}, nil
			}})
			session, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: toClient, Writer: fromClient}, &mcp.ClientSessionOptions{ProtocolVersion: era})
			require.NoError(t, err)
			for range 2 {
				var all sync.WaitGroup
				for range 3 {
					all.Go(func() {
						got, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "run_code", Arguments: map[string]any{"code": careful}})
						if err != nil {
							t.Error(err)
							return
						}
						if text := got.Content[0].(*mcp.TextContent).Text; !strings.Contains(text, `"stdout":"Rome\nApprovalDenied no need\n"`) {
							t.Error(text)
						}
					})
				}
				all.Wait()
				require.Equal(t, era < "2026", seen.session() != "")
				if id := seen.session(); id != "" { // as after a restart
					require.NoError(t, s.app.Clients.Kept.End(id, s.first()))
				}
			}
			if era < "2026" {
				_, err = session.ListTools(t.Context(), nil)
				require.NoError(t, err)
			}
			require.NoError(t, session.Close())
			require.NoError(t, fromClient.Close())
			require.NoError(t, <-ended)
			_, sessions := s.app.Clients.Kept.Kept()
			require.Zero(t, sessions, "it ends its own")
		}
	})
}
