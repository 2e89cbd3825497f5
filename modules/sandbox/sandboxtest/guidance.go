package sandboxtest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/sandbox"
)

// bundle is a package that another generator could have made.
func bundle() []sandbox.File {
	return []sandbox.File{
		{Path: "__init__.py", Content: []byte("VERSION = 1\n")},
		{Path: "jina.py", Content: []byte("class Jina:\n    @classmethod\n    def read_url(cls, url, depth=1): return {'status': 'success', 'data': url}\n")},
		{Path: "manifest.json", Content: []byte(`{"version":1,"toolsets":[{"key":"jina","module":"jina","class":"Jina","code":"jina.py","docs":"docs/jina.md"}]}`)},
	}
}

// A failure says what is known of it, in fields and in one line.
func (s Suite) testFailures(t *testing.T) {
	d := s.open(t, sandbox.Limits{})
	answers := map[string]string{
		"plain":   `{"success":true,"data":{"status":"error","error":"no such city","errorCode":"NOT_FOUND","data":{"a":1}}}`,
		"fixable": `{"success":true,"data":{"status":"error","error":"Bad\n  request","errorCode":"TOOL_FAILED","data":{"error":{"status":422,"request_id":"req-7","suggested_fix":"Send a number."}}}}`,
		"empty":   `{"success":true,"data":{"status":"error"}}`,
	}
	gateway := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call struct{ ToolName string }
		decode(r, &call)
		w.Header().Set("X-Request-Id", "trace-1")
		if text, ok := answers[call.ToolName]; ok {
			fmt.Fprint(w, text)
			return
		}
		w.WriteHeader(http.StatusConflict)
		fmt.Fprint(w, `{"success":false,"errCode":"E0409","errMsg":"It ended.","errDetail":"Start again.","traceId":"trace-2"}`)
	})
	var list []sandbox.Stub
	for _, name := range []string{"plain", "fixable", "empty", "refused"} {
		list = append(list, sandbox.Stub{Identifier: name, Name: name, Toolset: "x", Open: true})
	}
	r := run(t, d, sandbox.Job{Gateway: gateway, Stubs: list, Code: `
import pickle
from refly_tools import ToolExecutionError as Same
assert Same is ToolExecutionError
for f in (plain, fixable, empty, refused):
    try: f()
    except Same as e:
        again = pickle.loads(pickle.dumps(e))
        for e in (e, again): print(repr(str(e)), [e.message, e.code, e.status, e.request_id, e.suggestion, e.tool] == vars(e) or e.code, e.status, e.request_id, repr(e.suggestion), e.tool)
fixable()`})
	require.Equal(t, strings.Repeat(`'no such city' NOT_FOUND 200 trace-1 '' plain
`, 2)+strings.Repeat(`'Bad request Send a number.' TOOL_FAILED 422 req-7 'Send a number.' fixable
`, 2)+strings.Repeat(`'the tool failed' TOOL_ERROR 200 trace-1 '' empty
`, 2)+strings.Repeat(`'It ended. Start again.' E0409 409 trace-2 'Start again.' refused
`, 2), r.Stdout, r.Stderr)
	require.True(t, strings.HasSuffix(r.Stderr, "\nToolExecutionError: Bad request Send a number.\n"), r.Stderr)
	require.NotContains(t, r.Stderr, "concurrent")
	own, _ := callsOn(t, d, sandbox.Python, "try: fails()\nexcept ToolExecutionError as e: print(e.code, e.message, e.status, e.tool)")
	require.Equal(t, "TOOL_ERROR it failed 0 fails\n", own.Stdout, own.Stderr)
}

