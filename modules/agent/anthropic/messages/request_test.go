package messages_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/agent/anthropic/history"
	"github.com/portico-run/portico/modules/agent/anthropic/messages"
	"github.com/portico-run/portico/modules/agent/anthropic/offer"
	"github.com/portico-run/portico/modules/agent/anthropic/wire"
	"github.com/portico-run/portico/modules/agent/dialogue"
	"github.com/portico-run/portico/modules/model"
	"github.com/portico-run/portico/modules/tool/approval"
)

// nothing waits.
type nothing struct{}

func (nothing) Waits(context.Context, actor.Actor, []string) (bool, error) { return false, nil }

func reader() messages.Reader {
	return messages.Reader{History: history.Reader{Waiting: nothing{}}, Offer: offer.Reader{Tools: 4, Endpoint: "https://portico.test/mcp"}}
}

// body is a request with these members besides those that each has.
func body(members string) []byte {
	if !strings.Contains(members, `"messages"`) {
		members += `,"messages":[{"role":"user","content":"Hello"}]`
	}
	return []byte(`{"model":"m","max_tokens":100,` + strings.TrimPrefix(members, ",") + `}`)
}

func read(t *testing.T, members string) messages.Asked {
	t.Helper()
	asked, err := reader().Read(t.Context(), actor.Actor{UID: "u"}, body(members))
	require.NoError(t, err)
	return asked
}

const (
	codeTool = `{"type":"code_execution_20260521","name":"code_execution"}`
	order    = `{"name":"get_order","input_schema":{"type":"object"},"allowed_callers":["code_execution_20260521"]}`
	program  = `{"type":"server_tool_use","id":"srvtoolu_P","name":"code_execution","input":{"code":"print(1)"},"caller":{"type":"direct"}}`
	called   = `{"type":"tool_use","id":"toolu_c1","name":"get_order","input":{"id":1},"caller":{"type":"code_execution_20260120","tool_id":"srvtoolu_P"}}`
	said     = `{"role":"user","content":"Hello"}`
)

func assistant(blocks ...string) string {
	return `{"role":"assistant","content":[` + strings.Join(blocks, ",") + `]}`
}

func user(blocks ...string) string {
	return `{"role":"user","content":[` + strings.Join(blocks, ",") + `]}`
}

func talk(messages ...string) string { return `"messages":[` + strings.Join(messages, ",") + `]` }

