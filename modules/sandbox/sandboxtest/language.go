package sandboxtest

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/sandbox"
)

// Await and return work outside of functions, and nothing moves for it.
func (s Suite) testAwait(t *testing.T) {
	d := s.open(t, sandbox.Limits{})
	for name, c := range map[string]struct {
		code, stdout, stderr string
	}{
		"await":            {"import asyncio\nx = await asyncio.sleep(0, 5)\nprint(x)", "5\n", ""},
		"gather":           {"a, b = await asyncio.gather(asyncio.sleep(0.01, 1), asyncio.sleep(0, 2))\nprint(a, b)", "1 2\n", ""},
		"async for":        {"async def g():\n    yield 1\n    yield 2\nprint([x async for x in g()])\nasync for x in g(): print(x)", "[1, 2]\n1\n2\n", ""},
		"return":           {"print(1)\nif True:\n    return\nprint(2)", "1\n", ""},
		"return a value":   {"for n in range(5):\n    if n == 2: return print(n)", "2\n", ""},
		"await and return": {"try:\n    await asyncio.sleep(0)\n    return 5\nfinally:\n    print('finally')\nprint('no')", "finally\n", ""},
		"main":             {"import asyncio\nasync def main():\n    print('main')\n    return 3\nprint(asyncio.run(main()))", "main\n3\n", ""},
		"main in await":    {"import asyncio\nasync def main(): return 3\nawait asyncio.sleep(0)\nprint(asyncio.run(main()))", "3\n", ""},
		"main guard":       {"if __name__ == '__main__': print('guarded')", "guarded\n", ""},
		"globals":          {"x = 1\ndef f():\n    global x\n    x += 1\nawait asyncio.sleep(0)\nf(); print(x, 'x' in globals())", "2 True\n", ""},
		"quotes":           {"await asyncio.sleep(0)\ntext = '''a\n  b\n\tc'''\nprint(repr(text))", `'a\n  b\n\tc'` + "\n", ""},
		"known names":      {"print(json.dumps([math.floor(1.5)]), re.sub('a', 'b', 'a'), Optional[int])", "[1] b typing.Optional[int]\n", ""},
		"own names":        {"def f():\n    json = 5\n    return json\nprint(f(), json.dumps(6))", "5 6\n", ""},
		"pickle":           {"import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))).__name__)", "A\n", ""},
		"lines": {"await asyncio.sleep(0)\n\nasync def f():\n    raise ValueError('oops')\n\nawait f()\n", "", `Traceback (most recent call last):
  File "/mnt/data/main.py", line 6, in <module>
    await f()
  File "/mnt/data/main.py", line 4, in f
    raise ValueError('oops')
ValueError: oops
`},
		"syntax": {"x = 1\nif x\n", "", `  File "/mnt/data/main.py", line 2
    if x
        ^
SyntaxError: expected ':'
`},
		"exit": {"await asyncio.sleep(0)\nimport sys; sys.exit('sorry')", "", "sorry\n"},
	} {
		r := run(t, d, sandbox.Job{Code: c.code})
		require.Equal(t, c.stdout, r.Stdout, "%s: %s", name, r.Stderr)
		require.Equal(t, c.stderr, r.Stderr, name)
	}
	r := run(t, d, sandbox.Job{Code: "import sys; print(sys.argv[1:])", Args: []string{"a b", "ä", ""}})
	require.Equal(t, "['a b', 'ä', '']\n", r.Stdout)
}

