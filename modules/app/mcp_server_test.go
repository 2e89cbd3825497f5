package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/cli/mcp/stdio"
	"github.com/portico-run/portico/modules/run"
	"github.com/portico-run/portico/modules/tool/approval"
)

// keyed sends a key with every request.
type keyed struct{ key string }

// RoundTrip implements http.RoundTripper.
func (k keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-API-Key", k.key)
	return http.DefaultTransport.RoundTrip(r)
}

// eras are the revisions of the protocol that clients speak.
func eras() []string { return []string{"2025-11-25", "2026-07-28"} }

// agent is an MCP client of the server, with a user's key.
func (s *instance) agent(key, era string, o *mcp.ClientOptions) *mcp.ClientSession {
	s.t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o)
	session, err := c.Connect(s.t.Context(), &mcp.StreamableClientTransport{
		Endpoint: s.url + "/mcp", HTTPClient: &http.Client{Transport: keyed{key}}, DisableStandaloneSSE: true,
	}, &mcp.ClientSessionOptions{ProtocolVersion: era})
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = session.Close() }) // it is stateless
	return session
}

// ran is what run_code and resume_code answer.
type ran struct {
	Status, Execution, Stdout, Stderr, Error string
	Calls                                    []struct{ Tool, Status string }
	Run                                      string
	CallsMade                                int `json:"calls_made"`
	Pending                                  []struct{ Call, Tool, URL string }
	Truncated                                *struct{ From, Total, Next int }
}

// call calls a tool; both forms of an answer say the same.
func call(t *testing.T, session *mcp.ClientSession, name string, arguments map[string]any) (r ran, text string, failed bool) {
	t.Helper()
	got, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: arguments})
	require.NoError(t, err)
	content, ok := got.Content[0].(*mcp.TextContent)
	require.True(t, ok)
	if got.StructuredContent != nil && got.StructuredContent != any("") && strings.HasPrefix(content.Text, "{") {
		structured, err := json.Marshal(got.StructuredContent)
		require.NoError(t, err)
		require.JSONEq(t, string(structured), content.Text)
		require.NoError(t, json.Unmarshal(structured, &r))
	}
	return r, content.Text, got.IsError
}

