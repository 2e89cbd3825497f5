package read_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/portico-run/portico/modules/knowledge/read"
)

func split(text string, most int) []string {
	var list []string
	for _, p := range read.Split(read.Document{Sections: []read.Section{{Text: text}}}, read.SplitOptions{Max: most, Min: 1}) {
		list = append(list, p.Text)
	}
	return list
}

func TestPassagesEndAtHeadingsThenParagraphsThenSentences(t *testing.T) {
	t.Parallel()
	d := read.Document{
		Title: "Manual", Framework: "Kit", Symbol: "Kit.Pump",
		Sections: []read.Section{{"Install", "One."}, {"Use > Daily", strings.Repeat("A sentence of words. ", 10) + "\n\nAnother paragraph."}},
	}
	got := read.Split(d, read.SplitOptions{Max: 120, Min: 10})
	require.Equal(t, read.Passage{Title: "Manual", Section: "Install", Framework: "Kit", Symbol: "Kit.Pump", Text: "One."}, got[0])
	require.Len(t, got, 4)
	require.Equal(t, "Use > Daily", got[1].Section)
	require.True(t, strings.HasSuffix(got[1].Text, "A sentence of words."), got[1].Text)
	require.True(t, strings.HasPrefix(got[2].Text, "A sentence"), got[2].Text)
	require.Equal(t, "Another paragraph.", got[3].Text)
}

func TestCodeBlocksStayWholeWhereTheyFit(t *testing.T) {
	t.Parallel()
	code := "```go\n" + strings.Repeat("x := 1\n\n", 10) + "```"
	got := split(strings.Repeat("words ", 15)+"\n\n"+code+"\n\nafter", 119)
	require.True(t, strings.HasPrefix(got[1], code), got[1])
	long := split("```py\n"+strings.Repeat("print('a line of code')\n", 20)+"```", 200)
	require.Greater(t, len(long), 1)
	for _, part := range long {
		require.True(t, strings.HasPrefix(part, "```py\nprint(") && strings.HasSuffix(part, ")\n```"), part)
	}
}

func TestPartsOfTablesHaveTheirHeader(t *testing.T) {
	t.Parallel()
	got := split("| Name | Weight |\n|---|---|\n"+strings.Repeat("| pump | 4 kg |\n", 30), 150)
	require.Greater(t, len(got), 2)
	for _, part := range got {
		require.True(t, strings.HasPrefix(part, "| Name | Weight |\n|---|---|\n| pump"), part)
	}
}

func TestShortEndsJoinWhatIsBefore(t *testing.T) {
	t.Parallel()
	d := read.Document{Sections: []read.Section{{Text: strings.Repeat("w", 100) + "\n\n" + strings.Repeat("v", 110) + "\n\nend"}}}
	got := read.Split(d, read.SplitOptions{Max: 210, Min: 20})
	require.Len(t, got, 2)
	require.Equal(t, strings.Repeat("v", 110)+"\n\nend", got[1].Text)
}

// Nothing is lost, nothing is too long.
func TestPassagesHoldAllWords(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{
			"word ", "Satz. ", "\n\n", "\n", "- item\n", "| a | b |\n", "```\n", "長い文章です。", strings.Repeat("x", 150) + " ", "# no heading ",
		}), 1, 60).Draw(t, "parts")
		text := strings.Join(parts, "")
		passages := split(text, 100)
		kept := func(s string) string {
			return strings.Map(func(r rune) rune {
				if strings.ContainsRune("` \n|-ab", r) { // fences and headers may be repeated
					return -1
				}
				return r
			}, s)
		}
		if got, want := kept(strings.Join(passages, "")), kept(text); got != want {
			t.Fatalf("%q\nbecame %q", want, got)
		}
		for _, p := range passages {
			if utf8.RuneCountInString(p) > 100 || strings.TrimSpace(p) == "" {
				t.Fatalf("%d characters: %q", utf8.RuneCountInString(p), p)
			}
		}
	})
}
