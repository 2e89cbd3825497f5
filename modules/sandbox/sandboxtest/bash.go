package sandboxtest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/sandbox"
)

// A tool that fails ends a script in bash wherever it is called, before
// anything uses what it did not print.
func (s Suite) testBashFailures(t *testing.T) {
	d := s.open(t, sandbox.Limits{})
	const said = "it failed\n[fails failed, which ended the script. To go on after a failure: fails ... || true]\n"
	for name, code := range map[string]string{
		"plain":                 "fails '{}'",
		"in a variable":         "x=$(fails)",
		"in a local variable":   "f() { local x=$(fails); touch after; }; f",
		"in backticks":          "touch after`fails`",
		"in an argument":        `touch "after$(fails)"`,
		"in a list":             "for x in a $(fails); do touch after; done",
		"in a test":             "[[ $(fails) == x ]]",
		"in arithmetic":         "touch after$(( 1 + $(fails) ))",
		"in a here-string":      `tee after <<< "$(fails)"`,
		"first of a pipeline":   "fails | cat",
		"last of a pipeline":    "echo x | fails",
		"argument of one":       `echo x | tee "after$(fails)"`,
		"in a function":         "f() { g; touch after; }; g() { x=$(fails); touch after; }; f",
		"in a subshell":         "(fails; touch after)",
		"in the background":     "{ fails; touch after; } & wait",
		"in a loop":             "printf '1\\n2\\n' | while read n; do fails; touch after; done",
		"last of a list":        "true && fails",
		"with errexit":          "set -euo pipefail; x=$(fails)",
		"with a trap of errors": "set -E; trap 'touch after' ERR; fails",
		"with a trap":           "trap 'touch after' TERM HUP INT; x=$(fails)",
		"not heard":             "x=$(fails 2>/dev/null)",
		"arguments":             "x=$(get 'no json')",
	} {
		h := &host{}
		r := run(t, d, sandbox.Job{
			Language: sandbox.Bash, Gateway: h, Stubs: stubs(), Collect: sandbox.Collect{MaxFiles: 5, MaxBytes: 1000},
			Code: "echo before\n" + code + "\ntouch after\nget '{}'",
		})
		require.Equal(t, "before\n", r.Stdout, name)
		require.Equal(t, sandbox.Failed, r.Status, name)
		require.Equal(t, 1, r.ExitCode, name)
		require.Empty(t, r.Outputs, name)
		if name == "arguments" {
			require.True(t, strings.HasPrefix(r.Stderr, "the argument is not JSON"), r.Stderr)
			continue
		}
		require.Equal(t, said, r.Stderr, name)
		require.Len(t, h.rounds, 1, name)
	}
}

// A script that asks whether a tool failed goes on, and so does one that says
// that failures are its own to see to. Nothing of the script changes by it.
func (s Suite) testBashChecks(t *testing.T) {
	r, _ := s.calls(t, sandbox.Bash, `
fails || echo "or $?"
x=$(fails) || echo "variable $?"
if fails; then echo no; else echo if; fi
if ! x=$(fails); then echo not; fi
fails && echo no
while fails; do echo no; done
f() { fails; return 3; }; f || echo "function $?"
(fails) || echo subshell
( fails || exit 1 ) & wait $! || echo background
set -o pipefail; fails | cat || echo pipeline
bash -c 'fails; echo no' || echo "another shell"
PORTICO_TOOL_ERRORS=continue fails; echo "one call $?"
trap 'echo "own trap"' ERR
fails || true
false
set -E; fails || true; false; trap - ERR
set -e; fails || echo errexit; set +e
PORTICO_TOOL_ERRORS=continue
fails; x=$(fails); echo "all calls $?"`)
	require.Equal(t, `or 1
variable 1
if
not
function 3
subshell
background
pipeline
another shell
one call 1
own trap
own trap
errexit
all calls 1
`, r.Stdout, r.Stderr)
	require.Equal(t, sandbox.Completed, r.Status)
	require.Equal(t, strings.Repeat("it failed\n", 17), r.Stderr)
}