// An agent of another maker finds tools, reads about one, and runs a program that
// calls it, in both eras of the protocol; what was called is recorded and billed.
func TestAgentsRunProgramsOverMCP(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		for _, era := range eras() {
			var mu sync.Mutex
			var told []string
			session := s.agent(s.key, era, &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, r.Params.Message)
			}})
			var names []string
			for tool, err := range session.Tools(t.Context(), nil) {
				require.NoError(t, err)
				require.LessOrEqual(t, len(tool.Description), 2048, "clients cut them there")
				names = append(names, tool.Name)
			}
			require.ElementsMatch(t, []string{"search_tools", "describe_tool", "run_code", "run_code_readonly", "resume_code"}, names)

			list, err := session.ListTools(t.Context(), nil)
			require.NoError(t, err)
			if era > "2026" {
				require.Equal(t, "private", list.CacheScope, "no cache may give it to others")
			}

			_, text, _ := call(t, session, "search_tools", map[string]any{"query": "weather forecast of a city"})
			require.True(t, strings.HasPrefix(text, "get_weather("), text)
			_, text, _ = call(t, session, "describe_tool", map[string]any{"names": []string{"get_weather", "portico", "nonsense"}})
			require.Contains(t, text, "Parameters:")
			require.Contains(t, text, "ToolExecutionError")
			require.Contains(t, text, `There is no tool "nonsense"`)

			// What it says of programs is so.
			_, guide, _ := call(t, session, "describe_tool", map[string]any{"names": []string{"portico"}})
			_, example, found := strings.Cut(guide, "\n  from concurrent")
			require.True(t, found, guide)
			example, _, _ = strings.Cut("from concurrent"+example, "\n\n")
			code := strings.ReplaceAll(example, "\n  ", "\n") + `
print(len(await asyncio.gather(*(get_weather(city=c) for c in cities))))
print(search_tools("weather of a city").split("(")[0])
print("Parameters:" in help("get_weather"))
`
			r, _, failed := call(t, session, "run_code", map[string]any{"code": code})
			require.False(t, failed, "%s\n%s", code, r.Stderr)
			require.Regexp(t, `^Oslo [0-9.-]+\nRome [0-9.-]+\n2\n.*get_weather\nTrue\n$`, r.Stdout)

			r, _, failed = call(t, session, "run_code", map[string]any{"code": "print(get_weather(city='Oslo', days=1)['forecast'][0]['celsius'])"})
			require.False(t, failed)
			require.Equal(t, "completed", r.Status)
			require.Equal(t, "3.9\n", r.Stdout)
			require.Equal(t, 1, r.CallsMade)
			require.Equal(t, "get_weather", r.Calls[0].Tool)
			require.Nil(t, r.Truncated)

			r, _, failed = call(t, session, "run_code", map[string]any{"code": "print('before')\nraise ValueError('why')"})
			require.True(t, failed)
			require.Equal(t, "error", r.Status)
			require.Equal(t, "before\n", r.Stdout)
			require.Contains(t, r.Stderr, "ValueError: why")

			r, _, failed = call(t, session, "run_code", map[string]any{"code": "import time\ntime.sleep(60)", "timeout_s": 1})
			require.True(t, failed)
			require.Equal(t, "timeout", r.Status)

			// Long outputs come in parts, and nothing is lost between them.
			r, _, _ = call(t, session, "run_code", map[string]any{"code": "for i in range(9000): print('ä', i)"})
			whole := r.Stdout
			for r.Truncated != nil && r.Truncated.Next > 0 {
				r, _, _ = call(t, session, "resume_code", map[string]any{"execution": r.Execution, "offset": r.Truncated.Next})
				whole += r.Stdout
			}
			require.Equal(t, 9000, strings.Count(whole, "\n"))
			require.True(t, strings.HasSuffix(whole, "ä 8999\n"))

			_, text, failed = call(t, session, "run_code", map[string]any{"code": "print(1)", "timeout_s": 1_000_000})
			require.True(t, failed)
			require.Contains(t, text, "timeout must not be longer")

			res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "run_code", Meta: mcp.Meta{"progressToken": "p"}, Arguments: map[string]any{
				"code": "import time\nget_weather(city='Oslo')\ntime.sleep(2.5)\nprint('done')",
			}})
			require.NoError(t, err)
			require.False(t, res.IsError)
			require.Eventually(t, func() bool {
				mu.Lock()
				defer mu.Unlock()
				return slices.ContainsFunc(told, func(text string) bool { return strings.Contains(text, "get_weather") })
			}, time.Minute, 10*time.Millisecond)
		}
		require.Positive(t, s.count("SELECT count(*) FROM tool_call_results WHERE tool_name = 'get_weather' AND status = 'completed'"))
	})
}

// A program that takes long goes on, and is fetched by its handle: by its user alone.
func TestLongProgramsOverMCP(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		ben := s.another("ben")
		for _, era := range eras() {
			session := s.agent(s.key, era, nil)
			r, _, _ := call(t, session, "run_code", map[string]any{"code": "import time\ntime.sleep(3)\nprint('late')", "wait_s": 0})
			require.Equal(t, "running", r.Status)
			_, text, failed := call(t, s.agent(ben, era, nil), "resume_code", map[string]any{"execution": r.Execution, "wait_s": 1})
			require.True(t, failed)
			require.Contains(t, text, "There is no such program")
			r, _, _ = call(t, session, "resume_code", map[string]any{"execution": r.Execution, "wait_s": 30})
			require.Equal(t, "completed", r.Status)
			require.Equal(t, "late\n", r.Stdout)
		}
	})
}

// careful is a program that makes two calls which somebody has to allow.
const careful = `
for city in ["Rome", "Oslo"]:
    try:
        print(get_weather(city=city, days=1)["city"])
    except ApprovalDenied as e:
        print(type(e).__name__, e.reason)
`

