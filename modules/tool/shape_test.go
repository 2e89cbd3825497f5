package tool_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/tool"
)

// The shape of the last success has types and names, and no value.
func TestShapeOfTheLastSuccess(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f *fixture) {
		wide := make([]string, 60)
		for i := range wide {
			wide[i] = fmt.Sprintf(`"%c%c":%d`, 'a'+i%26, 'a'+i/26, i)
		}
		for data, want := range map[string]string{
			`[{"id":1,"name":"Ada"},{"id":2,"name":null,"tags":["x"]}]`: "list[{id: int, name: str | None, tags: list[str]}] (2 items)",
			`{"total":1.5,"ok":true,"rows":[]}`:                         "{total: float, ok: bool, rows: list[Any]}",
			`"secret"`:                                                  "str",
			`null`:                                                      "None",
			`{"ada@example.com":{"n":1},"bob@example.com":{"n":"x"}}`:       "dict[str, {n: int | str}]",
			`{"2024-01-02":1,"2024-01-03":2}`:                               "dict[str, int]",
			`{"u_8f3a9c01d2":1}`:                                            "dict[str, int]",
			`{"` + strings.Repeat("k", 41) + `":"x"}`:                       "dict[str, str]",
			`{"The title of my page":"x"}`:                                  "dict[str, str]",
			`{` + strings.Join(wide, ",") + `}`:                             "dict[str, int]",
			`{"a":{"b":{"c":{"d":{"e":{"f":1}}}}}}`:                         "{a: {b: {c: {d: {e: Any}}}}}",
			`[1,"x",true,1.5,null]`:                                         "list[Any] (5 items)",
			`[` + strings.Repeat(`{"id":1},`, 400) + `{"other":"skipped"}]`: "list[{id: int}]",
		} {
			f.answers(json.RawMessage(data))
			_, err := f.execute(t.Context(), anna, request(`{"city":"Rome"}`))
			require.NoError(t, err)
			got, err := f.records.LastShape(t.Context(), anna, "weather", "forecast")
			require.NoError(t, err)
			require.Equal(t, want, got, data)
		}
		// A failure does not replace it, and other tools have none.
		_, err := f.execute(t.Context(), anna, request(`{"city":7}`))
		require.NoError(t, err)
		got, err := f.records.LastShape(t.Context(), anna, "weather", "forecast")
		require.NoError(t, err)
		require.NotEmpty(t, got)
		for _, key := range []tool.Request{{Toolset: "weather", Tool: "free"}, {Toolset: "other", Tool: "forecast"}} {
			got, err := f.records.LastShape(t.Context(), anna, key.Toolset, key.Tool)
			require.NoError(t, err)
			require.Empty(t, got)
		}
	})
}
