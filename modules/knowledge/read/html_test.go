package read_test

import (
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/modules/knowledge/read"
)

var update = flag.Bool("update", false, "write the golden files")

func page(t *testing.T, name string) (read.Page, error) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "pages", name+".html"))
	require.NoError(t, err)
	base, err := url.Parse("https://site.example/guide/" + name + ".html")
	require.NoError(t, err)
	return read.PageOf(b, "text/html", base)
}

// What is kept of a page is what a person would keep: see the golden files.
func TestPagesKeepTheirContent(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"docs", "blog", "forum", "readme", "tabs", "news", "wiki", "legacy"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := page(t, name)
			require.NoError(t, err)
			got := "# " + p.Title + "\n\n" + p.Markdown + "\n"
			golden := filepath.Join("testdata", "pages", name+".md")
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(got), 0o600))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Empty(t, cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")))
		})
	}
}

// Elements that are not closed are made again in each paragraph: 200 of them in
// 50,000 paragraphs would be ten million.
func TestPagesThatGrowWhenTheyAreReadAreRefused(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for n := range 200 {
		fmt.Fprintf(&b, "<font color=%d>", n)
	}
	b.WriteString(strings.Repeat("<p>x", 50_000))
	_, err := read.PageOf([]byte(b.String()), "text/html", nil)
	require.ErrorIs(t, err, read.ErrTooLarge)
	p, err := read.PageOf([]byte(strings.Repeat("<p><b>bold <i>both</i>, and not closed", 2000)), "text/html", nil)
	require.NoError(t, err, "a page that is only badly written is read")
	require.Contains(t, p.Markdown, "not closed")
}

func TestPagesWithoutTextSayWhy(t *testing.T) {
	t.Parallel()
	_, err := page(t, "app")
	require.ErrorIs(t, err, read.ErrNeedsBrowser)
	_, err = page(t, "nested")
	require.ErrorIs(t, err, read.ErrDamaged)
	for text, want := range map[string]error{
		"<html><body> </body></html>": read.ErrEmpty,
		"":                            read.ErrEmpty,
		"<body>" + strings.Repeat("<br>", 100_001) + "x":               read.ErrTooLarge,
		"<body><div id=root>Loading…</div><script src=/a.js></script>": read.ErrNeedsBrowser,
		"<body><script>document.write('hello')</script>":               read.ErrNeedsBrowser,
		"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00":      read.ErrType,
		"<body><p>" + strings.Repeat("<table><tr><td>", 300) + "x":     read.ErrDamaged,
	} {
		_, err := read.PageOf([]byte(text), "text/html", nil)
		require.ErrorIs(t, err, want, "%.60q", text)
	}
	small, err := read.PageOf([]byte("<title>t</title><p>Just one line.<script src=/count.js></script>"), "", nil)
	require.NoError(t, err)
	require.Equal(t, "Just one line.", small.Markdown)
}
