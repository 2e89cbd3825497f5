package sandboxtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/sandbox"
)

// spaced are the tools of two servers, one of them named as a module is, and a
// plain function with defaults, also for several values.
func spaced() []sandbox.Stub {
	number := []sandbox.Parameter{{Name: "n", Required: true, Type: "int"}}
	return []sandbox.Stub{
		{Identifier: "hub__get", Space: "hub", Member: "get", Name: "hub__get", Toolset: "hub", Doc: "Gets it.", Parameters: number},
		{Identifier: "hub__add", Space: "hub", Member: "add", Name: "hub__add", Toolset: "hub", Parameters: number},
		{Identifier: "time__now", Space: "time", Member: "now", Name: "time__now", Toolset: "time", Open: true},
		{
			Identifier: "find", Name: "find", Toolset: "own", Doc: "Finds it.", Returns: "str",
			Parameters: []sandbox.Parameter{{Name: "query", Required: true, Type: "str"}, {Name: "top_k", Type: "int", Default: json.RawMessage("10")}},
		},
		{Identifier: "find_each", Name: "find", Toolset: "own", Each: true, Parameters: []sandbox.Parameter{{Name: "query", Required: true}}},
	}
}

func (s Suite) spaced(t *testing.T, d sandbox.Driver, language sandbox.Language, code string) (sandbox.Result, []string) {
	t.Helper()
	h := &host{}
	r := run(t, d, sandbox.Job{Code: code, Language: language, Gateway: h, Stubs: spaced(), Timeout: 20 * time.Second})
	return r, h.rounds
}

// Tools of a server are called as server.tool and as server__tool, awaited or
// not; what a program imports or assigns under the name comes first.
func (s Suite) testSpaces(t *testing.T) {
	d := s.open(t, sandbox.Limits{})
	get := `hub.hub__get({"n":1})`
	for name, c := range map[string]struct {
		code   string
		rounds []string
	}{
		"both names":   {"print(hub.get(1)['tool'], hub__get(n=1)['tool'])", []string{get, get}},
		"awaited":      {"a = await hub.get(1)\nb, = await asyncio.gather(hub.get(n=1))\nprint(a['tool'], b['tool'])", []string{get, get}},
		"in coroutine": {"async def f():\n    return hub.get(1)\na, b = await asyncio.gather(f(), f())\nprint(a['tool'], b['tool'])", []string{get, get}},
		"as a value":   {"f = getattr(hub, 'get')\nprint(f(1)['tool'], list(map(hub.get, [1]))[0]['tool'])", []string{get, get}},
		"from package": {"from refly_tools import hub as h\nfrom refly_tools import hub__get as g\nprint(h.get(1)['tool'], g(1)['tool'])", []string{get, get}},
	} {
		r, rounds := s.spaced(t, d, sandbox.Python, c.code)
		require.Equal(t, "hub__get hub__get\n", r.Stdout, "%s: %s", name, r.Stderr)
		require.Equal(t, c.rounds, rounds, name)
	}
	for code, want := range map[string]string{
		"import time\nprint(time.sleep(0), time__now()['tool'])":           "None time__now\n",
		"print(time.now()['tool'], time.sleep(0), round(time.time()) > 0)": "time__now None True\n",
		"hub = 5\nprint(hub)": "5\n",
		"class hub:\n    get = staticmethod(lambda n: 'mine')\nprint(hub.get(1))":             "mine\n",
		"print(repr(hub), dir(hub), hub.get.__doc__)":                                         "<tools of hub: add, get> ['add', 'get'] Gets it.\n",
		"import inspect\nprint(find.__name__, inspect.signature(find), find.__doc__)":         "find (query: str, top_k: int = 10) -> str Finds it.\n",
		"print(find('a', 5)['tool'], find(query='b')['tool'], find('c', top_k=None)['tool'])": "find find find\n",
	} {
		r, _ := s.spaced(t, d, sandbox.Python, code)
		require.Equal(t, want, r.Stdout, "%s: %s", code, r.Stderr)
	}
	r, _ := s.spaced(t, d, sandbox.Python, "hub.gett(1)")
	require.Contains(t, r.Stderr, "AttributeError: hub has no tool 'gett'. Did you mean: 'get'?")
	r, _ = s.spaced(t, d, sandbox.Python, "import time\ntime.now()")
	require.Contains(t, r.Stderr, "The import took the name of the tools; call time__now(...)")
	r, rounds := s.spaced(t, d, sandbox.Python, "find('a', 5)\nfind('b')")
	require.Equal(t, []string{`own.find({"query":"a","top_k":5})`, `own.find({"query":"b"})`}, rounds, r.Stderr)
}

// In JavaScript, too. What the language has under a name keeps what it has.
func (s Suite) testSpacesInJavaScript(t *testing.T) {
	d := s.open(t, sandbox.Limits{})
	r, rounds := s.spaced(t, d, sandbox.JavaScript, `(async () => {
	const both = [await hub.get({ n: 1 }), await hub__get({ n: 1 })];
	const each = await find_each(["a", "b", "c"]);
	console.log(both.map((x) => x.tool).join(" "), each.length, typeof time.now);
})();`)
	require.Equal(t, "hub__get hub__get 3 function\n", r.Stdout, r.Stderr)
	require.Len(t, rounds, 5)
}

// A function for several values keeps their order, whichever call ends first,
// and has few of them on their way at once.
func (s Suite) testEach(t *testing.T) {
	d := s.open(t, sandbox.Limits{})
	for _, language := range []sandbox.Language{sandbox.Python, sandbox.JavaScript} {
		h := &slowest{}
		code := "print(find_each([str(n) for n in range(12)]), await find_each(()))"
		if language == sandbox.JavaScript {
			code = "find_each([...Array(12).keys()].map(String)).then((list) => console.log(`['${list.join(\"', '\")}'] []`));"
		}
		r := run(t, d, sandbox.Job{Code: code, Language: language, Gateway: h, Stubs: spaced(), Timeout: 20 * time.Second})
		require.Equal(t, "['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', '10', '11'] []\n", r.Stdout, r.Stderr)
		require.LessOrEqual(t, h.most, 4)
		require.Greater(t, h.most, 1)
	}
	r, _ := s.spaced(t, d, sandbox.Python, "find_each('abc')")
	require.Contains(t, r.Stderr, "TypeError: find_each() takes a list of values, not one")
}

// slowest answers with what it is asked for, each second call before the one
// that came before it, and counts how many wait at once.
type slowest struct {
	mu        sync.Mutex
	now, most int
	waiting   chan struct{}
}

func (h *slowest) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Arguments struct{ Query string }
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	h.now++
	h.most = max(h.most, h.now)
	before := h.waiting
	h.waiting = nil
	if before == nil {
		h.waiting = make(chan struct{})
	}
	mine := h.waiting
	h.mu.Unlock()
	if before != nil {
		defer close(before)
	} else {
		<-mine
	}
	fmt.Fprintf(w, `{"success":true,"data":{"status":"success","data":%q}}`, body.Arguments.Query)
	h.mu.Lock()
	h.now--
	h.mu.Unlock()
}