// Each request is refused, in words that name what is wrong.
func TestRefusals(t *testing.T) {
	t.Parallel()
	const tools = `"tools":[` + codeTool + `,` + order + `]`
	for name, c := range map[string]struct{ members, code, says string }{
		"a thread":                  {`"thread":{"type":"create"}`, "thread_unsupported_request", "thread: "},
		"tokens":                    {`"max_tokens":0`, "", "max_tokens: "},
		"no messages":               {talk(), "", "messages: at least one message"},
		"a role":                    {talk(`{"role":"tool","content":""}`), "", "messages.0.role: "},
		"content":                   {talk(`{"role":"user","content":5}`), "", "messages.0.content: "},
		"a block of no type":        {talk(user(`{"text":"a"}`)), "", "messages.0.content.0: "},
		"a block of the user's":     {talk(user(`{"type":"video"}`)), "", "messages.0.content.0.type: "},
		"an image":                  {talk(user(`{"type":"image","source":{"type":"base64"}}`)), "", "messages.0.content.0.source: "},
		"an address":                {talk(user(`{"type":"image","source":{"type":"url","url":"file:///etc/passwd"}}`)), "", "messages.0.content.0.source.url: "},
		"a file":                    {talk(user(`{"type":"document","source":{"type":"file","file_id":"file_x"}}`)), "", "File not found: file_x"},
		"an upload":                 {talk(user(`{"type":"container_upload","file_id":"file_x"}`)), "", "File not found: file_x"},
		"too many tools":            {`"tools":[` + strings.Repeat(order+",", 4) + order + `]`, "available_tools_limit_exceeded", "tools: "},
		"a name twice":              {`"tools":[` + codeTool + `,` + order + `,` + order + `]`, "tool_name_conflict", "get_order"},
		"a name":                    {`"tools":[{"name":"a b","input_schema":{"type":"object"}}]`, "", "tools.0.name: "},
		"a schema":                  {`"tools":[{"name":"a","input_schema":[]}]`, "", "tools.0.input_schema: "},
		"a tool of another type":    {`"tools":[{"type":"bash_20250124","name":"bash"}]`, "", "tools.0.type: this server has no tool of type 'bash_20250124'"},
		"a caller":                  {`"tools":[{"name":"a","input_schema":{},"allowed_callers":["web"]}]`, "", "tools.0.allowed_callers: "},
		"a tool for nobody":         {`"tools":[` + order + `]`, "", "tools.0.allowed_callers: "},
		"the name of programs":      {`"tools":[{"type":"code_execution_20260521","name":"code"}]`, "", "tools.0.name: "},
		"programs twice":            {`"tools":[` + codeTool + `,` + codeTool + `]`, "", "tools.1: "},
		"a choice":                  {`"tool_choice":{"type":"tool","name":"a"}`, "", "tool_choice.name: "},
		"a choice of a code tool":   {tools + `,"tool_choice":{"type":"tool","name":"get_order"}`, "", "tool_choice.name: "},
		"skills":                    {`"container":{"skills":[{"type":"custom"}]}`, "", "container.skills: "},
		"a container":               {`"container":"x"`, "container_expired", "container: "},
		"a server without programs": {`"mcp_servers":[{"type":"url","name":"a","url":""}]`, "", "mcp_servers: "},
		"another server":            {tools + `,"mcp_servers":[{"type":"url","name":"a","url":"https://other.test/mcp"}]`, "", "mcp_servers.0.url: "},
		"a toolset of no server":    {`"tools":[` + codeTool + `,{"type":"mcp_toolset","mcp_server_name":"a"}]`, "", "tools.1.mcp_server_name: "},
		"an extension":              {`"portico":{"toolsets":["a"]}`, "", "portico: "},
		"an approval":               {tools + `,"portico":{"approval":"often"}`, "", "portico.approval: "},
		"a reference":               {talk(said, assistant(`{"type":"tool_use","id":"d","name":"find","input":{}}`), user(`{"type":"tool_result","tool_use_id":"d","content":[{"type":"tool_reference","tool_name":"nope"}]}`)), "tool_reference_unresolved", "'nope'"},
		"no result":                 {talk(said, assistant(program, called), said) + `,` + tools, "", "without `tool_result` blocks immediately after: toolu_c1"},
		"nothing after a call":      {talk(said, assistant(program, called)) + `,` + tools, "", "immediately after: toolu_c1"},
		"a result of no call":       {talk(said, assistant(program, called), user(`{"type":"tool_result","tool_use_id":"toolu_x"}`)) + `,` + tools, "", "unexpected `tool_use_id` found in `tool_result` blocks: toolu_x"},
		"a result too late":         {talk(said, assistant(program, called), said, said, user(`{"type":"tool_result","tool_use_id":"toolu_c1"}`), assistant(`{"type":"text","text":"a"}`), user(`{"type":"tool_result","tool_use_id":"toolu_c1"}`)) + `,` + tools, "", "blocks: toolu_c1"},
		"an orphan":                 {talk(said, assistant(called), user(`{"type":"tool_result","tool_use_id":"toolu_c1"}`)) + `,` + tools, "", "source tool `srvtoolu_P` not found for tool use block `toolu_c1`"},
		"an image for a program":    {talk(said, assistant(program, called), user(`{"type":"tool_result","tool_use_id":"toolu_c1","content":[{"type":"image","source":{"type":"url","url":"https://a.test/b.png"}}]}`)) + `,` + tools, "", "messages.2.content.0.content: "},
		"another format":            {`"output_config":{"format":{"type":"xml"}}`, "", "output_config.format: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := reader().Read(t.Context(), actor.Actor{UID: "u"}, body(c.members))
			e, ok := errors.AsType[*errs.Error](err)
			require.True(t, ok, "%v", err)
			require.Contains(t, e.Message, c.says)
			text, err := json.Marshal(wire.Refuse(e, "req_1"))
			require.NoError(t, err)
			var shown struct {
				Type  string
				Error struct {
					Type    string
					Details map[string]any
				}
				RequestID string `json:"request_id"`
			}
			require.NoError(t, json.Unmarshal(text, &shown))
			require.Equal(t, "error", shown.Type)
			require.Equal(t, "req_1", shown.RequestID)
			require.Contains(t, []string{"invalid_request_error", "not_found_error"}, shown.Error.Type)
			if c.code != "" {
				require.Equal(t, c.code, shown.Error.Details["error_code"])
			}
		})
	}
}

