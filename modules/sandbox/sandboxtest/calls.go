package sandboxtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/sandbox"
)

// host answers calls and writes down in which rounds they came.
type host struct {
	mu     sync.Mutex
	rounds []string // the calls of each, as name(arguments)
}

func (h *host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	type call struct {
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input"`
	}
	var body struct {
		Calls      []call          `json:"calls"`
		ToolsetKey string          `json:"toolsetKey"`
		ToolName   string          `json:"toolName"`
		Arguments  json.RawMessage `json:"arguments"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if r.URL.Path == sandbox.ExecutePath {
		h.note(fmt.Sprintf("%s.%s(%s)", body.ToolsetKey, body.ToolName, body.Arguments))
		if body.ToolName == "refused" {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"success":false,"errMsg":"No.","errDetail":"Ask."}`)
			return
		}
		if body.ToolName == "fails" {
			fmt.Fprint(w, `{"success":true,"data":{"status":"error","error":"broken"}}`)
			return
		}
		fmt.Fprintf(w, `{"success":true,"data":{"status":"success","data":{"tool":%q}}}`, body.ToolName)
		return
	}
	names := make([]string, len(body.Calls))
	type echo struct {
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input"`
	}
	results := make([]map[string]any, len(body.Calls))
	for i, c := range body.Calls {
		names[i] = fmt.Sprintf("%s(%s)", c.Name, c.Input)
		if c.Name == "fails" {
			results[i] = map[string]any{"error": "it failed"}
			continue
		}
		if c.Name == "same" { // gives back what it is given
			var input struct {
				N json.RawMessage `json:"n"`
			}
			_ = json.Unmarshal(c.Input, &input) // then it gives null
			results[i] = map[string]any{"result": input.N}
			continue
		}
		results[i] = map[string]any{"result": echo(c)}
	}
	h.note(strings.Join(names, " "))
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"results": results})
}

func (h *host) note(round string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rounds = append(h.rounds, round)
}

// get and fails are the tools of most tests.
func stubs() []sandbox.Stub {
	return []sandbox.Stub{
		{Identifier: "get", Name: "get-it", Doc: "Gets it.\n\nParameters:\n    n: a number", Parameters: []sandbox.Parameter{{Name: "n", Required: true}, {Name: "unit"}}},
		{Identifier: "fails", Name: "fails", Open: true},
		{Identifier: "same", Name: "same", Parameters: []sandbox.Parameter{{Name: "n", Required: true, Nullable: true}, {Name: "unit"}}},
	}
}

func (s Suite) calls(t *testing.T, language sandbox.Language, code string) (sandbox.Result, []string) {
	t.Helper()
	return callsOn(t, s.open(t, sandbox.Limits{}), language, code)
}

func callsOn(t *testing.T, d sandbox.Driver, language sandbox.Language, code string) (sandbox.Result, []string) {
	t.Helper()
	h := &host{}
	r := run(t, d, sandbox.Job{Code: code, Language: language, Gateway: h, Stubs: stubs(), Timeout: 20 * time.Second})
	return r, h.rounds
}

// Calls that are made together leave in one round, and others do not.
func (s Suite) testTogether(t *testing.T) {
	d := s.open(t, sandbox.Limits{})
	r, rounds := callsOn(t, d, sandbox.Python, "a = await get(n=1)\nb, c = await asyncio.gather(get(n=2), get(n=3))\nprint(a['input']['n'], b['input']['n'], c['input']['n'])")
	require.Equal(t, "1 2 3\n", r.Stdout, r.Stderr)
	require.Empty(t, r.Stderr)
	require.Equal(t, []string{`get-it({"n":1})`, `get-it({"n":2}) get-it({"n":3})`}, rounds)
}