// The package is there whoever made it, and also if nobody did.
func (s Suite) testPackage(t *testing.T) {
	d := s.open(t, sandbox.Limits{})
	const code = "from refly_tools import ToolExecutionError as E, get\nassert E is ToolExecutionError and get is globals()['get']\n"
	gateway := http.HandlerFunc((&host{}).ServeHTTP)
	r := run(t, d, sandbox.Job{Gateway: gateway, Stubs: stubs(), Code: code + "import refly_tools\nprint(get(n=1)['name'], hasattr(refly_tools, 'nothing'))"})
	require.Equal(t, "get-it False\n", r.Stdout, r.Stderr)
	r = run(t, d, sandbox.Job{Gateway: gateway, Stubs: stubs(), Files: bundle(), Code: code + "import refly_tools\nfrom refly_tools.jina import Jina\nprint(refly_tools.VERSION, Jina.read_url('u'))"})
	require.Equal(t, "1 {'status': 'success', 'data': 'u'}\n", r.Stdout, r.Stderr)
	r = run(t, d, sandbox.Job{Files: bundle()[1:], Code: "from refly_tools import ToolExecutionError\nfrom refly_tools.jina import Jina\nprint(Jina.__name__)"})
	require.Equal(t, "Jina\n", r.Stdout, r.Stderr)
	own := append(bundle()[1:], sandbox.File{Path: "__init__.py", Content: []byte("class ToolExecutionError(Exception): own = True\n")})
	r = run(t, d, sandbox.Job{Files: own, Code: "from refly_tools import ToolExecutionError\nprint(ToolExecutionError.own)"})
	require.Equal(t, "True\n", r.Stdout, r.Stderr)
}

// What programs use without importing it is there, unless they bind it in the
// same scope.
func (s Suite) testKnownNames(t *testing.T) {
	d := s.open(t, sandbox.Limits{})
	for name, code := range map[string]string{
		"everywhere":           "assert json.dumps([1]) == '[1]' and re.sub('a', 'b', 'a') == 'b' and math.pi > 3 and datetime.date(2026, 1, 2).year == 2026",
		"imported in one":      "def f():\n    import json\n    return json.loads('1')\nassert f() == 1 and json.dumps(1) == '1'",
		"a parameter":          "def f(json): return json\nassert f(5) == 5 and json.dumps(1) == '1'",
		"a local":              "def f():\n    math = 4\n    return math\nassert f() == 4 and math.floor(1.5) == 1",
		"a loop variable":      "assert [time for time in (1, 2)] == [1, 2] and time.time() > 0",
		"own":                  "json = 5\ndef f(): return json\nassert f() == 5",
		"own function":         "def math(x): return x\nassert math(3) == 3",
		"eval":                 "assert eval('np.array([1]).sum()') == 1 and eval('json.dumps(1)') == '1'",
		"exec":                 "exec('x = math.floor(2.5)')\nassert x == 2",
		"globals":              "assert globals()['json'].dumps(1) == '1' and globals()['np'].array([1]).sum() == 1 and 'pd' in globals()",
		"by the usual names":   "assert pd.DataFrame({'a': np.arange(3)}).a.sum() == 3 and plt.figure() is not None",
		"the module itself":    "a = np\nimport numpy\nassert a.array is numpy.array and np is numpy and isinstance(a, type(numpy)) and 'array' in dir(np)",
		"nested":               "def f():\n    def g(): return json.dumps(np.arange(2).tolist())\n    return g()\nassert f() == '[0, 1]'",
		"in a class":           "class A:\n    json = 1\n    def f(self): return json.dumps(self.json)\nassert A().f() == '1'",
		"deleted":              "del json\ntry: json\nexcept NameError: pass\nelse: assert False",
		"types":                "def f(a: List[int], b: Optional[Dict[str, Any]] = None) -> Union[int, str]: return 1\nassert f([]) == 1",
		"set on":               "np.my_own = 5\nimport numpy\nassert numpy.my_own == 5",
		"not what nobody uses": "import sys\nassert 'scipy' not in sys.modules and 'sklearn' not in sys.modules",
	} {
		r := run(t, d, sandbox.Job{Code: code + "\nprint('ok')"})
		require.Equal(t, "ok\n", r.Stdout, "%s: %s", name, r.Stderr)
	}
}