func TestToolsAndTheirCallers(t *testing.T) {
	t.Parallel()
	asked := read(t, `"tools":[`+codeTool+`,`+order+`,
		{"name":"both","description":"Both.","input_schema":{"type":"object"},"allowed_callers":["direct","code_execution_20250825"],"strict":true,"input_examples":[{"a": 1}]},
		{"name":"later","input_schema":{"type":"object"},"defer_loading":true,"cache_control":{"type":"ephemeral"}}]`)
	require.Equal(t, "code_execution_20260120", asked.View.Caller)
	type short struct {
		Name, Description              string
		Direct, Code, Strict, Deferred bool
	}
	var got []short
	for _, tool := range asked.Tools {
		got = append(got, short{tool.Name, tool.Description, tool.Direct, tool.Code, tool.Strict, tool.Deferred})
	}
	require.Equal(t, []short{
		{"get_order", "The tool get_order.", false, true, false, false},
		{"both", "Both.\n\nExamples of arguments:\n{\"a\":1}", true, true, true, false},
		{"later", "The tool later.", true, false, false, true},
	}, got)
	require.NotNil(t, asked.Programs)
	require.Nil(t, asked.Programs.Toolsets, "all of the user's")

	asked = read(t, `"tools":[{"type":"code_execution_20250825","name":"code_execution"},`+order+`],"tool_choice":{"type":"tool","name":"code_execution","disable_parallel_tool_use":true}`)
	require.Equal(t, "code_execution_20250825", asked.View.Caller)
	require.True(t, asked.Programs.Required)
	require.True(t, asked.OneByOne)

	asked = read(t, `"tools":[{"type":"code_execution_20250522","name":"code_execution"},{"name":"a","input_schema":{"type":"object"},"allowed_callers":["direct","code_execution_20250825"]}]`)
	require.False(t, asked.Tools[0].Code, "programs of the oldest version call no tools")
}

func TestServersAndTheExtension(t *testing.T) {
	t.Parallel()
	asked := read(t, `"tools":[`+codeTool+`,{"name":"portico_approval","input_schema":{"type":"object"}},
		{"type":"mcp_toolset","mcp_server_name":"b","default_config":{"enabled":false},"configs":{"x":{"enabled":true}}}],
		"mcp_servers":[{"type":"url","name":"a","url":"https://portico.test/mcp","tool_configuration":{"allowed_tools":["y"]}},{"type":"url","name":"b"},{"name":"c","tool_configuration":{"enabled":false}}],
		"portico":{"toolsets":["d"],"approval":"first","timeout_ms":5000}`)
	p := asked.Programs
	require.Equal(t, []string{"a", "b", "d"}, p.Toolsets)
	require.Equal(t, map[string][]string{"a": {"y"}, "b": {"x"}}, p.Selected)
	require.Equal(t, approval.First, p.Approval)
	require.EqualValues(t, 5e9, p.Timeout)
	require.True(t, p.Asks, "the client is shown calls that wait")
	require.Empty(t, asked.Tools, "the model does not have the tool that asks")
	require.Equal(t, []string{}, read(t, `"tools":[`+codeTool+`],"portico":{"toolsets":[]}`).Programs.Toolsets)
}

