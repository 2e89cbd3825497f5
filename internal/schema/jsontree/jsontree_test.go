package jsontree_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/schema/jsontree"
)

func TestOrderAndNumbersSurvive(t *testing.T) {
	t.Parallel()
	const text = `{"z":1.50,"a":{"<b>":[true,null,"ä",12345678901234567890]},"m":{}}`
	v, err := jsontree.Parse([]byte(text))
	require.NoError(t, err)
	out, err := jsontree.Encode(v)
	require.NoError(t, err)
	require.Equal(t, text, string(out))

	o := v.(*jsontree.Object)
	o.Set("a", "x")
	o.Set("n", nil)
	o.Delete("z")
	o.Delete("absent")
	require.Equal(t, []string{"a", "m", "n"}, o.Names())
	require.True(t, o.Has("n"))
	require.False(t, o.Has("z"))
	require.Equal(t, "x", o.String("a"))
	require.Equal(t, 3, o.Len())
	require.NotNil(t, o.Object("m"))
	require.Nil(t, o.Object("a"))
	require.Nil(t, o.List("a"))
}

func TestPointer(t *testing.T) {
	t.Parallel()
	v, err := jsontree.Parse([]byte(`{"a":{"b/c":{"~":1}},"l":[1]}`))
	require.NoError(t, err)
	o := v.(*jsontree.Object)
	require.Same(t, o, o.Pointer("#"))
	require.Equal(t, json.Number("1"), o.Pointer("#/a/b~1c/~0"))
	for _, ref := range []string{"#/none", "#/a/none/x", "#/l/0/x", "https://x/#/a", ""} {
		require.Nil(t, o.Pointer(ref), ref)
	}
}

func TestBadTexts(t *testing.T) {
	t.Parallel()
	for _, text := range []string{``, `{`, `{"a"`, `{"a":}`, `[1,`, `{} {}`, `nul`, `{"a":1,}`, strings.Repeat("[", 300)} {
		_, err := jsontree.Parse([]byte(text))
		require.Error(t, err, text)
	}
}

func TestMembersAreAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	members, err := jsontree.Members([]byte(` {"z" : 1.50, "a":{ "b":[1, 2]}, "z":"\u003c"} `))
	require.NoError(t, err)
	require.Equal(t, []jsontree.Member{
		{Name: "z", Value: json.RawMessage("1.50")}, {Name: "a", Value: json.RawMessage(`{ "b":[1, 2]}`)}, {Name: "z", Value: json.RawMessage(`"\u003c"`)},
	}, members)
	require.Equal(t, `{"z":1.50,"a":{ "b":[1, 2]},"z":"\u003c"}`, string(jsontree.Join(members)))
	members, err = jsontree.Members([]byte(`{}`))
	require.NoError(t, err)
	require.Empty(t, members)
	require.Equal(t, `{}`, string(jsontree.Join(nil)))
	for _, text := range []string{``, `null`, `[1]`, `"{"`, `{"a"`, `{"a":}`, `{"a":1,}`} {
		_, err := jsontree.Members([]byte(text))
		require.Error(t, err, text)
	}
}

func TestNoneOfAListHasAMember(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`[]`: true, `[{}]`: true, `[{"required":["a"]},{"x":1}]`: true, `[{},{"type":null}]`: false, `[{"items":1}]`: false, `[true]`: false, `[{},"text"]`: false,
	} {
		v, err := jsontree.Parse([]byte(text))
		require.NoError(t, err)
		require.Equal(t, want, jsontree.None(v.([]any), "type", "items"), text)
	}
}