// A client that can ask the person in front of it does: the program goes on with what
// they say, and its code runs once. Where they say nothing, or the client cannot ask,
// the answer says where a person decides, and a model can only wait.
func TestApprovalsOverMCP(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		require.NoError(t, s.app.Approvals.Service.SetRule(t.Context(), approval.Rule{Toolset: "demo", Level: approval.Always}))
		var asked []*mcp.ElicitParams
		answers := func(list ...*mcp.ElicitResult) *mcp.ClientOptions {
			asked = nil
			return &mcp.ClientOptions{ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				asked = append(asked, r.Params)
				return list[min(len(asked), len(list))-1], nil
			}}
		}
		form := func(decision, reason string) *mcp.ElicitResult {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"decision": decision, "reason": reason}}
		}
		for _, era := range eras() {
			client := func(o *mcp.ClientOptions) *mcp.ClientSession { return s.agent(s.key, era, o) }
			const programs = "SELECT count(*) FROM tool_call_results WHERE tool_name = 'execute_code'"
			before := s.count(programs)

			r, _, failed := call(t, client(answers(form("allow", ""), form("refuse", "no need"))), "run_code", map[string]any{"code": careful})
			require.False(t, failed)
			require.Equal(t, "Rome\nApprovalDenied no need\n", r.Stdout, r.Stderr)
			require.Len(t, asked, 2)
			require.Contains(t, asked[0].Message, "get_weather of demo")
			require.Contains(t, asked[0].Message, `"city":"Rome"`)
			require.Equal(t, before+1, s.count(programs), "it ran once")

			r, _, _ = call(t, client(answers(&mcp.ElicitResult{Action: "decline"})), "run_code", map[string]any{"code": careful})
			require.Equal(t, 2, strings.Count(r.Stdout, "ApprovalDenied"), r.Stdout)
			require.Len(t, asked, 2)

			// What is put off is asked once, and stays.
			r, _, _ = call(t, client(answers(&mcp.ElicitResult{Action: "cancel"})), "run_code", map[string]any{"code": careful})
			require.Equal(t, "paused", r.Status)
			require.Len(t, asked, 1)
			require.Len(t, r.Pending, 1)
			require.Equal(t, s.app.Config.Server.Endpoint+"/console/approvals/"+r.Pending[0].Call, r.Pending[0].URL)
			r, _, _ = call(t, client(answers(form("allow", ""))), "resume_code", map[string]any{"execution": r.Execution, "wait_s": 30})
			require.Equal(t, "Rome\nOslo\n", r.Stdout, "it is asked about again where somebody waits for it")

			// Arguments that cannot be shown whole are not asked about here.
			long := "try:\n    save_note(title='t', text='x' * 3000)\nexcept ToolExecutionError as e:\n    print(e.code)"
			r, _, _ = call(t, client(answers(form("allow", ""))), "run_code", map[string]any{"code": long})
			require.Equal(t, "paused", r.Status)
			require.Empty(t, asked)
			require.Equal(t, http.StatusOK, s.decide(r.Pending[0].Call, "refuse").status)

			session := client(nil)
			r, _, _ = call(t, session, "run_code", map[string]any{"code": careful})
			require.Equal(t, "paused", r.Status)
			require.Empty(t, asked)
			r, _, _ = call(t, session, "resume_code", map[string]any{"execution": r.Execution, "wait_s": 1})
			require.Equal(t, "paused", r.Status, "it only waits")
			done := make(chan ran, 1)
			go func() {
				r, _, _ := call(t, session, "resume_code", map[string]any{"execution": r.Execution, "wait_s": 30})
				done <- r
			}()
			for range 2 {
				require.Equal(t, http.StatusOK, s.decide(s.waits(1)[0].CallID, "allow").status)
			}
			require.Equal(t, "Rome\nOslo\n", (<-done).Stdout)
		}
	})
}