// Who writes a name wrong is told the right one, at the line of the program.
func (s Suite) testWrongCode(t *testing.T) {
	d := s.open(t, sandbox.Limits{})
	for code, want := range map[string]string{
		"getIt(n=1)":                             "NameError: name 'getIt' is not defined. Did you mean: 'get_it'?",
		"shop.getIt(n=1)":                        "NameError: name 'shop' is not defined. Did you mean: 'get_it'?",
		"Get_It(n=1)":                            "NameError: name 'Get_It' is not defined. Did you mean: 'get_it'?",
		"geet(n=1)":                              "NameError: name 'geet' is not defined. Did you mean: 'get'?",
		"x = value_1 = 5\nvaluee_1":              "NameError: name 'valuee_1' is not defined. Did you mean: 'value_1'?",
		"same(nn=1)":                             "TypeError: same() got an unexpected keyword argument 'nn'. It takes: n, unit.",
		"await get(n=1, units=2)":                "TypeError: get() got an unexpected keyword argument 'units'. Did you mean: 'unit'? It takes: n, unit.",
		"get()":                                  "TypeError: get() missing a required argument: 'n'. It takes: n, unit.",
		"from refly_tools import jinna":          "ImportError: cannot import name 'jinna' from 'refly_tools' (/run/portico-python/refly_tools/__init__.py). Did you mean: 'jina'? There are: jina.",
		"from refly_tools.jinna import Jina":     "ModuleNotFoundError: No module named 'refly_tools.jinna'. Did you mean: 'jina'? There are: jina.",
		"from refly_tools.jina import JinaTools": "ImportError: cannot import name 'JinaTools' from 'refly_tools.jina' (/run/portico-python/refly_tools/jina.py). There are: Jina.",
		"from refly_tools.jina import Jina\nJina.readURL(url='u')":   "AttributeError: type object 'Jina' has no attribute 'readURL'. Did you mean: 'read_url'?",
		"from refly_tools.jina import Jina\nJina.read_url(urls='u')": "TypeError: Jina.read_url() got an unexpected keyword argument 'urls'. Did you mean: 'url'? It takes: url, depth.",
		"jina.read_url(url='u')":                                     "NameError: name 'jina' is not defined. Import it first: from refly_tools.jina import Jina",
		"Jina.read_url(url='u')":                                     "NameError: name 'Jina' is not defined. Import it first: from refly_tools.jina import Jina",
		"from math import sqroot":                                    "ImportError: cannot import name 'sqroot' from 'math' (unknown location). Did you mean: 'sqrt'?",
		"import jsn":                                                 "ModuleNotFoundError: No module named 'jsn'. Did you mean: 'json'?",
		"'a'.uper()":                                                 "AttributeError: 'str' object has no attribute 'uper'. Did you mean: 'upper'?",
		"def f():\n    print(x)\n    x = 1\nf()":                     "UnboundLocalError: cannot access local variable 'x' where it is not associated with a value",
		"raise NameError('own')":                                     "NameError: own",
		"something_else()":                                           "NameError: name 'something_else' is not defined",
	} {
		list := append(stubs(), sandbox.Stub{Identifier: "get_it", Name: "get_it", Toolset: "shop", Open: true})
		r := run(t, d, sandbox.Job{Code: "pass\n" + code, Files: bundle(), Stubs: list, Gateway: &host{}})
		lines := strings.Split(strings.TrimSpace(r.Stderr), "\n")
		require.Equal(t, want, lines[len(lines)-1], code)
		require.Contains(t, r.Stderr, fmt.Sprintf(`File "/mnt/data/main.py", line %d, in <module>`, 1+len(strings.Split(code, "\n"))), code)
		require.NotContains(t, r.Stderr, "portico_runtime", code)
	}
	r := run(t, d, sandbox.Job{Code: "from refly_tools.demo import Demo", Stubs: stubs(), Gateway: &host{}})
	require.Contains(t, r.Stderr, "No module named 'refly_tools.demo'. There are no toolsets to import; tools are functions, which need no import.\n")
}
