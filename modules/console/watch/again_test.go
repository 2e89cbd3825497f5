package watch

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// Commands that make a call again have its arguments as they were, also numbers
// that are too large for JavaScript and texts with quotes.
func TestACallIsMadeAgainWithTheSameArguments(t *testing.T) {
	t.Parallel()
	c := call{ToolsetID: "demo", ToolName: "save_note"}
	arguments := json.RawMessage(`{"title":"it's <b>\\u003c é","n":9007199254740993,"deep":{"a":[true,null]}}`)
	require.Equal(t, `curl -sS "$URL/v1/tool/execute" -H "X-API-Key: $KEY" -H 'Content-Type: application/json' -d '`+
		`{"arguments":{"title":"it'\''s <b>\\u003c é","n":9007199254740993,"deep":{"a":[true,null]}},"toolName":"save_note","toolsetKey":"demo"}'`, curl(c, arguments))
	const imports = "from refly_tools.demo import Demo\nDemo.save_note("
	require.Equal(t, imports+`deep={"a": [True, None]}, n=9007199254740993, title="it's <b>\\u003c \u00e9")`, python(c, arguments))
	require.Equal(t, imports+`**{"a b": 1})`, python(c, json.RawMessage(`{"a b":1}`)))
	require.Equal(t, imports+`**{"from": 1, "to": 2})`, python(c, json.RawMessage(`{"from":1,"to":2}`)))
}

// A call that no class of the SDK makes for certain is no program.
func TestSomeCallsAreNoPrograms(t *testing.T) {
	t.Parallel()
	for key, tool := range map[string]string{
		"builtin": "complete", "execute_code": "execute_code", "portico": "load_file", "python_repl": "python_repl",
		"my-mail": "send", "class": "send", "docs": "send", "mail": "send-all", "": "send", "notes": "str", "a/b": "send", "any": "import",
	} {
		require.Empty(t, python(call{ToolsetID: key, ToolName: tool}, json.RawMessage(`{}`)), "%s.%s", key, tool)
	}
	require.Empty(t, python(call{ToolsetID: "mail", ToolName: "send"}, json.RawMessage(`{"cls":1}`)))
	require.Equal(t, "from refly_tools.any import Any_\nAny_.send()", python(call{ToolsetID: "any", ToolName: "send"}, json.RawMessage(`{}`)))
}

// What is coloured is the program, character by character.
func TestLinesAreTheProgram(t *testing.T) {
	t.Parallel()
	h, err := newHighlighter()
	require.NoError(t, err)
	for language, code := range map[string]string{
		"python":     "import os\n\n\ndef f(x: int) -> str:\n    '''a\n    b'''\n    return f\"{x} \\\"\"  # c\r\n",
		"bash":       "for i in 1 2; do echo \"$i\" | cat <<'E'\nx\nE\ndone",
		"javascript": "const a = `x ${1 + 2}\n`; // c\n",
		"json":       `{"a": [1, null, "]"]}`,
		"klingon":    "nuqneH\n",
	} {
		lines := h.lines(language, code)
		require.True(t, same(lines, code) || same(append(lines, Line{}), code), "%s: %v", language, lines)
		require.Equal(t, 1, lines[0].Number)
	}
	require.Equal(t, "k", h.lines("python", "import os")[0].Tokens[0].Kind)
}