// It does not matter how they are made together.
func (s Suite) testRounds(t *testing.T) {
	one := []string{`get-it({"n":1}) get-it({"n":2})`}
	two := []string{`get-it({"n":1})`, `get-it({"n":2})`}
	for name, c := range map[string]struct {
		code   string
		rounds []string
	}{
		"in sequence":   {"a = await get(n=1)\nb = await get(n=2)", two},
		"gathered":      {"a, b = await asyncio.gather(get(n=1), get(n=2))", one},
		"comprehension": {"a, b = await asyncio.gather(*[get(n=n) for n in (1, 2)])", one},
		"tasks":         {"ts = [asyncio.create_task(get(n=n)) for n in (1, 2)]\na, b = [await t for t in ts]", one},
		"group":         {"async with asyncio.TaskGroup() as g:\n    ts = [g.create_task(get(n=n)) for n in (1, 2)]\na, b = [t.result() for t in ts]", one},
		"list first":    {"ts = []\nfor n in (1, 2): ts.append(get(n=n))\na, b = await asyncio.gather(*ts)", one},
		"helpers":       {"async def f(n):\n    await asyncio.sleep(0)\n    return await get(n=n)\na, b = await asyncio.gather(f(1), f(2))", one},
		"plain helper":  {"def f(n): return get(n=n)\na, b = await asyncio.gather(f(1), f(2))", one},
		"map":           {"a, b = await asyncio.gather(*map(lambda n: get(n=n), (1, 2)))", one},
		"main":          {"async def main():\n    return await asyncio.gather(get(n=1), get(n=2))\na, b = asyncio.run(main())", one},
		"variables":     {"x = get(n=1)\ny = get(n=2)\na, b = await asyncio.gather(x, y)", one},
		"as completed":  {"rs = [await r for r in asyncio.as_completed([get(n=1), get(n=2)])]\na, b = sorted(rs, key=lambda r: r['input']['n'])", one},
		"wait for":      {"a = await asyncio.wait_for(get(n=1), 5)\nb = await asyncio.wait_for(get(n=2), 5)", two},
		"loop":          {"rs = []\nfor n in (1, 2):\n    rs.append(await get(n=n))\na, b = rs", two},
		"conditional":   {"a = await get(n=1)\nb = await get(n=2) if a['input']['n'] == 1 else None", two},
		"nested":        {"a = await get(n=1)\nb = await get(n=(await get(n=1))['input']['n'] + 1)", append([]string{`get-it({"n":1})`}, two...)},
		"timers":        {"async def tick():\n    await asyncio.sleep(0.001)\n    return 1\nx, a, b = await asyncio.gather(tick(), get(n=1), get(n=2))", one},
	} {
		r, rounds := s.calls(t, sandbox.Python, c.code+"\nprint(a['input']['n'], b['input']['n'])")
		require.Equal(t, "1 2\n", r.Stdout, "%s: %s", name, r.Stderr)
		require.Empty(t, r.Stderr, name)
		require.Equal(t, c.rounds, rounds, name)
	}
}