func TestOptions(t *testing.T) {
	t.Parallel()
	asked := read(t, `"system":[{"type":"text","text":"A","cache_control":{"type":"ephemeral"}},{"type":"text","text":"B"}],"temperature":0.5,"top_p":0.9,"top_k":5,
		"stop_sequences":["END"],"thinking":{"type":"enabled","budget_tokens":1024},"metadata":{"user_id":"x"},"service_tier":"auto","no_such":1,
		"output_config":{"effort":"low","format":{"type":"json_schema","schema":{"type":"object"}}},"container":{"id":"container_S"},"tools":[`+codeTool+`]`)
	require.Equal(t, "A\n\nB", asked.System)
	o := asked.Options
	require.EqualValues(t, 100, o.MaxOutput)
	require.InDelta(t, 0.5, *o.Temperature, 0)
	require.Equal(t, []string{"END"}, o.Stop)
	require.Equal(t, "low", o.Effort)
	require.JSONEq(t, `{"type":"object"}`, string(o.Format.Schema))
	require.Equal(t, model.Messages, o.NativeTo)
	require.Len(t, o.Native, 3)
	require.JSONEq(t, `{"type":"enabled","budget_tokens":1024}`, string(o.Native["thinking"]))
	require.Equal(t, "S", asked.Programs.Session)
}

// items are those of a conversation, a line each.
func items(t *testing.T, asked messages.Asked) string {
	t.Helper()
	var b strings.Builder
	for _, raw := range asked.Items {
		b.Write(raw)
		b.WriteString("\n")
	}
	return b.String()
}

// What came of programs is told as the model was told before; calls that programs made
// are no part of what it reads.
func TestHistory(t *testing.T) {
	t.Parallel()
	const tools = `"tools":[` + codeTool + `,` + order + `,{"name":"later","input_schema":{"type":"object"},"defer_loading":true}]`
	result := `{"type":"code_execution_tool_result","tool_use_id":"srvtoolu_P","content":{"type":"code_execution_result","stdout":"1\n","stderr":"","return_code":0,"content":[{"type":"code_execution_output","file_id":"file_1","filename":"a.txt"}]}}`
	asked := read(t, talk(said, assistant(`{"type":"text","text":"I see."}`, program, called), user(`{"type":"tool_result","tool_use_id":"toolu_c1","content":"x"}`),
		assistant(result, `{"type":"text","text":"One.","citations":null}`), said)+`,`+tools)
	require.Nil(t, asked.Continue)
	golden(t, "history_program.jsonl", items(t, asked))

	asked = read(t, talk(said, assistant(
		`{"type":"server_tool_use","id":"srvtoolu_S","name":"tool_search_tool_bm25","input":{"query":"q"}}`,
		`{"type":"tool_search_tool_result","tool_use_id":"srvtoolu_S","content":{"type":"tool_search_tool_search_result","tool_references":[{"type":"tool_reference","tool_name":"later"}]}}`,
		`{"type":"server_tool_use","id":"srvtoolu_B","name":"bash_code_execution","input":{"command":"ls"}}`,
		`{"type":"bash_code_execution_tool_result","tool_use_id":"srvtoolu_B","content":{"type":"bash_code_execution_result","stdout":"a"}}`,
		`{"type":"compaction","content":"x"}`, `{"type":"thinking","thinking":"t","signature":"of another server"}`,
		`{"type":"tool_use","id":"call_1","name":"later","input":{"a": 1}}`, `{"type":"tool_use","id":"call_2","name":"later","input":{}}`),
		user(`{"type":"tool_result","tool_use_id":"call_2","content":"no","is_error":true}`,
			`{"type":"tool_result","tool_use_id":"call_1","content":[{"type":"text","text":"see"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}}]}`,
			`{"type":"text","text":"And?"}`, `{"type":"document","title":"T","source":{"type":"text","media_type":"text/plain","data":"D"}}`))+`,`+tools)
	golden(t, "history_direct.jsonl", items(t, asked))
	require.False(t, asked.Tools[1].Deferred, "it was found before")
}

