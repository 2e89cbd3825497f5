package sandboxtest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/sandbox"
)

// A call that is not awaited is what the tool returned, wherever it is made
// and whatever it is called through.
func (s Suite) testPlainValues(t *testing.T) {
	d := s.open(t, sandbox.Limits{})
	for name, code := range map[string]string{
		"equal":              "f = same\nassert f(n=5) == 5 and 5 == f(5) and f(5) != 6 and not f(5) == 6",
		"the type":           "f = same\nassert type(f(5)) is int and type(same(None)) is type(None) and type(same({})) is dict",
		"hash":               "f = same\nassert hash(f(5)) == hash(5) and f('a') in {'a'} and {f('a'): 1}['a'] == 1 and {same(1), same(1)} == {1}",
		"isinstance":         "f = same\nassert isinstance(f({}), dict) and isinstance(f([1]), list) and not isinstance(f('x'), dict)",
		"json":               "f = same\nassert json.dumps(f({'a': [1]})) == '{\"a\": [1]}' and json.dumps([same('x')], indent=1) == '[\\n \"x\"\\n]'",
		"map":                "assert list(map(same, [1, 2])) == [1, 2]",
		"a map by name":      "f = same\nassert list(map(f, [1, 2])) == [1, 2] and [*map(f, [3])] == [3] and sum(map(f, [1, 2])) == 3",
		"sorted":             "assert sorted([2, 1], key=same) == [1, 2] and max([1, 2], key=same) == 2",
		"filter":             "assert list(filter(same, [0, 1])) == [1]",
		"partial":            "import functools\np = functools.partial(same, 3)\nassert p() == 3 and type(p()) is int",
		"default":            "def f(a=same(4)): return a\nassert f() == 4",
		"attribute":          "import sys\nassert getattr(sys.modules['__main__'], 'same')(7) == 7 and globals()['same'](7) == 7",
		"eval":               "assert eval('same(5)') == 5 and eval('[same(n) for n in (1, 2)]') == [1, 2]",
		"exec":               "exec('x = same(5)\\nassert x == 5\\ndef g(n): return same(n)')\nassert g(6) == 6",
		"dispatch":           "tools = {'a': same}\nassert tools['a'](5) == 5",
		"class":              "class A:\n    run = staticmethod(same)\n    def go(self, n): return self.run(n)\nassert A().go(5) == 5",
		"decorator":          "import functools\ndef twice(f):\n    @functools.wraps(f)\n    def g(n): return f(n) * 2\n    return g\nassert twice(same)(4) == 8",
		"lambda":             "f = lambda n: same(n)\nassert f(5) == 5 and (lambda: same(1))() == 1",
		"arithmetic":         "f = same\nassert f(7) // 2 == 3 and f(7) % 4 == 3 and 2 ** f(3) == 8 and -f(1) == -1 and f(7) & 3 == 3 and round(f(2.5)) == 2",
		"index":              "f = same\nassert [1, 2, 3][f(1)] == 2 and list(range(f(2))) == [0, 1] and 'ab' * f(2) == 'abab'",
		"a dict":             "f = same\nassert {**f({'a': 1})} == {'a': 1} and dict(f({'a': 1})) == {'a': 1} and f({'a': 1}) | {'b': 2} == {'a': 1, 'b': 2}",
		"is None":            "f = same\nassert f(None) is None",
		"match":              "f = same\nmatch f({'a': 1}):\n    case {'a': x}: assert x == 1\n    case _: assert False",
		"in a coroutine":     "async def main():\n    f = same\n    x = f(5)\n    assert x == 5 and type(same(5)) is int\n    return json.dumps(f([1]))\nassert await main() == '[1]'",
		"to a function":      "def total(rows): return sum(rows) if type(rows) is list else None\nassert total(same([1, 2])) == 3\nasync def count(rows): return len(rows) if type(rows) is list else None\nassert await count(same([1, 2])) == 2",
		"to a thread":        "def kind(v): return type(v).__name__\ndata = same({'a': 1})\nassert await asyncio.to_thread(kind, data) == 'dict'",
		"threads":            "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(4) as p:\n    assert list(p.map(same, range(6))) == list(range(6)) and p.submit(same, 5).result() == 5",
		"a failure":          "f = fails\ntry: f()\nexcept ToolExecutionError: pass\nelse: assert False",
		"awaited already":    "x = same([1])\nassert await x == [1] and x == [1]",
		"gathered already":   "f = eval('same')\nxs = eval('[f(1), f(2)]')\nassert await asyncio.gather(*xs) == [1, 2]",
		"none is required":   "assert same(n=None, unit=None) is None",
		"shadowed":           "def f(same): return same(5)\nassert f(lambda n: 'own') == 'own' and same(5) == 5",
		"awaited by another": "async def call(f, n): return await f(n)\nassert await call(same, 5) == 5 and same(5) == 5",
		"both":               "f = same\nx = f(5)\nassert type(x) is int and type(f([])) is list\nassert await asyncio.gather(f(1), *map(f, (2, 3))) == [1, 2, 3]",
		"a long sum":         "x = " + strings.Repeat("1 + ", 900) + "same(1)\nassert x == 901",
		"data frame":         "f = same\ndf = pd.DataFrame(f([{'a': 1}, {'a': 2}]))\nassert df.a.sum() == 3 and np.array(f([1, 2])).sum() == 3",
	} {
		r, _ := callsOn(t, d, sandbox.Python, code+"\nprint('ok')")
		require.Equal(t, "ok\n", r.Stdout, "%s: %s", name, r.Stderr)
		require.Empty(t, r.Stderr, name)
	}
}