// A call need not be awaited.
func (s Suite) testCallStyles(t *testing.T) {
	for name, c := range map[string]struct{ code, stdout string }{
		"not awaited":    {"a = get(n=1)\nprint(type(a).__name__, json.dumps(a))", "dict {\"name\": \"get-it\", \"input\": {\"n\": 1}}\n"},
		"positional":     {"print((await get(1, 'km'))['input'])\nprint(get(1)['input'])", "{'n': 1, 'unit': 'km'}\n{'n': 1}\n"},
		"none":           {"print(get(n=1, unit=None)['input'])", "{'n': 1}\n"},
		"function":       {"def f(c): return get(n=c)['input']['n']\nprint(f(3))", "3\n"},
		"coroutine":      {"async def f(c):\n    r = get(n=c)\n    return r['input']['n']\nprint(await f(3))", "3\n"},
		"comprehension":  {"print([get(n=n)['input']['n'] for n in (1, 2)], [r['input']['n'] for r in [get(n=n) for n in (3, 4)]])", "[1, 2] [3, 4]\n"},
		"statement":      {"get(n=1)\nprint('done')", "done\n"},
		"printed":        {"print(get(n=1))", "{'name': 'get-it', 'input': {'n': 1}}\n"},
		"f-string":       {"print(f\"{get(n=1)['name']} {get(n=1)}\")", "get-it {'name': 'get-it', 'input': {'n': 1}}\n"},
		"alias":          {"f = get\nprint(f(n=1)['name'], len(f(n=2)), 'name' in f(n=3))", "get-it 2 True\n"},
		"alias awaited":  {"f = {'x': get}\nprint((await f['x'](n=1))['name'])", "get-it\n"},
		"threads":        {"from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(4) as p: print([r['input']['n'] for r in p.map(lambda n: get(n=n), range(6))])", "[0, 1, 2, 3, 4, 5]\n"},
		"to thread":      {"r = await asyncio.to_thread(get, 1)\nprint(r['name'])", "get-it\n"},
		"try":            {"try:\n    x = fails()\nexcept ToolExecutionError as e: print('caught', e)", "caught it failed\n"},
		"shadowed":       {"def get(n): return 'own'\nprint(get(1))", "own\n"},
		"a data frame":   {"import pandas as pd\nprint(pd.DataFrame([get(n=1)['input'], get(n=2)['input']]).n.tolist())", "[1, 2]\n"},
		"numpy argument": {"import numpy as np\nprint(get(n=np.int64(5), unit=np.arange(2))['input'])", "{'n': 5, 'unit': [0, 1]}\n"},
		"dates":          {"import datetime\nprint(get(n=datetime.date(2026, 1, 2))['input'])", "{'n': '2026-01-02'}\n"},
		"child process":  {"import os\npid = os.fork()\nif pid == 0:\n    print(get(n=7)['input'], flush=True)\n    os._exit(0)\nos.waitpid(pid, 0)\nprint(get(n=8)['input'])", "{'n': 7}\n{'n': 8}\n"},
		"help":           {"print(get.__name__, get.__doc__.split('.')[0])\nimport inspect\nprint(inspect.signature(get), asyncio.iscoroutinefunction(get))", "get Gets it\n(n, unit=None) True\n"},
	} {
		r, _ := s.calls(t, sandbox.Python, c.code)
		require.Equal(t, c.stdout, r.Stdout, "%s: %s", name, r.Stderr)
		require.Empty(t, r.Stderr, name)
	}
}

func (s Suite) testCallErrors(t *testing.T) {
	r, _ := s.calls(t, sandbox.Python, "x = 1\ny = await fails(a=1)\nprint('not reached')")
	require.Equal(t, `Traceback (most recent call last):
  File "/mnt/data/main.py", line 2, in <module>
    y = await fails(a=1)
        ^^^^^^^^^^^^^^^^
ToolExecutionError: it failed
`, r.Stderr)
	require.Equal(t, sandbox.Failed, r.Status)
	for code, want := range map[string]string{
		"try: await fails()\nexcept ToolExecutionError as e: print(e)":                                            "it failed\n",
		"rs = await asyncio.gather(get(n=1), fails(), return_exceptions=True)\nprint(rs[0]['name'], repr(rs[1]))": "get-it ToolExecutionError('it failed')\n",
		"try: await get(m=1)\nexcept TypeError as e: print(e)":                                                    "get() got an unexpected keyword argument 'm'. It takes: n, unit.\n",
		"try: await get(n=1, m=1)\nexcept TypeError as e: print(e)":                                               "get() got an unexpected keyword argument 'm'. It takes: n, unit.\n",
		"try: await get(n=object())\nexcept TypeError as e: print(e)":                                             "get(): an argument cannot be sent as JSON: object is not JSON\n",
		"try: await get(n=float('nan'))\nexcept TypeError as e: print(e)":                                         "get(): an argument cannot be sent as JSON: Out of range float values are not JSON compliant\n",
		"try: other()\nexcept NameError as e: print('no others')":                                                 "no others\n",
	} {
		r, _ := s.calls(t, sandbox.Python, code)
		require.Equal(t, want, r.Stdout, "%s: %s", code, r.Stderr)
	}
	r, rounds := s.calls(t, sandbox.Python, "async def main(f): await f\nf = fails(a=2)\nif 0: asyncio.run(main(f))\nprint('end')")
	require.Equal(t, "end\n", r.Stdout)
	require.Equal(t, "fails() was not awaited and failed: it failed\n", r.Stderr)
	require.Equal(t, []string{`fails({"a":2})`}, rounds)
}

