// Slow under the race detector: make test runs it without.
//go:build !race

package cli_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/dev/services/tasks"
	"github.com/portico-run/portico/internal/testenv"
)

// Every task is done in every form: the real server, sandbox and tools. The
// document shows what that took.
func TestEvalWithTheScriptedModel(t *testing.T) {
	testenv.Slow(t, "a hundred runs on five servers")
	t.Parallel()
	code, out, errs := portico(t, evalEnv(t), "eval", "--scripted", "--json", "-")
	e := evaluated(t, out)
	for _, r := range e.Runs {
		require.True(t, r.Success, "%s %s: %s\n%s", r.Form, r.Task, r.Reason, r.Answer)
	}
	require.Zero(t, code, errs)
	require.Len(t, e.Runs, 100)
	require.Equal(t, 100, strings.Count(errs, "  done\n"))
	document, err := os.ReadFile("../../docs/eval.md")
	require.NoError(t, err)
	const form = "(?m)^\\| `(\\w+)` \\| (\\d+)/20 \\| (\\d+) \\| (\\d+,\\d+) \\| (\\d+,\\d+) \\|$"
	rows := regexp.MustCompile(form).FindAllStringSubmatch(string(document), -1)
	require.Len(t, rows, 5)
	require.Len(t, e.Forms, 5)
	for n, f := range e.Forms {
		numbers := make([]int, 4)
		for i := range numbers {
			numbers[i] = atoi(t, strings.ReplaceAll(rows[n][i+2], ",", ""))
		}
		require.Equal(t, []string{rows[n][1], "20"}, []string{f.Form, rows[n][2]})
		require.Equal(t, []int{numbers[0], numbers[1]}, []int{f.Success, f.Requests}, f.Form)
		require.InEpsilon(t, numbers[2], f.InputTokens, 0.03, "%s: docs/eval.md", f.Form)
		require.InEpsilon(t, numbers[3], f.OutputTokens, 0.03, "%s: docs/eval.md", f.Form)
	}
	for _, task := range tasks.All() {
		require.Contains(t, string(document), "| `"+task.Name+"` | "+task.About+" |\n")
	}
}
