package anthropic_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/agenttest"
)

// A conversation that is too long for the model goes on: programs read again what was
// left out of it, and the client is told.
func TestLongConversations(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "models.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`models: [{name: scripted, baseUrl: "${MODEL_BASE_URL}", context: 6000}]`), 0o600))
	for _, streamed := range []bool{false, true} {
		s := agenttest.Serve(t, `
- output: [{call: {name: run_code, arguments: {code: "print('a' * 4000)"}}}]
- expect: ['earlier_output("call_scripted_0_0") returns it as a text.]']
  reject: ["aaaaaa"]
  output: [{call: {name: run_code, arguments: {code: "print(len(earlier_output(\"call_scripted_0_0\")))"}}}]
- expect: ["4001"]
  output: [{text: "Read."}]
`, "MODEL_FILE="+file)
		c := begin(t, s, strings.Repeat("word ", 900), code())
		c.more["max_tokens"], c.stream = 3000, streamed
		c.send(http.StatusOK)
		c.says("And now?")
		body := map[string]any{"model": "scripted", "max_tokens": 3000, "messages": c.messages, "tools": c.tools, "stream": streamed}
		resp, text := request(t, s, http.MethodPost, path, body)
		require.Equal(t, http.StatusOK, resp.StatusCode, text)
		require.Equal(t, "1", resp.Header.Get("X-Portico-Compacted"))
		require.Contains(t, text, `"compacted":1`)
		require.Contains(t, text, "Read.")
	}
}
