package app_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// toolOf is one tool of a toolset as it is answered.
func toolOf(t *testing.T, toolset map[string]any, name string) map[string]any {
	t.Helper()
	for _, one := range toolset["tools"].([]any) {
		if tool := one.(map[string]any); tool["name"] == name {
			return tool
		}
	}
	t.Fatalf("%v has no tool %s", toolset["key"], name)
	return nil
}

// One toolset is all that there is to know of it: how programs call its tools,
// what they cost, and what is given to have it.
func TestOneToolsetIsDescribedWhole(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		for _, list := range []string{"/v1/tool/inventory/list", "/v1/tool/user/list"} {
			var keys []struct{ Key string }
			a := s.send(s.key, "GET", list, nil)
			require.NoError(t, json.Unmarshal(a.body.Data, &keys), a.raw)
			require.NotEmpty(t, keys)
			for _, k := range keys {
				require.Equal(t, k.Key, s.read(s.key, "GET", "/v1/tool/toolset/"+k.Key, nil)["key"])
			}
		}
		demo := s.read(s.key, "GET", "/v1/tool/toolset/demo", nil)
		require.Equal(t, "ready", demo["state"])
		weather := toolOf(t, demo, "get_weather")
		require.Contains(t, weather["line"], "get_weather(")
		require.Contains(t, weather["line"], "city")
		require.Equal(t, []any{"direct", "code"}, weather["callers"])
		require.NotEmpty(t, weather["inputSchema"].(map[string]any)["properties"])
		a := s.send(s.key, "POST", "/v1/tool/execute", `{"toolsetKey":"demo","toolName":"get_weather","arguments":{"city":"Oslo","file_name_title":"x"}}`)
		require.Equal(t, 200, a.status, a.raw)
		report := s.read(s.key, "GET", "/v1/credit/report?by=tool", nil)
		require.Equal(t, report["charged"], weather["price"].(map[string]any)["credits"], "a call costs what was announced")
		require.Equal(t, "ready", s.read(s.key, "GET", "/v1/tool/toolset/get_time", nil)["state"])
		missing := s.send(s.key, "GET", "/v1/tool/toolset/nothing", nil)
		require.Equal(t, 404, missing.status, missing.raw)
	})
}

// What is planted as a credential is in no answer, and the state says what is
// missing.
func TestAToolsetSaysWhatIsMissingAndNoCredential(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		s.apply(t, map[string]string{"private.yaml": `
key: private
name: Private
domain: https://private.invalid
global: false
labels: {en: Private}
descriptions: {en: A toolset that asks for a key}
authPatterns:
  - type: credentials
    credentialItems: [{key: apiKey, inputMode: text, required: true}]
configItems: [{key: region, inputMode: text}]
credential: {type: header, name: X-Key, value: planted-shared}
billing: 1
methods:
  - {name: look, description: Look something up., endpoint: /look, method: GET, request: {type: object, properties: {q: {type: string}}}}
`})
		const path = "/v1/tool/toolset/private"
		before := s.read(s.key, "GET", path, nil)
		require.Equal(t, "needs_key", before["state"])
		require.Len(t, before["authPatterns"], 1)
		require.Len(t, before["configItems"], 1)
		look := toolOf(t, before, "look")
		require.Contains(t, look["line"], "look(")
		require.Equal(t, true, look["readOnly"])
		require.Nil(t, look["price"])

		made := s.read(s.key, "POST", "/v1/tool/toolset/create", `{"name":"Mine","key":"private","authType":"credentials","authData":{"apiKey":"planted-own"},"config":{"region":"north"}}`)
		mine := s.send(s.key, "GET", path, nil)
		require.NotContains(t, mine.raw, "planted")
		ready := s.read(s.key, "GET", path, nil)
		require.Equal(t, "ready", ready["state"])
		require.Equal(t, "Mine", ready["name"])
		require.Equal(t, map[string]any{"region": "north"}, ready["toolset"].(map[string]any)["config"])
		require.Nil(t, toolOf(t, ready, "look")["price"], "a user's own toolset is not billed")
		require.Equal(t, "needs_key", s.read(s.another("ben"), "GET", path, nil)["state"], "another user has none")
		s.read(s.key, "POST", "/v1/tool/toolset/update", map[string]any{"toolsetId": made["toolsetId"], "enabled": false})
		require.Equal(t, "off", s.read(s.key, "GET", path, nil)["state"])
		s.read(s.key, "POST", "/v1/tool/toolset/update", map[string]any{"toolsetId": made["toolsetId"], "enabled": true})

		require.Equal(t, 200, s.send(s.key, "POST", "/v1/mcp/servers", `{"name":"docs","url":"https://mcp.invalid/mcp","headers":{"Authorization":"Bearer planted-mcp"}}`).status)
		server := s.send(s.key, "GET", "/v1/tool/toolset/docs", nil)
		require.NotContains(t, server.raw, "planted")
		docs := s.read(s.key, "GET", "/v1/tool/toolset/docs", nil)
		require.Equal(t, "broken", docs["state"])
		require.NotEmpty(t, docs["problem"])
		require.Equal(t, "mcp", docs["type"])
		require.NotEmpty(t, docs["health"].(map[string]any)["reason"])
		require.Equal(t, 404, s.send(s.another("carl"), "GET", "/v1/tool/toolset/docs", nil).status)
	})
}
