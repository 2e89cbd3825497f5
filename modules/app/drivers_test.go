package app_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/database"
	"github.com/portico-run/portico/internal/database/databasetest"
	"github.com/portico-run/portico/internal/testenv"
)

// The drivers that are not the default serve the same programs, their tools,
// files and rounds.
func TestEveryDriverServes(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	testenv.Need(t, "PORTICO_RUNSC", "tools/runsc.sh prints it")
	for name, more := range map[string][]string{
		"bubblewrap": {"SANDBOX_DRIVER=bubblewrap"},
		"gvisor":     {"SANDBOX_DRIVER=gvisor", "SANDBOX_RUNSC=" + os.Getenv("PORTICO_RUNSC")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, databasetest.URL(t, database.SQLite), more...)
			o := s.run(map[string]any{"toolsets": []string{"demo"}, "code": `
from refly_tools.demo import Demo
Demo.list_cities(file_name_title="cities")
print(search_tools("weather")); print(help("demo.get_weather").splitlines()[0]); print(help("none"))
help(int)`})
			require.Equal(t, "completed", o.Status, o.Stderr)
			require.Len(t, o.ToolCalls, 1)
			require.Contains(t, o.Stdout, "get_weather(city: str, days?: int) -> {city: str, forecast: list[{day: int, celsius: float, sky: str}]}  # [demo] The weather")
			require.Contains(t, o.Stdout, "\ndemo: get_weather(city: str, days?: int) -> {")
			require.Contains(t, o.Stdout, "There is no tool \"none\". search_tools(\"\") lists all.")
			require.Contains(t, o.Stdout, "Help on class int")
			require.Equal(t, "completed", o.ToolCalls[0].Status)

			e := s.code("/exec/programmatic", map[string]any{
				"code": "a = await ask(n=1)\nopen('out.txt', 'w').write(str(a['input']))\nprint(a['input'])", "tools": tools("ask"),
			})
			require.Equal(t, "tool_call_required", e.Status, "%+v", e)
			e = s.code("/exec/programmatic", map[string]any{"continuation_token": e.ContinuationToken, "tool_results": results(e)})
			require.Equal(t, "{'n': 1}\n", e.Stdout, "%+v", e)
			require.Len(t, e.Files, 1)
			e = s.code("/exec", map[string]any{"lang": "py", "code": "print(open('out.txt').read())", "session_id": e.SessionID, "files": []map[string]any{
				{"id": e.Files[0].ID, "session_id": e.SessionID, "name": e.Files[0].Name},
			}})
			require.Equal(t, "{'n': 1}\n", e.Stdout, "%+v", e)
		})
	}
}

// The strict driver satisfies a production server that asks for the highest
// level of isolation; cli_test.go shows that the default one does not.
func TestProductionWithKernelIsolation(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	s := serve(t, databasetest.URL(t, database.SQLite), "SANDBOX_DRIVER=gvisor", "SANDBOX_RUNSC="+testenv.Need(t, "PORTICO_RUNSC", "tools/runsc.sh prints it"),
		"PORTICO_MODE=production", "SANDBOX_ISOLATION=kernel")
	require.Equal(t, "on\n", s.run(map[string]any{"code": "print('on')"}).Stdout)
}