// What is awaited, now or later and through whatever name, leaves together; a
// call that is both awaited and used is its result where it is used.
func (s Suite) testLaterValues(t *testing.T) {
	d := s.open(t, sandbox.Limits{})
	one := []string{`same({"n":1}) same({"n":2})`}
	for name, c := range map[string]string{
		"alias":              "f = same\na, b = await asyncio.gather(f(1), f(2))",
		"named":              "a, b = await asyncio.gather(*map(same, (1, 2)))",
		"an alias in map":    "f = same\na, b = await asyncio.gather(*map(f, (1, 2)))",
		"named and kept":     "ts = list(map(same, (1, 2)))\na, b = await asyncio.gather(*ts)",
		"table":              "tools = {'x': same}\na, b = await asyncio.gather(*[tools['x'](n) for n in (1, 2)])",
		"partial":            "import functools\nf = functools.partial(same, unit='m')\nf = functools.partial(same)\na, b = await asyncio.gather(f(1), f(2))",
		"through a function": "async def go(t): return await t\na, b = await asyncio.gather(go(same(1)), go(same(2)))",
		"many":               "async def all_of(*ts): return await asyncio.gather(*ts)\na, b = await all_of(same(1), same(2))",
		"a local variable":   "def make(n):\n    t = same(n)\n    return t\na, b = await asyncio.gather(make(1), make(2))",
		"a second name":      "first = [same(1), same(2)]\nsecond = first\na, b = await asyncio.gather(*second)",
		"a dictionary":       "ts = {n: same(n) for n in (1, 2)}\na, b = await asyncio.gather(*ts.values())",
		"a set":              "rs = await asyncio.gather(*{same(1), same(2)})\na, b = sorted(rs)",
		"as completed":       "ts = set()\nfor n in (1, 2): ts.add(same(n))\na, b = sorted([await t for t in asyncio.as_completed(ts)])",
		"one by one":         "ts = [asyncio.ensure_future(same(n)) for n in (1, 2)]\nrs = []\nfor t in ts: rs.append(await t)\na, b = rs",
		"an object":          "class Jobs:\n    def __init__(self): self.ts = []\n    def add(self, n): self.ts.append(same(n))\n    async def all(self): return await asyncio.gather(*self.ts)\nj = Jobs()\nj.add(1); j.add(2)\na, b = await j.all()",
		"a method":           "class A:\n    def call(self, n): return same(n)\nx = A()\na, b = await asyncio.gather(x.call(1), x.call(2))",
		"a decorator":        "def plain(f):\n    def g(n): return f(n)\n    return g\nh = plain(same)\na, b = await asyncio.gather(h(1), h(2))",
		"a walrus":           "a, b = await asyncio.gather((x := same(1)), (y := same(2)))",
		"own coroutines":     "async def f(n):\n    r = same(n)\n    return r\na, b = await asyncio.gather(f(1), f(2))",
		"imported":           "from asyncio import gather, run\nasync def main(): return await gather(same(1), same(2))\na, b = await main()",
		"used as well":       "x = same(1)\ny = same(2)\na, b = await asyncio.gather(x, y)\nassert x == 1 and {x: 5}[1] == 5 and x in {1} and isinstance(x, int) and json.dumps([x, y]) == '[1, 2]' and x + y == 3 and -x == -1 and repr(y) == '2' and f'{x:03}' == '001' and [5, 6][x] == 6",
		"used before":        "def both(n): return same(n)\nassert both(0) == 0 and isinstance(both(0), int) and json.dumps({'a': both([0])}) == '{\"a\": [0]}' and hash(both(0)) == hash(0) and both({}) == {} and type(both(0).__class__) is type\na, b = await asyncio.gather(both(1), both(2))",
	} {
		r, rounds := callsOn(t, d, sandbox.Python, c+"\nprint(a, b)")
		require.Equal(t, "1 2\n", r.Stdout, "%s: %s", name, r.Stderr)
		require.Empty(t, r.Stderr, name)
		require.NotEmpty(t, rounds, name)
		last := rounds[len(rounds)-1]
		if last == `same({"n":2}) same({"n":1})` { // a set has no order
			last = one[0]
		}
		require.Equal(t, one[0], last, name)
	}
	// None is sent where it means something, and else left out.
	r, rounds := callsOn(t, d, sandbox.Python, "same(n=None, unit=None)\nsame(None)\nawait same(**{'n': None})\nget(n=1, unit=None)")
	require.Empty(t, r.Stderr)
	require.Equal(t, []string{`same({"n":null})`, `same({"n":null})`, `same({"n":null})`, `get-it({"n":1})`}, rounds)
	// In one program: so many at once are one round.
	r, rounds = callsOn(t, d, sandbox.Python, "f = same\nxs = await asyncio.gather(*[f(n) for n in range(30)])\nprint(sum(xs))")
	require.Equal(t, "435\n", r.Stdout, r.Stderr)
	require.Len(t, rounds, 1)
	require.Equal(t, 30, strings.Count(rounds[0], "same("), fmt.Sprint(rounds))
}