func (s Suite) testDataScience(t *testing.T) {
	r := run(t, s.open(t, sandbox.Limits{}), sandbox.Job{Timeout: time.Minute, Code: `
import numpy as np, pandas as pd, pyarrow as pa, pyarrow.parquet as pq, scipy.stats, sklearn.linear_model
frame = pd.DataFrame({"a": np.arange(6), "b": np.arange(6) * 2.0})
frame.to_parquet("frame.parquet")
print(pd.read_parquet("frame.parquet").groupby(frame.a % 2).b.sum().tolist())
print(round(scipy.stats.linregress(frame.a, frame.b).slope, 3))
print(sklearn.linear_model.LinearRegression().fit(frame[["a"]], frame.b).coef_.round(3))
print(pq.read_table("frame.parquet").num_rows)`})
	require.Equal(t, "[12.0, 18.0]\n2.0\n[2.]\n6\n", r.Stdout, r.Stderr)
	require.Empty(t, r.Stderr)
	// Every interpreter has random numbers of its own.
	seen := map[string]bool{}
	for range 3 {
		r := s.program(t, "import numpy as np\nprint(np.random.random(), np.random.default_rng().random())")
		for word := range strings.FieldsSeq(r.Stdout) {
			require.False(t, seen[word], "%s came twice", word)
			seen[word] = true
		}
	}
	r = s.program(t, "import numpy as np\ntry: np.ones(1 << 30)\nexcept MemoryError as e: print('caught')\nnp.ones(1 << 30)")
	require.Equal(t, "caught\n", r.Stdout, r.Stderr)
	require.Equal(t, sandbox.OutOfMemory, r.Status)
}

// What a program draws is saved, once.
func (s Suite) testFigures(t *testing.T) {
	r := run(t, s.open(t, sandbox.Limits{}), sandbox.Job{
		Timeout: time.Minute, Collect: sandbox.Collect{MaxFiles: 20, MaxBytes: 10 << 20},
		Code: `
import matplotlib.pyplot as plt
plt.plot([1, 2, 3]); plt.title("shown"); plt.show()
plt.figure(); plt.bar([1, 2], [3, 4]); plt.savefig("own.png")
plt.figure(); plt.hist([1, 1, 2])
plt.figure()
print(plt.get_fignums())`,
	})
	require.Equal(t, "[1, 2, 3]\n", r.Stdout, r.Stderr)
	require.Empty(t, r.Stderr)
	var names []string
	for _, f := range r.Outputs {
		names = append(names, f.Path)
		require.True(t, strings.HasPrefix(string(f.Content), "\x89PNG"), f.Path)
	}
	require.Equal(t, []string{"figure_1.png", "figure_2.png", "own.png"}, names)
}

func (s Suite) testBash(t *testing.T) {
	d := s.open(t, sandbox.Limits{})
	r := run(t, d, sandbox.Job{Language: sandbox.Bash, Args: []string{"one", "two words"}, Env: map[string]string{"NAME": "x"}, Code: `
echo "$1/$2/$NAME/$PWD"
echo error >&2
printf 'b\na\n' | sort | tr '\n' ' '
python3 -c 'import numpy; print(numpy.arange(3).sum())'
echo '{"a":1}' > out.json
exit 3`, Collect: sandbox.Collect{MaxFiles: 5, MaxBytes: 1000}})
	require.Equal(t, "one/two words/x/mnt/data\na b 3\n", strings.ReplaceAll(r.Stdout, "//", "/"))
	require.Equal(t, "error\n", r.Stderr)
	require.Equal(t, 3, r.ExitCode)
	require.Equal(t, []sandbox.File{{Path: "out.json", Content: []byte("{\"a\":1}\n")}}, r.Outputs)
	r = run(t, d, sandbox.Job{Language: sandbox.Bash, Code: "while :; do :; done", Timeout: 500 * time.Millisecond})
	require.Equal(t, sandbox.TimedOut, r.Status)
	r = run(t, d, sandbox.Job{Language: sandbox.Bash, Code: "echo a\nno-such-command\n"})
	require.Contains(t, r.Stderr, "line 2: no-such-command: command not found")
	require.Equal(t, 127, r.ExitCode)
}

