package sandboxtest

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/sandbox"
)

// testCells runs an interpreter that stays: what a cell defines, the next one
// finds, and a cell that fails, takes too long or ends the program says so.
func (s Suite) testCells(t *testing.T) {
	cells := []sandbox.Cell{
		{Code: "import os\nx = 20\ndef f(a): return a * 2\nprint(open('given.txt').read())\nos.system('echo shell')\nx", Files: []sandbox.CellFile{{Path: "given.txt", Content: []byte("given")}}},
		{Code: "open('made.txt', 'w').write('made')\nf(x) + f(1)"},
		{Code: "import asyncio\nawait asyncio.sleep(0)\nx += 1\nraise ValueError('wrong')"},
		{Code: "import time\ntime.sleep(100)", Timeout: 0.2},
		{Code: "x, _"},
		{Code: "def broken(:"},
		{Code: "print('line\\n' * 300000)\nprint('last')"},
		{Code: "exit(3)"},
	}
	var reports []sandbox.Report
	gateway := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var report *sandbox.Report
		if r.URL.Path != sandbox.CellPath || json.NewDecoder(r.Body).Decode(&report) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if report != nil {
			reports = append(reports, *report)
		}
		if len(reports) == len(cells) {
			w.WriteHeader(http.StatusGone)
			return
		}
		cell := cells[len(reports)]
		if cell.Timeout == 0 {
			cell.Timeout = 30
		}
		_ = json.NewEncoder(w).Encode(cell)
	})
	result := run(t, s.open(t, sandbox.Limits{}), sandbox.Job{Code: sandbox.Interpreter, Gateway: gateway})
	require.Equal(t, sandbox.Completed, result.Status, result.Stderr)
	require.Len(t, reports, len(cells))
	status := make([]string, len(reports))
	for i, r := range reports {
		status[i] = r.Status
	}
	require.Equal(t, []string{"completed", "completed", "failed", "timed_out", "completed", "failed", "completed", "exited"}, status)
	require.Equal(t, "given\nshell\n20\n", reports[0].Stdout)
	require.Equal(t, "42\n", reports[1].Stdout)
	require.Equal(t, []sandbox.CellFile{{Path: "made.txt", Content: []byte("made")}}, reports[1].Files)
	require.Equal(t, "Traceback (most recent call last):\n  File \"<cell 3>\", line 4, in <module>\n    raise ValueError('wrong')\nValueError: wrong\n", reports[2].Stderr)
	require.Equal(t, "(21, 42)\n", reports[4].Stdout)
	require.Contains(t, reports[5].Stderr, "SyntaxError")
	require.Less(t, len(reports[6].Stdout), 1<<20+100)
	require.Regexp(t, `line\nl?i?n?e?\n\[output limit reached: 45\d{4} more bytes were dropped here\]\nline\n`, reports[6].Stdout)
	require.True(t, strings.HasSuffix(reports[6].Stdout, "line\n\nlast\n"))
	require.Equal(t, 3, reports[7].Exit)
}