// What a client keeps between a question and its answer counts for its user and its
// call only, and as often as it comes.
func TestAnswersOverMCPBelongToTheirCall(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		require.NoError(t, s.app.Approvals.Service.SetRule(t.Context(), approval.Rule{Toolset: "demo", Level: approval.Always}))
		byHand := func(key string) *mcp.ClientSession {
			return s.agent(key, "2026-07-28", &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{}}, MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true}})
		}
		ask := func(session *mcp.ClientSession, p *mcp.CallToolParams) *mcp.CallToolResult {
			t.Helper()
			got, err := session.CallTool(t.Context(), p)
			require.NoError(t, err)
			return got
		}
		session := byHand(s.key)
		code := map[string]any{"code": careful}
		first := ask(session, &mcp.CallToolParams{Name: "run_code", Arguments: code})
		require.True(t, first.NeedsInput())
		require.NotContains(t, first.RequestState, s.waits(1)[0].CallID, "it is sealed")
		answer := func(decision string) mcp.InputResponseMap {
			m := mcp.InputResponseMap{}
			for id := range first.InputRequests {
				m[id] = &mcp.ElicitResult{Action: "accept", Content: map[string]any{"decision": decision}}
			}
			return m
		}
		for what, got := range map[string]*mcp.CallToolResult{
			"another user": ask(byHand(s.another("ben")), &mcp.CallToolParams{Name: "run_code", Arguments: code, RequestState: first.RequestState, InputResponses: answer("allow")}),
			"another call": ask(session, &mcp.CallToolParams{Name: "run_code", Arguments: map[string]any{"code": "print(1)"}, RequestState: first.RequestState, InputResponses: answer("allow")}),
			"another tool": ask(session, &mcp.CallToolParams{Name: "run_code_readonly", Arguments: code, RequestState: first.RequestState, InputResponses: answer("allow")}),
			"changed":      ask(session, &mcp.CallToolParams{Name: "run_code", Arguments: code, RequestState: first.RequestState[2:], InputResponses: answer("allow")}),
		} {
			require.True(t, got.IsError, what)
			require.Contains(t, got.Content[0].(*mcp.TextContent).Text, "requestState belongs to no such call", what)
		}
		nonsense := ask(session, &mcp.CallToolParams{Name: "run_code", Arguments: code, RequestState: first.RequestState, InputResponses: answer("yes")})
		require.True(t, nonsense.IsError)
		require.Contains(t, nonsense.Content[0].(*mcp.TextContent).Text, `decision \"yes\" is none of`)
		require.Len(t, s.waits(1), 1, "nothing was decided")
		second := ask(session, &mcp.CallToolParams{Name: "run_code", Arguments: code, RequestState: first.RequestState, InputResponses: answer("allow")})
		require.True(t, second.NeedsInput(), "the second call of the program")
		// The same answer again, as after a lost one: it is not taken for the second call.
		again := ask(session, &mcp.CallToolParams{Name: "run_code", Arguments: code, RequestState: first.RequestState, InputResponses: answer("refuse")})
		require.True(t, again.NeedsInput())
		require.Len(t, s.waits(1), 1)
		first = second
		done := ask(session, &mcp.CallToolParams{Name: "run_code", Arguments: code, RequestState: second.RequestState, InputResponses: answer("allow")})
		require.False(t, done.IsError)
		require.Contains(t, done.Content[0].(*mcp.TextContent).Text, `Rome\nOslo\n`)
		require.Equal(t, 1, s.count("SELECT count(*) FROM tool_call_results WHERE tool_name = 'execute_code'"))
	})
}

// Files that a program left are read as resources, by their user alone, as its run is.
func TestResourcesOverMCP(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		ben := s.another("ben")
		for _, era := range eras() {
			session := s.agent(s.key, era, nil)
			got, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "run_code", Arguments: map[string]any{"canvas": "new", "code": "open('a.txt', 'w').write('hé')\nopen('b.bin', 'wb').write(bytes([0, 255]))"}})
			require.NoError(t, err)
			require.False(t, got.IsError, got.Content[0])
			require.Len(t, got.Content, 3)
			contents := map[string]*mcp.ResourceContents{}
			var links []string
			for _, c := range got.Content[1:] {
				link, ok := c.(*mcp.ResourceLink)
				require.True(t, ok)
				links = append(links, link.URI)
				read, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: link.URI})
				require.NoError(t, err)
				contents[link.Name] = read.Contents[0]
			}
			require.Equal(t, "hé", contents["a.txt"].Text)
			require.Equal(t, []byte{0, 255}, contents["b.bin"].Blob)
			text, err := json.Marshal(got.StructuredContent)
			require.NoError(t, err)
			var said struct{ Run, Canvas string }
			require.NoError(t, json.Unmarshal(text, &said))
			of, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: said.Run})
			require.NoError(t, err)
			require.Contains(t, of.Contents[0].Text, `"canvas":"`+said.Canvas+`"`)
			require.Contains(t, of.Contents[0].Text, `"status":"finish"`)
			r, _, _ := call(t, session, "run_code", map[string]any{"canvas": said.Canvas, "code": "print(open('a.txt').read())"})
			require.Equal(t, "hé\n", r.Stdout)

			page, err := session.ListResources(t.Context(), nil)
			require.NoError(t, err)
			require.True(t, slices.ContainsFunc(page.Resources, func(r *mcp.Resource) bool { return r.URI == said.Run }))
			other := s.agent(ben, era, nil)
			theirs, err := other.ListResources(t.Context(), nil)
			require.NoError(t, err)
			require.Empty(t, theirs.Resources)
			for _, uri := range append(links, said.Run, "portico://files/none") {
				_, err := other.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
				require.ErrorContains(t, err, "Resource not found", uri)
			}
		}
		session, n := s.agent(s.key, "2026-07-28", nil), 0
		for i := range 60 {
			_, err := s.app.Runs.Service.Create(t.Context(), s.first(), run.CreateParams{Title: fmt.Sprint("run ", i)})
			require.NoError(t, err)
		}
		for _, err := range session.Resources(t.Context(), nil) {
			require.NoError(t, err)
			n++
		}
		require.Equal(t, s.count("SELECT count(*) FROM action_results"), n, "every page of them")
	})
}

