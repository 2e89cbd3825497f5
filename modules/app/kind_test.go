package app_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/money"
	"github.com/portico-run/portico/internal/testenv"
	"github.com/portico-run/portico/modules/billing/price"
	"github.com/portico-run/portico/modules/tool"
	"github.com/portico-run/portico/modules/toolset"
)

// echo is a kind of toolset that exists in this test alone. Its only tool says
// what it is told, and with which key.
type echo struct{}

func (echo) methods() []toolset.Method {
	return []toolset.Method{{Name: "say", Request: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`)}}
}

func (echo) Traits() toolset.Traits {
	return toolset.Traits{Kind: "echo", Type: "echo", AuthType: "echo"}
}

func (e echo) Resolve(ctx context.Context, _ actor.Actor, entry toolset.Entry) (toolset.Toolset, error) {
	t := entry.Toolset
	listing, err := entry.Listing(ctx)
	if err != nil {
		return t, err
	}
	t.Methods, t.Credential = e.methods(), entry.Credential(listing)
	t.Prices, err = price.NewPricer(120*money.Credit).ParseProvided(listing.Prices, nil)
	return t, err
}

func (echo) Method(_ context.Context, t toolset.Toolset, name string) (toolset.Method, toolset.Credential, error) {
	return t.Find(name)
}

func (e echo) Define(_ context.Context, entry toolset.Entry) (toolset.Definition, error) {
	return toolset.Definition{Key: entry.Toolset.Key, Name: entry.Toolset.Name, Tools: []toolset.ToolDefinition{e.methods()[0].Definition()}}, nil
}

func (echo) Execute(_ context.Context, in tool.Invocation) (tool.Outcome, error) {
	said, err := json.Marshal(map[string]any{"said": in.Arguments["text"], "key": in.Credential.Value.Reveal()})
	return tool.Outcome{Data: said}, err
}

// One package and one line of wiring are a kind of toolset: its toolsets are
// loaded, installed, listed, exported, called, recorded and billed as all are.
func TestANewKindOfToolsetIsOnePackage(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	for _, d := range databasetest.Of(t) {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, dir, "parrot.yaml", `{key: parrot, name: Parrot, type: echo, billing: 2, credential: {value: operators-key},
				authPatterns: [{type: credentials, credentialItems: [{key: apiKey, inputMode: text, required: true}]}]}`)
			s := serveWith(t, environ(t, databasetest.URL(t, d), "TOOLSETS_DIR="+dir), echo{})
			require.Empty(t, verbose(t, s))

			// Listed and exported, for people and for code.
			for _, path := range []string{"/v1/tool/inventory/list", "/v1/tool/toolset/list", "/v1/tool/list", "/v1/tool/user/list"} {
				require.Contains(t, s.send(s.key, "GET", path, nil).raw, `"key":"parrot"`, path)
			}
			require.Contains(t, s.send(s.key, "GET", "/v1/tool/inventory/list", nil).raw, `"type":"echo"`)
			exported := s.send(s.key, "GET", "/v1/tool/toolset/exportDefinitions", nil)
			require.Contains(t, exported.raw, `"key":"parrot"`)
			require.Contains(t, exported.raw, `"name":"say"`)

			// Called over the API: checked, recorded, billed once at the file's price.
			call := func(key, arguments string) (outcome, data string) {
				t.Helper()
				a := s.send(key, "POST", "/v1/tool/execute", `{"toolsetKey":"parrot","toolName":"say","arguments":`+arguments+`}`)
				require.Equal(t, 200, a.status, a.raw)
				var said struct {
					Status, ErrorCode string
					Data              json.RawMessage
				}
				require.NoError(t, json.Unmarshal(a.body.Data, &said))
				return said.Status + said.ErrorCode, string(said.Data)
			}
			status, data := call(s.key, `{"text":"hello"}`)
			require.Equal(t, "success", status)
			require.JSONEq(t, `{"said":"hello","key":"operators-key"}`, data)
			status, _ = call(s.key, `{}`)
			require.Equal(t, "errorINVALID_ARGUMENTS", status)
			billed := "SELECT count(*) FROM credit_usages u JOIN tool_call_results c ON c.call_id = u.tool_call_id WHERE c.toolset_id = 'parrot' AND c.status = 'completed' AND u.amount = 2"
			require.Equal(t, 1, s.count(billed))

			// From a program, with the generated SDK.
			o := s.run(map[string]any{"code": "from refly_tools.parrot import Parrot\nprint(Parrot.say(text='again')['data']['said'])"})
			require.Equal(t, "again\n", o.Stdout, o.Stderr)
			require.Equal(t, 2, s.count(billed))

			// A user's own has the user's key and costs nothing.
			other := s.another("other")
			a := s.send(other, "POST", "/v1/tool/toolset/create", `{"name":"Mine","key":"parrot","authType":"credentials","authData":{"apiKey":"my-key"}}`)
			require.Equal(t, 200, a.status, a.raw)
			require.Contains(t, a.raw, `"authType":"echo"`)
			_, data = call(other, `{"text":"mine"}`)
			require.JSONEq(t, `{"said":"mine","key":"my-key"}`, data)
			require.Equal(t, 2, s.count(billed))

			// A server that has the kind no more says so, and goes on.
			s.stop()
			s = serveWith(t, slices.Concat(s.env, []string{"DEMO_LISTEN=" + testenv.FreeAddress(t)}))
			require.Contains(t, verbose(t, s), "parrot.yaml")
			a = s.send(other, "POST", "/v1/tool/execute", `{"toolsetKey":"parrot","toolName":"say","arguments":{"text":"hello"}}`)
			require.Contains(t, a.raw, "Toolset parrot is of type echo, which this server cannot execute.")
			require.NotContains(t, s.send(other, "GET", "/v1/tool/list", nil).raw, "parrot")
		})
	}
}
