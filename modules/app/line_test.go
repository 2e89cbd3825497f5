package app_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/testenv"
)

const pythonLines = `import asyncio
from concurrent.futures import ThreadPoolExecutor
from refly_tools.demo import Demo

Demo.wait(file_name_title="5", ms=0)
wait(file_name_title="6",
     ms=0)

def one(n):
    return wait(file_name_title="10", ms=0)

with ThreadPoolExecutor(2) as pool:
    list(pool.map(one, range(2)))
    pool.submit(Demo.wait, file_name_title="14", ms=0).result()

async def two():
    return await wait(file_name_title="17", ms=0)

async def main():
    await asyncio.gather(two(), two(), wait(file_name_title="20", ms=0))

asyncio.run(main())
`

const javascriptLines = `const fine = async () => {
  await wait({ file_name_title: "2", ms: 0 });
  await Promise.all([
    wait({ file_name_title: "4", ms: 0 }),
    wait({ file_name_title: "5", ms: 0 }),
  ]);
};
fine();
`

// The name of the file says from which line of the program each call is made.
func TestCallsSayWhichLineMadeThem(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		for language, c := range map[string]struct {
			code  string
			calls int
		}{
			"python": {pythonLines, 8}, "javascript": {javascriptLines, 3}, "typescript": {"const n: number = 1;\n" + `await wait({ file_name_title: "2", ms: n });` + "\n", 1},
		} {
			o := s.run(map[string]any{"code": c.code, "language": language, "toolsets": []string{"demo"}})
			require.Equal(t, "completed", o.Status, o.Stderr)
			require.Len(t, o.ToolCalls, c.calls, language)
			_, _, events := s.summaries(s.key, o.ResultID, "")
			ended := 0
			for _, e := range events {
				if e.Event == "tool_call_end" && e.IsPTC {
					ended++
					require.Contains(t, e.Call.Arguments, `"file_name_title":"`+strconv.Itoa(e.Call.Line)+`"`, language)
				}
			}
			require.Equal(t, c.calls, ended)
		}
		// Whatever a program claims is only shown.
		for _, claim := range []string{"0", "-1", "1000001", "x", "99999999999999999999"} {
			a := s.send(s.key, "POST", "/v1/tool/execute", map[string]any{"toolsetKey": "demo", "toolName": "wait", "arguments": map[string]any{"ms": 0, "file_name_title": "x"}}, "X-PTC-Line", claim)
			require.Equal(t, 200, a.status, a.raw)
		}
		require.Equal(t, 5, s.count(`SELECT count(*) FROM tool_call_results WHERE type = 'standalone' AND line IS NULL`))
	})
}
