package app_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/agenttest"
	"github.com/portico-run/portico/internal/testenv"
)

// The TypeScript client is built from the API's document, and tried in node by its own
// tests, by its example, and in Chromium from a page of another origin.
func TestTheTypeScriptClient(t *testing.T) {
	testenv.Slow(t, "a compiler, a browser, and a whole server at work")
	t.Parallel()
	tools := testenv.Need(t, "PORTICO_TYPESCRIPT", "tools/typescript.sh prints it")
	source, err := filepath.Abs("../../clients/typescript")
	require.NoError(t, err)
	document, err := filepath.Abs("testdata/openapi.json")
	require.NoError(t, err)
	client := filepath.Join(t.TempDir(), "client")
	require.NoError(t, os.CopyFS(client, os.DirFS(source)))
	require.NoError(t, os.Symlink(tools, filepath.Join(client, "node_modules")))

	pages := http.NewServeMux()
	pages.Handle("/dist/", http.FileServer(http.Dir(client)))
	pages.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><title>page</title>")
	})
	web := httptest.NewServer(pages)
	t.Cleanup(web.Close)
	s := agenttest.Serve(t, `
- on: How warm
  output: [{call: {name: execute_code, arguments: {code: "print(get_weather(city='Oslo')['city'])"}}}]
- expect: ["Oslo"]
  output: [{text: "It is warm "}, {text: "in Oslo."}]
- on: List them often
  output: [{text: "I look."}, {call: {name: execute_code, arguments: {code: "await asyncio.gather(*(list_cities() for _ in range(1020)))"}}}]
- output: [{text: "There are some."}]
- on: Ask me
  output: [{call: {name: execute_code, arguments: {code: "get_weather(city='Oslo')"}}}]
- expect: ["not today"]
  output: [{text: "Fine."}]
`, "ORIGIN="+web.URL)
	url, key := s.Reach()
	run := func(folder, name string, args ...string) string {
		t.Helper()
		command := exec.CommandContext(t.Context(), name, args...)
		command.Dir, command.Env = folder, append(os.Environ(), "PORTICO_URL="+url, "PORTICO_API_KEY="+key)
		out, err := command.CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}
	run(client, filepath.Join(tools, ".bin", "openapi-typescript"), document, "--output", "src/api.ts")
	run(client, filepath.Join(tools, ".bin", "tsc"), "-p", ".", "--skipLibCheck") // the compiler's own declarations
	t.Log(run(client, "node", "--test", "--test-timeout=60000", "tests/"))

	user := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(user, "node_modules"), 0o700))
	require.NoError(t, os.Symlink(client, filepath.Join(user, "node_modules", "portico-client")))
	for file, readme := range map[string]string{"example.mjs": filepath.Join(source, "README.md"), "rooms.mjs": "../../README.md"} {
		text, err := os.ReadFile(readme)
		require.NoError(t, err)
		lines := regexp.MustCompile("(?s)```js " + file + "\n(.*?)```").FindSubmatch(text)
		require.NotNil(t, lines, file)
		require.NoError(t, os.WriteFile(filepath.Join(user, file), lines[1], 0o600))
	}
	require.Equal(t, "Fjord Oslo\nHolmen Oslo\nIt is warm in Oslo. finish\n", run(user, "node", "example.mjs"))
	require.Equal(t, "['Fjord', 'Holmen'] Oslo\n\n", run(user, "node", "rooms.mjs"))

	b := openTab(t)
	b.visit(web.URL)
	require.Equal(t, "It is warm in Oslo. finish 42\n", b.run(fmt.Sprintf(`(async (url, apiKey) => {
		const { Portico } = await import("/dist/index.js");
		const portico = new Portico({ url, apiKey });
		const run = await portico.startRun("How warm is it?", { toolsets: ["demo"] });
		let said = "";
		for await (const e of run.events()) if (e.event === "stream") said += e.content;
		const done = await portico.executeProgram("print(double(n=21))", { tools: [{ name: "double", run: ({ n }) => 2 * n }] });
		return said + " " + (await run.result()).status + " " + done.stdout;
	})(%q, %q)`, url, key)))
}