// Code that only reads is refused every call that may change something, whatever the
// policy says, and is told so in words that a model can use.
func TestCodeThatOnlyReadsOverMCP(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		session := s.agent(s.key, "2026-07-28", nil)
		const code = `
print(get_weather(city="Oslo", days=1)["city"])
try:
    print(save_note(title="t", text="x")["saved"])
except ToolExecutionError as e:
    print(e.code, e)
`
		r, _, _ := call(t, session, "run_code_readonly", map[string]any{"code": code})
		require.Contains(t, r.Stdout, "Oslo\nCALLER_NOT_ALLOWED ", r.Stderr)
		require.Contains(t, r.Stdout, "may only read")
		r, _, _ = call(t, session, "run_code", map[string]any{"code": code})
		require.Equal(t, "Oslo\nt\n", r.Stdout, r.Stderr)
	})
}

// Clients that others wrote, unmodified, of both eras and both languages: they find the
// tools, run programs, are told of calls and of mistakes, and ask the person in front
// of them where their protocol can.
func TestClientsOfOthersOverMCP(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	root := testenv.Need(t, "PORTICO_MCP", "tools/mcp.sh installs the clients")
	modules := filepath.Join(root, "node_modules")
	clients := map[string][]string{
		"Python, newer":     {filepath.Join(root, "python/bin/python"), "testdata/mcp_client.py"},
		"Python, older":     {filepath.Join(root, "python-legacy/bin/python"), "testdata/mcp_client_legacy.py"},
		"TypeScript, first": {"node", "testdata/mcp_client.mjs", "v1", modules},
		"TypeScript, later": {"node", "testdata/mcp_client.mjs", "v2", modules},
	}
	each(t, func(t *testing.T, s *instance) {
		require.NoError(t, s.app.Approvals.Service.SetRule(t.Context(), approval.Rule{Toolset: "demo", Tool: "save_note", Level: approval.Always}))
		programs, err := json.Marshal([]string{
			`cities = ["Oslo", "Rome", "Lima", "Cairo", "Tokyo"]
print(len(await asyncio.gather(*(get_weather(city=c, days=1) for c in cities))))`,
			"raise ValueError('why')",
			"print(1)",
			saving("t", "u"), saving("t"), saving("t"), saving("x' * 3000 + 'x"),
		})
		require.NoError(t, err)
		const allow, refuse, cancel = `{"action":"accept","content":{"decision":"allow"}}`, `{"action":"accept","content":{"decision":"refuse","reason":"no need"}}`, `{"action":"cancel"}`
		answers := "[" + strings.Join([]string{allow, refuse, `{"action":"decline"}`, cancel, cancel}, ",") + "]"
		for name, command := range clients {
			// One client that can ask, and one that does not say so.
			both := drives[[]seenByOthers](t, append(command, s.url+"/mcp", string(programs), "["+answers+",null]"), "KEY="+s.key)
			require.Len(t, both, 2, name)
			for i, seen := range both {
				require.ElementsMatch(t, []string{"search_tools", "describe_tool", "run_code", "run_code_readonly", "resume_code"}, seen.Tools, name)
				require.Equal(t, "5\n", seen.Results[0].Value.Stdout, name)
				require.Equal(t, 5, seen.Results[0].Value.CallsMade, name)
				require.Contains(t, seen.Results[0].Text, `"calls_made":5`, name)
				require.GreaterOrEqual(t, len(seen.Progress), 5, "%s: each call: %v", name, seen.Progress)
				require.Contains(t, seen.Progress[0], "get_weather", name)
				require.True(t, seen.Results[1].Error, name)
				require.Contains(t, seen.Results[1].Value.Stderr, "ValueError: why", name)
				require.False(t, seen.Results[2].Error, name)
				require.Zero(t, seen.Results[2].Value.CallsMade, name)
				require.Contains(t, seen.Resource, `"status":"finish"`, name)
				want := "2025-11-25"
				if name == "Python, newer" {
					want = "2026-07-28"
				}
				require.Equal(t, want, seen.Version, name)
				asking := seen.Results[3:]
				if i == 1 {
					require.Empty(t, seen.Asked, name)
					s.pausedOnly(asking, name)
					continue
				}
				require.Equal(t, "saved t\ndenied no need\n", asking[0].Value.Stdout, name)
				require.Equal(t, "denied No reason was given.\n", asking[1].Value.Stdout, name)
				s.pausedOnly(asking[2:], name)
				require.GreaterOrEqual(t, len(seen.Asked), 4, name)
				for _, question := range seen.Asked[:4] {
					require.Contains(t, question, "save_note of demo", name)
				}
				for _, question := range seen.Asked[4:] { // those that open pages are shown one for the long note
					require.Equal(t, "A call of save_note waits for your decision.", question, name)
				}
			}
		}
	})
}

