package sandboxtest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/sandbox"
)

func (s Suite) testOutput(t *testing.T) {
	type line struct {
		stream sandbox.Stream
		text   string
	}
	var lines []line
	r := run(t, s.open(t, sandbox.Limits{}), sandbox.Job{
		Code: `
import os, sys
print("one"); print("two", file=sys.stderr)
os.write(1, b"three\n")
if os.fork() == 0:
    os.write(1, b"four\n")
    os._exit(0)
os.wait()
print("five", end="")`,
		Output: func(s sandbox.Stream, text string) { lines = append(lines, line{s, text}) },
	})
	require.Equal(t, "one\nthree\nfour\nfive", r.Stdout, "%+v", r)
	require.Equal(t, "two\n", r.Stderr)
	require.Equal(t, sandbox.Completed, r.Status)
	require.ElementsMatch(t, []line{
		{sandbox.Stdout, "one"}, {sandbox.Stderr, "two"}, {sandbox.Stdout, "three"}, {sandbox.Stdout, "four"}, {sandbox.Stdout, "five"},
	}, lines)
}

func (s Suite) testExitCodes(t *testing.T) {
	d := s.open(t, sandbox.Limits{})
	for code, want := range map[string]struct {
		exit   int
		status sandbox.Status
	}{
		`pass`:                                    {0, sandbox.Completed},
		`import sys; sys.exit(3)`:                 {3, sandbox.Failed},
		`import sys; sys.exit("sorry")`:           {1, sandbox.Failed},
		`import os; os._exit(7)`:                  {7, sandbox.Failed},
		`raise SystemExit`:                        {0, sandbox.Completed},
		`1/0`:                                     {1, sandbox.Failed},
		`syntax error`:                            {1, sandbox.Failed},
		`import os; os.abort()`:                   {134, sandbox.Failed},
		`import ctypes; ctypes.string_at(1)`:      {139, sandbox.Failed},
		`import os; os.kill(os.getpid(), 9)`:      {137, sandbox.Killed},
		`import os, sys; os.close(1); sys.exit()`: {0, sandbox.Completed},
		`raise KeyboardInterrupt`:                 {130, sandbox.Failed},
	} {
		r := run(t, d, sandbox.Job{Code: code})
		require.Equal(t, want.exit, r.ExitCode, "%s: %+v", code, r)
		require.Equal(t, want.status, r.Status, code)
	}
}

func (s Suite) testTracebacks(t *testing.T) {
	r := s.program(t, "def f():\n    raise ValueError('oops')\n\nf()\n")
	require.Equal(t, `Traceback (most recent call last):
  File "/mnt/data/main.py", line 4, in <module>
    f()
  File "/mnt/data/main.py", line 2, in f
    raise ValueError('oops')
ValueError: oops
`, r.Stderr)
	r = s.program(t, "x = 1\nif x\n")
	require.Contains(t, r.Stderr, `File "/mnt/data/main.py", line 2`)
	require.Contains(t, r.Stderr, "SyntaxError")
	require.NotContains(t, r.Stderr, "bootstrap")
}

func (s Suite) testSource(t *testing.T) {
	r := s.program(t, "text = '''a\n  b\\n\tc'''\nprint(repr(text), __name__, len('ä€😀'))\nimport sys; print(sys.argv)")
	require.Equal(t, `'a\n  b\n\tc' __main__ 3`+"\n['/mnt/data/main.py']\n", r.Stdout)
}

func (s Suite) testOutputLimit(t *testing.T) {
	d := s.open(t, sandbox.Limits{Output: 1000})
	var lines []string
	r := run(t, d, sandbox.Job{
		Code:   "for n in range(100000): print('%06d' % n)",
		Output: func(_ sandbox.Stream, l string) { lines = append(lines, l) },
	})
	require.Equal(t, sandbox.Completed, r.Status, "the program was blocked by its own output")
	require.Equal(t, int64(699_005), r.StdoutDropped)
	require.True(t, strings.HasPrefix(r.Stdout, "000000\n000001\n"))
	require.Contains(t, r.Stdout, "\n000106\n0\n[output limit reached: 699005 more bytes were dropped here]\n099965\n099966\n")
	require.True(t, strings.HasSuffix(r.Stdout, "\n099999\n"), r.Stdout)
	require.Equal(t, strings.TrimSuffix(r.Stdout, "\n"), strings.Join(lines, "\n"), "what was seen live is what is kept")

	r = run(t, d, sandbox.Job{Code: "print('ä' * 100000, end='')"})
	require.Equal(t, strings.Repeat("ä", 375)+"\n[output limit reached: 199000 more bytes were dropped here]\n"+strings.Repeat("ä", 125), r.Stdout)

	// Up to the limit nothing is missing.
	r = run(t, d, sandbox.Job{Code: "print('x' * 749 + 'é' + 'y' * 248)"})
	require.Equal(t, strings.Repeat("x", 749)+"é"+strings.Repeat("y", 248)+"\n", r.Stdout)
	require.Zero(t, r.StdoutDropped)

	// The reason of a failure is at the end, each output for itself.
	r = run(t, d, sandbox.Job{Code: "import sys\nprint('noise\\n' * 10000, file=sys.stderr)\nprint('said')\nraise ValueError('the reason')"})
	require.Equal(t, "said\n", r.Stdout)
	require.True(t, strings.HasSuffix(r.Stderr, "line 4, in <module>\n    raise ValueError('the reason')\nValueError: the reason\n"), r.Stderr)
	require.LessOrEqual(t, len(r.Stderr), 1000+len("\n[output limit reached: 1000000 more bytes were dropped here]\n"))
}

func (s Suite) testOddOutput(t *testing.T) {
	var pieces []string
	r := run(t, s.open(t, sandbox.Limits{}), sandbox.Job{
		Code:   "import os\nos.write(1, b'a\\xff\\x00b\\r\\n'); os.write(1, 'ä'.encode()[:1]); os.write(1, 'ä'.encode()[1:] + b'x' * 100000)",
		Output: func(_ sandbox.Stream, l string) { pieces = append(pieces, l) },
	})
	require.Equal(t, "a\uFFFD\uFFFDb\r\nä"+strings.Repeat("x", 100_000), r.Stdout)
	require.Len(t, pieces, 3)
	require.LessOrEqual(t, len(pieces[1]), sandbox.MaxLine)
}
