package app_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
)

// Every surface names the same code for the same failure, says how many calls
// had been made, and says in words that the time was up.
func TestFailuresNameTheirCodeAndTheCallsMade(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		const calling = `
for _ in range(2): get_weather(city="Oslo", file_name_title="x")
print("out", flush=True)
`
		modern := []string{"User-Agent", "LibreChat/1.0", "Authorization", "Bearer " + s.key, "X-API-Key", ""}
		for _, c := range []struct{ code, failure, words string }{
			{"import time; time.sleep(60)", "timeout", "stopped at its time limit"},
			{"x = bytearray(1 << 40)", "out_of_memory", ""},
			{"raise ValueError('oops')", "failed", "oops"},
		} {
			o := s.run(map[string]any{"code": calling + c.code, "toolsets": []string{"demo"}, "timeout": 8000})
			require.Equal(t, c.failure, o.ErrorCode)
			require.Equal(t, 2, o.ToolCallsMade)
			require.Contains(t, o.Stderr, c.words)
			require.Equal(t, "out\n", o.Stdout)
			record := s.send(s.key, "GET", "/v1/tool/call/result?toolCallId="+o.CallID, nil)
			require.Contains(t, record.raw, "It had made 2 tool calls, which are not undone.")

			e, _ := s.drive(map[string]any{
				"code": "await ask()\n" + calling + c.code, "tools": tools("ask"), "toolsets": []string{"demo"}, "timeout": 8000,
			}, modern...)
			require.Equal(t, c.failure, e.ErrorCode, "%+v", e)
			require.Equal(t, 3, e.ToolCallsMade)
			require.Contains(t, e.Stderr, c.words)
			require.Contains(t, e.Stderr, "It had made 3 tool calls, which are not undone.")
			require.Equal(t, "out\n", e.Stdout)

			for _, path := range []string{"/exec", "/v1/exec"} {
				e := s.code(path, map[string]any{"lang": "py", "code": "print('out', flush=True)\n" + c.code, "timeout": 8000})
				require.Equal(t, c.failure, e.ErrorCode)
				require.Zero(t, e.ToolCallsMade)
				require.Contains(t, e.Stderr, c.words)
				require.Equal(t, "out\n", e.Stdout)
			}
		}
		fine := s.run(map[string]any{"code": calling, "toolsets": []string{"demo"}})
		require.Empty(t, fine.ErrorCode)
		require.Equal(t, 2, fine.ToolCallsMade)
		require.Empty(t, fine.Stderr)
	})
}

// A program that no sandbox can take is refused with a code of its own, on
// every surface and in its record.
func TestProgramsWithoutASandbox(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		require.NoError(t, s.app.Engine.Stop(t.Context()))
		for path, body := range map[string]map[string]any{"/exec": {"lang": "py", "code": "1"}, "/exec/programmatic": {"code": "1"}} {
			e := s.code(path, body)
			require.Equal(t, 503, e.code)
			require.Equal(t, "runtime_unavailable", e.ErrorCode)
		}
		a := s.send(s.key, "POST", execute, map[string]any{"language": "python", "code": "1"})
		require.Equal(t, 503, a.status)
		require.Contains(t, a.raw, "It had made no tool calls. (runtime_unavailable)")
		require.Equal(t, 1, s.count(`SELECT count(*) FROM tool_call_results WHERE output LIKE '%RUNTIME_UNAVAILABLE%'`))
	})
}

// A Markdown fence around the code is no part of it, on any surface; lines are
// those of the code.
func TestFencesAroundCode(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite))
	const code = "```python\nprint('in')\n1/0\n```"
	for _, path := range []string{"/exec", "/exec/programmatic", "/v1/exec", "/v1/exec/programmatic"} {
		e := s.code(path, map[string]any{"lang": "py", "code": code})
		require.Equal(t, "in\n", e.Stdout, path)
		require.Contains(t, e.Stderr, "line 2, in", path)
	}
	o := s.run(map[string]any{"code": code})
	require.Equal(t, "in\n", o.Stdout)
	require.Contains(t, o.Stderr, "line 2, in")
	for lang, code := range map[string]string{"bash": "```bash\necho in\n```", "js": "```javascript\nconsole.log('in')"} {
		require.Equal(t, "in\n", s.code("/exec", map[string]any{"lang": lang, "code": code}).Stdout)
	}
	require.Equal(t, "code is required", s.code("/exec", map[string]any{"lang": "py", "code": "```python\n```"}).Error)
}
