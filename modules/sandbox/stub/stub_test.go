package stub_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/sandbox"
	"github.com/portico-run/portico/modules/sandbox/stub"
)

// The table and the rules of docs/wire/code-interpreter.md#names-of-tools.
func TestNames(t *testing.T) {
	t.Parallel()
	for tool, want := range map[string][3]string{ // Python, bash, JavaScript
		"get-weather":     {"get_weather", "get_weather", "get_weather"},
		"my tool":         {"my_tool", "my_tool", "my_tool"},
		"for":             {"for_tool", "for_tool", "for_tool"},
		"123data":         {"_123data", "_123data", "_123data"},
		"a.b:c/d":         {"abcd", "a_bcd", "abcd"},
		"match":           {"match", "match", "match"},
		"print":           {"print", "print", "print"},
		"None":            {"None_tool", "None", "None"},
		"declare":         {"declare", "declare_tool", "declare"},
		"function":        {"function", "function_tool", "function_tool"},
		"tab\there":       {"tab_here", "tab_here", "tab_here"},
		"no\u00a0break":   {"no_break", "no_break", "no_break"},
		"größe":           {"gre", "gre", "gre"},
		"🙂":               {"", "", ""},
		"-":               {"_", "_", "_"},
		"search_mcp_X-1 ": {"search_mcp_X_1_", "search_mcp_X_1_", "search_mcp_X_1_"},
	} {
		for i, l := range []sandbox.Language{sandbox.Python, sandbox.Bash, sandbox.JavaScript} {
			require.Equal(t, want[i], stub.Name(l, tool), "%s in %s", tool, l)
		}
		require.Equal(t, want[2], stub.Name(sandbox.TypeScript, tool), "%s in TypeScript", tool)
	}
}

func TestParameters(t *testing.T) {
	t.Parallel()
	s := stub.New(sandbox.Python, stub.Tool{
		Name: "get-weather", Description: " The weather.\n", Toolset: "demo", Returns: "{sky: str}",
		Schema: json.RawMessage(`{"type":"object","properties":{
			"file_name_title":{"type":"string"},"unit":{"type":"string","enum":["c","f"],"description":"Which\n  scale"},"city":{"type":"string","description":"Where"},
			"days":{"type":["integer","null"]},"odd":true},"required":["city","file_name_title"],"additionalProperties":false}`),
	})
	require.Equal(t, sandbox.Stub{
		Identifier: "get_weather", Name: "get-weather", Toolset: "demo",
		Parameters: []sandbox.Parameter{{Name: "city", Required: true}, {Name: "unit"}, {Name: "days"}, {Name: "odd"}, {Name: "file_name_title"}},
		Doc: `The weather.

Parameters:
    unit (one of "c", "f", optional): Which scale
    city (string): Where
    days (integer or null, optional)
    odd (any, optional)
    file_name_title (string, optional)

Returns {sky: str}. Raises ToolExecutionError when the call fails.`,
	}, s)
	for _, text := range []string{``, `null`, `{}`, `5`, `{"properties":5}`, `{"type":"object","properties":{}}`, `{"properties":null}`, `[]`, `{"required":"x"}`} {
		s := stub.New(sandbox.Python, stub.Tool{Name: "x", Schema: json.RawMessage(text)})
		require.True(t, s.Open, text)
		require.Empty(t, s.Parameters, text)
	}
	require.True(t, stub.New(sandbox.Python, stub.Tool{Name: "x", Schema: json.RawMessage(`{"properties":{"a":{}},"additionalProperties":{"type":"string"}}`)}).Open)
	require.False(t, stub.New(sandbox.Python, stub.Tool{Name: "x", Schema: json.RawMessage(`{"properties":{"a":{}}}`)}).Open)
}

// A required parameter is null on purpose where its schema allows that.
func TestParametersThatMayBeNull(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]bool{
		`{}`: true, `{"type":"null"}`: true, `{"type":["string","null"]}`: true, `{"type":"string"}`: false, `{"type":["string","integer"]}`: false,
		`{"type":"string","nullable":true}`: true, `{"anyOf":[{"type":"string"},{"type":"null"}]}`: true, `{"oneOf":[{"type":"string"},{"type":"integer"}]}`: false,
		`{"enum":["a",null]}`: true, `{"enum":["a"]}`: false, `{"enum":[]}`: false, `{"const":null}`: true, `{"const":1}`: false,
		`{"allOf":[{"type":["string","null"]},{"type":"string"}]}`: false, `{"allOf":[{"type":["string","null"]}]}`: true,
		`{"description":"Anything"}`: true, `{"$ref":"#/x"}`: true, `{"anyOf":5}`: false, `5`: false, `{"type":5}`: false,
	} {
		s := stub.New(sandbox.Python, stub.Tool{Name: "x", Schema: json.RawMessage(`{"properties":{"a":` + schema + `,"b":` + schema + `},"required":["a"]}`)})
		require.Equal(t, []sandbox.Parameter{{Name: "a", Required: true, Nullable: want}, {Name: "b"}}, s.Parameters, schema)
	}
}
