package shape_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/schema/jsontree"
	"github.com/portico-run/portico/internal/schema/shape"
)

// A shape names types and members, says how many items a whole list has, and
// shows no value and no name that is data.
func TestOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		data  string
		whole bool
		want  string
	}{
		{`[{"id":1,"name":"Ada"},{"id":2,"name":null}]`, true, "list[{id: int, name: str | None}] (2 items)"},
		{`[{"id":1},"[398 items omitted]"]`, false, "list[{id: int}]"},
		{`{"total":1.5,"ok":true,"rows":[]}`, true, "{total: float, ok: bool, rows: list[Any]}"},
		{`{"ada@example.com":{"n":1},"bob@example.com":{"n":"x"}}`, true, "dict[str, {n: int | str}]"},
		{`{"u_8f3a9c01d2":1}`, true, "dict[str, int]"},
		{`{"a":{"b":{"c":{"d":{"e":{"f":1}}}}}}`, true, "{a: {b: {c: {d: {e: Any}}}}}"},
		{`"secret"`, true, "str"},
		{`null`, true, "None"},
	} {
		v, err := jsontree.Parse(json.RawMessage(c.data))
		require.NoError(t, err)
		require.Equal(t, c.want, shape.Of(v, c.whole), c.data)
	}
}