// A program that nobody waited for has an output that says so: providers refuse a
// conversation without it.
func TestAProgramThatWasLeftHasAnOutput(t *testing.T) {
	t.Parallel()
	asked := read(t, talk(said, assistant(program, called), user(`{"type":"tool_result","tool_use_id":"toolu_c1","content":"x"}`), assistant(`{"type":"text","text":"a"}`), said)+
		`,"tools":[`+codeTool+`]`)
	require.Len(t, asked.Items, 5)
	require.Contains(t, string(asked.Items[2]), "The program was left before it ended.")
}

func TestContinuation(t *testing.T) {
	t.Parallel()
	other := strings.NewReplacer("toolu_c1", "toolu_c2").Replace(called)
	ask := `{"type":"tool_use","id":"toolu_c3","name":"portico_approval","input":{},"caller":{"type":"code_execution_20260120","tool_id":"srvtoolu_P"}}`
	again := strings.NewReplacer("toolu_c3", "toolu_c4").Replace(ask)
	asked := read(t, talk(said, assistant(program, called, other, ask, again, `{"type":"tool_use","id":"call_9","name":"both","input":{}}`), user(
		`{"type":"tool_result","tool_use_id":"toolu_c1","content":"{\"total\": 10}"}`,
		`{"type":"tool_result","tool_use_id":"toolu_c2","content":"not found","is_error":true}`,
		`{"type":"tool_result","tool_use_id":"toolu_c3","content":"{\"decision\":\"allow\"}"}`,
		`{"type":"tool_result","tool_use_id":"toolu_c4","content":"{\"decision\":\"refuse\",\"reason\":\"No.\"}"}`,
		`{"type":"tool_result","tool_use_id":"call_9","content":"17"}`,
		`{"type":"text","text":"Hurry."}`))+`,"container":"container_S","tools":[`+codeTool+`]`)
	c := asked.Continue
	require.NotNil(t, c)
	require.Equal(t, "S", c.Session)
	require.True(t, c.Checked)
	require.Equal(t, []dialogue.Result{
		{CallID: "c1", As: "toolu_c1", Value: json.RawMessage(`{"total": 10}`), Text: `{"total": 10}`},
		{CallID: "c2", As: "toolu_c2", Text: "not found", Failed: true, Error: "not found"},
		{CallID: "call_9", As: "call_9", Value: json.RawMessage(`"17"`), Text: "17"},
	}, c.Results)
	require.Equal(t, []dialogue.Decision{{CallID: "c3", As: "toolu_c3", Allow: true}, {CallID: "c4", As: "toolu_c4", Reason: "No."}}, c.Decisions)
	require.Len(t, c.More, 1)
}

// What is neither yes nor no is no decision.
func TestADecisionIsClear(t *testing.T) {
	t.Parallel()
	ask := `{"type":"tool_use","id":"toolu_c3","name":"portico_approval","input":{},"caller":{"type":"code_execution_20260120","tool_id":"srvtoolu_P"}}`
	for text, good := range map[string]bool{`"allow"`: true, `"{\"decision\":\"refuse\"}"`: true, `"yes"`: false, `"{\"decision\":true}"`: false, `""`: false} {
		_, err := reader().Read(t.Context(), actor.Actor{UID: "u"}, body(talk(said, assistant(program, ask),
			user(`{"type":"tool_result","tool_use_id":"toolu_c3","content":`+text+`}`))+`,"tools":[`+codeTool+`]`))
		require.Equal(t, good, err == nil, "%s: %v", text, err)
	}
}