// Node takes scripts and modules, and its errors name the program's own lines.
func (s Suite) testNode(t *testing.T) {
	d := s.open(t, sandbox.Limits{})
	for name, c := range map[string]struct{ code, stdout, stderr string }{
		"script":       {"const fs = require('fs'); console.log([1, 2].map((x) => x * 2), process.argv.slice(2), __filename, process.cwd())", "[ 2, 4 ] [ 'a', 'b c' ] /mnt/data/main.js /mnt/data\n", ""},
		"module":       {"import { readdirSync } from 'fs';\nconst x = await Promise.resolve(5);\nconsole.log(x, typeof require, readdirSync('/refly_tools').length)", "5 function 0\n", ""},
		"stderr":       {"console.error('wrong')", "", "wrong\n"},
		"throws":       {"\nthrow new Error('oops')", "", "/mnt/data/main.js:2"},
		"module error": {"await 0;\nthrow new Error('oops')", "", "/mnt/data/main.js:2"},
		"syntax":       {"let x = ;", "", "SyntaxError"},
	} {
		r := run(t, d, sandbox.Job{Language: sandbox.JavaScript, Code: c.code, Args: []string{"a", "b c"}})
		require.Equal(t, c.stdout, r.Stdout, "%s: %s", name, r.Stderr)
		require.Contains(t, r.Stderr, c.stderr, name)
		if c.stderr == "" {
			require.Empty(t, r.Stderr, name)
		}
	}
}

// Node runs under the limits of the sandbox, and without a network.
func (s Suite) testJavaScript(t *testing.T) {
	d := s.open(t, sandbox.Limits{})
	r := run(t, d, sandbox.Job{Language: sandbox.JavaScript, Timeout: 30 * time.Second, Code: "const x = []; for (;;) x.push(new Array(1e6).fill(1.5))"})
	require.NotEqual(t, sandbox.Completed, r.Status)
	require.NotEqual(t, sandbox.TimedOut, r.Status)
	r = run(t, d, sandbox.Job{Language: sandbox.JavaScript, Args: []string{"a", "b c"}, Code: "console.log(process.argv.slice(2), __filename, process.cwd())\nrequire('http').get('http://127.0.0.1:80', () => console.log('reached')).on('error', (e) => console.log(e.code))"})
	require.Equal(t, "[ 'a', 'b c' ] /mnt/data/main.js /mnt/data\nECONNREFUSED\n", r.Stdout, r.Stderr)
}

// The clock of a job stands while it is paused, except for what the program
// computes.
func (s Suite) testClock(t *testing.T) {
	d := s.open(t, sandbox.Limits{})
	clock := sandbox.NewClock()
	clock.Pause() // before it begins: a busy machine may take long until the first line
	begin := time.Now()
	r := run(t, d, sandbox.Job{
		Code: "print('on', flush=True)\nimport time; time.sleep(1)\nprint('over')", Timeout: 600 * time.Millisecond, Clock: clock,
		Output: func(_ sandbox.Stream, line string) {
			if line == "on" {
				clock.Resume()
				clock.Pause()
			}
		},
	})
	require.Equal(t, "on\nover\n", r.Stdout, "%+v", r)
	require.GreaterOrEqual(t, time.Since(begin), time.Second)
	require.Less(t, r.Duration, 600*time.Millisecond)

	clock = sandbox.NewClock()
	clock.Pause()
	// Long enough that a late look comes before the kernel's own limit on
	// processor time, which is higher than the job's.
	r = run(t, d, sandbox.Job{Code: "while True: pass", Timeout: time.Second, Clock: clock})
	if s.OwnKernel && r.Status == sandbox.Killed { // on a busy machine that limit may come first
		r.Status = sandbox.TimedOut
	}
	require.Equal(t, sandbox.TimedOut, r.Status)

	clock = sandbox.NewClock()
	clock.Pause()
	r = run(t, d, sandbox.Job{
		Code: "print('on', flush=True)\nimport time; time.sleep(60)", Timeout: 100 * time.Millisecond, Clock: clock,
		Output: func(sandbox.Stream, string) { clock.Resume() },
	})
	require.Equal(t, sandbox.TimedOut, r.Status)
}
