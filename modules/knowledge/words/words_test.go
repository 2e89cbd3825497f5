package words_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/knowledge/words"
)

func TestQuestionsAreReadForBothDatabases(t *testing.T) {
	t.Parallel()
	for question, want := range map[string]struct{ plain, web, fts5 string }{
		"How do I light the stove?": {"light stove", `"how" "do" "i" "light" "the" "stove" `, `"light" OR "stove"`},
		"view.body_text E7":         {"view body text e7", `"view" "body" "text" "e7" `, `"view" OR "body" OR "text" OR "e7"`},
		`"red door" lamp`:           {"red door lamp", `"red door" "lamp" `, `("red door" AND "lamp")`},
		`lamp -red -"old door"`:     {"lamp", `"lamp" -"red" -"old door" `, `("lamp") NOT ("red" OR "old door")`},
		"who are you":               {"who are you", `"who" "are" "you" `, `"who" OR "are" OR "you"`},
		`an "open quote`:            {"open quote", `"an" "open" "quote" `, `"open" OR "quote"`},
		"lamp lamp well-lit":        {"lamp well lit", `"lamp" "lamp" "well" "lit" `, `"lamp" OR "well" OR "lit"`},
		"Größe größe":               {"größe", `"größe" "größe" `, `"größe"`},
	} {
		w := words.Parse(question)
		require.False(t, w.None(), question)
		require.Equal(t, want.plain, w.Plain(), question)
		require.Equal(t, want.web, w.Web(), question)
		require.Equal(t, want.fts5, w.FTS5(), question)
	}
	for _, nothing := range []string{"", " ", "?!", "-lamp", `""`, `-"a b"`} {
		require.True(t, words.Parse(nothing).None(), nothing)
	}
	require.Len(t, strings.Fields(words.Parse(strings.Repeat("a1 b2 ", 100)).Web()), 64)
}

func TestSharesCountEveryFormOfAWord(t *testing.T) {
	t.Parallel()
	require.InDelta(t, 1, words.Share([]string{"burns", "lantern"}, "Lanterns are burning."), 1e-9)
	require.InDelta(t, 0.5, words.Share([]string{"burns", "dog"}, "Lanterns are burning."), 1e-9)
	require.Zero(t, words.Share([]string{"xylophone"}, "Lanterns are burning."))
	require.Zero(t, words.Share(nil, "Lanterns are burning."))
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{`"a" -b`, `-"`, "é\x00", `a"b"c`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, question string) {
		w := words.Parse(question)
		require.Zero(t, strings.Count(w.FTS5(), `"`)%2, "quotes are closed")
		require.NotContains(t, w.Web()+w.FTS5(), "\x00")
	})
}