// saving is a program that saves notes, and says of each how that ended.
func saving(titles ...string) string {
	return "for title in ['" + strings.Join(titles, "', '") + `']:
    try:
        print("saved", save_note(title='t', text=title)["saved"])
    except ApprovalDenied as e:
        print("denied", e.reason)`
}

// seenResult is how a program ended, as a client of others saw it.
type seenResult struct {
	Error bool
	Value ran
	Text  string
}

// seenByOthers is what a client of others prints.
type seenByOthers struct {
	Version, Resource      string
	Tools, Asked, Progress []string
	Results                []seenResult
}

// drives runs a client that others wrote.
func drives[T any](t *testing.T, command []string, env ...string) (seen T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	// Nothing here is TLS; the clients in Python would parse every certificate of the system.
	cmd.Env = append(append(os.Environ(), "SSL_CERT_DIR="+t.TempDir()), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%v: %s", command, &stderr)
	require.NoError(t, json.Unmarshal(out, &seen), "%s", out)
	return seen
}

// pausedOnly checks that programs wait for a person in the console, and refuses their
// calls.
func (s *instance) pausedOnly(list []seenResult, name string) {
	s.t.Helper()
	for i, r := range slices.Backward(list) {
		require.Equal(s.t, "paused", r.Value.Status, "%s, %d", name, i)
		require.Contains(s.t, r.Value.Pending[0].URL, "/console/approvals/", name)
		require.Equal(s.t, http.StatusOK, s.decide(r.Value.Pending[0].Call, "refuse").status)
	}
	if len(list) == 4 { // the first saves another one
		require.Equal(s.t, http.StatusOK, s.decide(s.waits(1)[0].CallID, "refuse").status)
	}
}

// A client that only starts processes has the same server over standard input and
// output, in both eras.
func TestMCPOverStandardInput(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		for _, era := range eras() {
			toBridge, fromClient := io.Pipe()
			toClient, fromBridge := io.Pipe()
			ended := make(chan error, 1)
			go func() {
				ended <- stdio.Bridge{URL: s.url + "/mcp", Key: s.key, Client: http.DefaultClient}.Serve(t.Context(), toBridge, fromBridge)
			}()
			var mu sync.Mutex
			var told []string
			client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
				ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
					mu.Lock()
					defer mu.Unlock()
					told = append(told, r.Params.Message)
				},
			})
			session, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: toClient, Writer: fromClient}, &mcp.ClientSessionOptions{ProtocolVersion: era})
			require.NoError(t, err)
			var wg sync.WaitGroup
			for i := range 4 {
				wg.Go(func() {
					r, _, _ := call(t, session, "run_code", map[string]any{"code": fmt.Sprintf("print(%d, get_weather(city='Oslo', days=1)['city'])", i)})
					if want := fmt.Sprintf("%d Oslo\n", i); r.Stdout != want {
						t.Errorf("%q instead of %q", r.Stdout, want)
					}
				})
			}
			wg.Wait()
			got, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "run_code", Meta: mcp.Meta{"progressToken": "p"}, Arguments: map[string]any{"code": "get_weather(city='Oslo')"}})
			require.NoError(t, err)
			require.False(t, got.IsError)
			require.Eventually(t, func() bool { // clients hand them on in their own time
				mu.Lock()
				defer mu.Unlock()
				return slices.Equal(told, []string{"call 1: get_weather"})
			}, time.Minute, 10*time.Millisecond)
			var run struct{ Run string }
			require.NoError(t, json.Unmarshal([]byte(got.Content[0].(*mcp.TextContent).Text), &run))
			read, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: run.Run})
			require.NoError(t, err)
			require.Contains(t, read.Contents[0].Text, "resultId")

			// A call that is given up ends the program that it began.
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				_, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "run_code", Arguments: map[string]any{"code": "import time\ntime.sleep(100)"}})
				done <- err
			}()
			const running = "SELECT count(*) FROM tool_call_results WHERE tool_name = 'execute_code' AND status = 'executing'"
			require.Eventually(t, func() bool { return s.count(running) == 1 }, time.Minute, 10*time.Millisecond)
			cancel()
			require.ErrorIs(t, <-done, context.Canceled)
			require.Eventually(t, func() bool { return s.count(running) == 0 }, time.Minute, 10*time.Millisecond)

			require.NoError(t, session.Close())
			require.NoError(t, fromClient.Close())
			require.NoError(t, <-ended)
		}
		var out bytes.Buffer
		in := strings.NewReader(`{"jsonrpc":"2.0","id":7,"method":"tools/list"}` + "\n")
		wrong := stdio.Bridge{URL: s.url + "/mcp", Key: "rf_wrong", Client: http.DefaultClient}
		require.NoError(t, wrong.Serve(t.Context(), in, &out))
		require.Contains(t, out.String(), `"id":7`)
		require.Contains(t, out.String(), "401")
	})
}

