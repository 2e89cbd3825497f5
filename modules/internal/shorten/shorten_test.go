package shorten_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/internal/shorten"
)

func TestShortenIsValidAndFits(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`[`, 3000) + strings.Repeat(`]`, 3000)
	for name, data := range map[string]string{
		"text":   `"` + strings.Repeat("ä", 5000) + `"`,
		"list":   "[" + strings.TrimSuffix(strings.Repeat("123456,", 5000), ",") + "]",
		"deep":   deep,
		"wide":   `{"` + strings.Repeat(`k":1,"`, 2000) + `z":1}`,
		"keys":   `{"` + strings.Repeat("k", 5000) + `":1}`,
		"nested": `{"a":{"b":[` + strings.TrimSuffix(strings.Repeat(`{"c":"`+strings.Repeat("x", 100)+`"},`, 200), ",") + `]}}`,
		"number": `{"n":12345678901234567890123,"t":"` + strings.Repeat("x", 5000) + `"}`,
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
