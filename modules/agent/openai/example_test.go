package openai_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/agenttest"
	"github.com/portico-run/portico/internal/testenv"
)

// The lines of docs/openai.md work with the vendor's library as it is published.
func TestTheExampleWorksWithTheVendorsLibrary(t *testing.T) {
	t.Parallel()
	vendors := testenv.Need(t, "PORTICO_VENDORS", "tools/vendors.sh prints it")
	document, err := os.ReadFile("../../../docs/openai.md")
	require.NoError(t, err)
	lines := regexp.MustCompile("(?s)```python total.py\n(.*?)```").FindSubmatch(document)
	require.NotNil(t, lines)
	s := agenttest.Serve(t, `
- expect: ["get_order(id: int)", "Total of orders 1 and 2?"]
  output: [{call: {name: run_code, arguments: {code: "a, b = await asyncio.gather(get_order(id=1), get_order(id=2))\nprint(json.loads(a)['total'] + json.loads(b)['total'])"}}}]
- expect: ["42"]
  output: [{text: "The total is 42."}]
`)
	url, key := s.Reach()
	run := exec.CommandContext(t.Context(), filepath.Join(vendors, "python", "bin", "python"), "-c", string(lines[1]))
	run.Env = append(os.Environ(), "URL="+url, "KEY="+key)
	out, err := run.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, "The total is 42.\n", string(out))
}