// Whatever JSON can say arrives as it was, both ways.
func (s Suite) testArguments(t *testing.T) {
	r, _ := s.calls(t, sandbox.Python, `
value = {"text": "ä€😀\u0000\ud83d"[:4], "n": -1.5, "big": 2**70, "list": [1, [2, {"x": None}]], "yes": True, "empty": {}}
back = await get(n=value)
print(back["input"]["n"] == value)
text = "x" * (1 << 20)
back = await get(n=text)
print(back["input"]["n"] == text)`)
	require.Equal(t, "True\nTrue\n", r.Stdout, r.Stderr)
}

// Tools of toolsets do not wait for rounds.
func (s Suite) testDirectCalls(t *testing.T) {
	h := &host{}
	list := append(stubs(), []sandbox.Stub{
		{Identifier: "search", Name: "search", Toolset: "jina", Open: true},
		{Identifier: "refused", Name: "refused", Toolset: "jina"},
		{Identifier: "broken", Name: "fails", Toolset: "jina"},
	}...)
	r := run(t, s.open(t, sandbox.Limits{}), sandbox.Job{Gateway: h, Stubs: list, Code: `
a, b = await asyncio.gather(search(q="x"), get(n=1))
print(a, b["name"])
print(search()["tool"])
for f in (refused, broken):
    try: await f()
    except ToolExecutionError as e: print(e)`})
	require.Equal(t, "{'tool': 'search'} get-it\nsearch\nNo. Ask.\nbroken\n", r.Stdout, r.Stderr)
	require.ElementsMatch(t, []string{`jina.search({"q":"x"})`, `get-it({"n":1})`, `jina.search({})`, `jina.refused({})`, `jina.fails({})`}, h.rounds)
}

func (s Suite) testBashCalls(t *testing.T) {
	r, rounds := s.calls(t, sandbox.Bash, `
x=$(get '{"n": 1, "unit": null}')
echo "$x"
get "$(printf '{"n":"%s"}' "it's")" | jq -r .input.n 2>/dev/null || true
fails || echo "failed with $?"
get 'no json' || echo "failed with $?"
bash -c 'get "{\"n\":3}"' >/dev/null && echo nested
same '{"n":null,"unit":null}'`)
	require.Equal(t, "{\"name\":\"get-it\",\"input\":{\"n\":1}}\nfailed with 1\nfailed with 1\nnested\nnull\n", strings.ReplaceAll(r.Stdout, "it's\n", ""), r.Stderr)
	require.Contains(t, r.Stderr, "it failed\n")
	require.Contains(t, r.Stderr, "the argument is not JSON")
	require.Equal(t, `get-it({"n": 1})`, strings.ReplaceAll(rounds[0], `":1`, `": 1`))
	require.Equal(t, `same({"n": null})`, rounds[len(rounds)-1])
}

func (s Suite) testNodeCalls(t *testing.T) {
	r, rounds := s.calls(t, sandbox.JavaScript, `
(async () => {
  const [a, b] = await Promise.all([get({ n: 1, unit: null }), get({ n: 2 })]);
  console.log(a.input, b.input);
  try { await fails(); } catch (e) { console.log(e.name, e.message, e instanceof ToolExecutionError); }
  await same({ n: null, unit: null });
})();`)
	require.Equal(t, "{ n: 1 } { n: 2 }\nToolExecutionError it failed true\n", r.Stdout, r.Stderr)
	require.Equal(t, []string{`get-it({"n":1}) get-it({"n":2})`, `fails({})`, `same({"n":null})`}, rounds)
}

// decode reads a request that a test makes itself.
func decode(r *http.Request, into any) { _ = json.NewDecoder(r.Body).Decode(into) }
