package app_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/testenv"
)

// Where a tool states no schema of its results, help says what the last success
// of the same user looked like, and none of its values.
func TestHelpSaysWhatTheLastSuccessLookedLike(t *testing.T) {
	testenv.Slow(t, "a whole server at work")
	t.Parallel()
	each(t, func(t *testing.T, s *instance) {
		s.apply(t, map[string]string{"open.yaml": toolsetFile("open", 1, "")})
		program := map[string]any{"toolsets": []string{"open"}, "code": `print(help("tool_0"))
tool_0(min_population=500000)
print(help("tool_0").split("Returns: ")[1])`}
		o := s.run(program)
		require.Equal(t, "completed", o.Status, o.Stderr)
		require.Contains(t, o.Stdout, "tool_0(min_population?: int) -> Any")
		require.Contains(t, o.Stdout, "Returns: Any. No schema says more; print what one call returns.")
		require.Contains(t, o.Stdout, "\nAny. No schema says more; the last success looked like {cities: list[{")
		require.NotContains(t, o.Stdout, "Cairo")

		a := s.send(s.another("ben"), "POST", "/v1/sandbox/execute", map[string]any{
			"language": "python", "toolsets": []string{"open"}, "code": `print(help("tool_0"))`,
		})
		require.Equal(t, 200, a.status, a.raw)
		require.NotContains(t, a.raw, "last success")
	})
}
