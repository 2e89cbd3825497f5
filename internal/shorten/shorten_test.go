package shorten_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/shorten"
)

func TestShortenIsValidAndFits(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`[`, 3000) + strings.Repeat(`]`, 3000)
	for name, data := range map[string]string{
		"text":    `"` + strings.Repeat("ä", 5000) + `"`,
		"list":    "[" + strings.TrimSuffix(strings.Repeat("123456,", 5000), ",") + "]",
		"deep":    deep,
		"wide":    `{"` + strings.Repeat(`k":1,"`, 2000) + `z":1}`,
		"keys":    `{"` + strings.Repeat("k", 5000) + `":1}`,
		"nested":  `{"a":{"b":[` + strings.TrimSuffix(strings.Repeat(`{"c":"`+strings.Repeat("x", 100)+`"},`, 200), ",") + `]}}`,
		"number":  `{"n":12345678901234567890123,"t":"` + strings.Repeat("x", 5000) + `"}`,
		"blanks":  " [ { \"a\" : [ 1 , 2 ] ,\n\"b\" : null } , [ ] , { } ] ",
		"escapes": `"` + strings.Repeat(`\"\\\ud83d\ude00\u00e4`, 500) + `"`,
	} {
		for _, limit := range []int{64, 200, 1000, 4000} {
			got, err := shorten.JSON([]byte(data), limit)
			require.NoError(t, err, name)
			require.LessOrEqual(t, len(got), limit, name)
			require.True(t, json.Valid(got), name)
		}
	}
	got, err := shorten.JSON([]byte(`{"n":12345678901234567890123,"t":"`+strings.Repeat("x", 5000)+`"}`), 1000)
	require.NoError(t, err)
	require.Contains(t, string(got), "12345678901234567890123", "a number lost digits")
}

func TestText(t *testing.T) {
	t.Parallel()
	require.Equal(t, "short", shorten.Text("short", 5))
	got := shorten.Text(strings.Repeat("ä", 500), 100)
	require.True(t, strings.HasPrefix(got, "ää"))
	require.True(t, strings.HasSuffix(got, "ää"))
	require.Contains(t, got, "of 1000 bytes are left out here")
	require.True(t, utf8.ValidString(got))
	data := shorten.Text(`{"rows":[`+strings.Repeat(`"row",`, 500)+`"last"],"note":"kept"}`, 300)
	require.True(t, json.Valid([]byte(data)), data)
	require.Contains(t, data, "kept")
	require.LessOrEqual(t, len(data), 300)
}

func TestShortenSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	data := `{"list":[` + strings.Repeat(`"row",`, 4999) + `"last"],"text":"` + strings.Repeat("x", 100_000) + `","wide":{"` +
		strings.Repeat(`k":1,"`, 2999) + `z":[[]]},"n":1e400}`
	got, err := shorten.JSON([]byte(data), 80_000)
	require.NoError(t, err)
	var v struct {
		List []string
		Text string
		Wide map[string]any
		N    json.Number
	}
	require.NoError(t, json.Unmarshal(got, &v))
	require.Equal(t, "[4000 items omitted]", v.List[1000])
	require.True(t, strings.HasSuffix(v.Text, "x… [34464 bytes omitted]"), v.Text[len(v.Text)-40:])
	require.Equal(t, "[2000 members omitted]", v.Wide["…"])
	require.Equal(t, "1e400", v.N.String())
	_, err = shorten.JSON([]byte(`{"a":`), 10)
	require.Error(t, err)
}

func FuzzShorten(f *testing.F) {
	for _, seed := range []string{`{"a":[1,"\ud83d\ude00x"]}`, `[[[[]]]]`, `"\\\""`, ` -1.5e3 `, `{"":{}}`} {
		f.Add([]byte(seed), 10)
	}
	f.Fuzz(func(t *testing.T, data []byte, limit int) {
		got, err := shorten.JSON(data, limit)
		require.Equal(t, json.Valid(data), err == nil)
		require.True(t, err != nil || json.Valid(got), "%q became %q", data, got)
		require.True(t, len(got) <= max(limit, len(`"[omitted]"`)))
	})
}

func BenchmarkShorten(b *testing.B) {
	data := []byte("[" + strings.Repeat(`{"id":12345,"name":"somebody","tags":["a","b"]},`, 300_000) + "1]")
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		_, err := shorten.JSON(data, 1<<20)
		require.NoError(b, err)
	}
}