// A key that may run programs and no more does that: it reads nothing, decides nothing
// and makes nothing else, also not with a question that another key was asked.
func TestKeysWithScopesOverMCP(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		require.NoError(t, s.app.Approvals.Service.SetRule(t.Context(), approval.Rule{Toolset: "demo", Level: approval.Always}))
		code := map[string]any{"code": careful}
		client := func(key string) *mcp.ClientSession {
			return s.agent(key, "2026-07-28", &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{}}, MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true}})
		}
		narrow := client(s.scoped("run"))
		r, _, _ := call(t, narrow, "run_code", code)
		require.Equal(t, "paused", r.Status, "it may not decide, so that it is not asked")
		require.Equal(t, http.StatusOK, s.decide(r.Pending[0].Call, "refuse").status)
		require.Equal(t, http.StatusOK, s.decide(s.waits(1)[0].CallID, "refuse").status)
		r, _, _ = call(t, narrow, "resume_code", map[string]any{"execution": r.Execution, "wait_s": 30})
		require.Equal(t, "completed", r.Status)
		_, err := narrow.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: r.Run})
		require.ErrorContains(t, err, "This key has the scopes run only.")
		_, err = narrow.ListResources(t.Context(), nil)
		require.ErrorContains(t, err, "This key has the scopes run only.")
		_, text, failed := call(t, narrow, "run_code", map[string]any{"code": "print(1)", "canvas": "new"})
		require.True(t, failed)
		require.Contains(t, text, "This key has the scopes run only.")

		asked, err := client(s.key).CallTool(t.Context(), &mcp.CallToolParams{Name: "run_code", Arguments: code})
		require.NoError(t, err)
		require.True(t, asked.NeedsInput())
		answers := mcp.InputResponseMap{}
		for id := range asked.InputRequests {
			answers[id] = &mcp.ElicitResult{Action: "accept", Content: map[string]any{"decision": "allow"}}
		}
		got, err := narrow.CallTool(t.Context(), &mcp.CallToolParams{Name: "run_code", Arguments: code, RequestState: asked.RequestState, InputResponses: answers})
		require.NoError(t, err)
		require.True(t, got.IsError)
		require.Len(t, s.waits(1), 1, "nothing was decided")

		both := client(s.scoped("run", "read"))
		_, err = both.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: r.Run})
		require.NoError(t, err)
		for _, scope := range []string{"read", "tools"} {
			a := s.send(s.scoped(scope), "POST", "/mcp", map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, "Accept", "application/json, text/event-stream")
			require.Equal(t, http.StatusForbidden, a.status, a.raw)
		}
	})
}
