package help_test

import (
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/docs"
	"github.com/portico-run/portico/modules/console/help"
)

// Every document is a page, and every link between documents leads to one, at a
// heading that is there.
func TestLinksBetweenDocumentsHold(t *testing.T) {
	t.Parallel()
	l, err := help.New(docs.Files, "/console/help/")
	require.NoError(t, err)
	require.Greater(t, len(l.Pages()), 20)
	links := 0
	for _, p := range l.Pages() {
		require.NotEmpty(t, p.Title, p.Name)
		require.False(t, strings.Contains(string(p.HTML), "<h1"), p.Name)
		require.False(t, strings.Contains(string(p.HTML), "raw HTML omitted"), p.Name)
		for _, m := range regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(string(p.HTML), -1) {
			if strings.HasPrefix(m[1], "http") {
				continue
			}
			name, heading, _ := strings.Cut(strings.TrimPrefix(m[1], "/console/help/"), "#")
			if name == "" {
				name = p.Name
			}
			to, ok := l.Page(name)
			require.True(t, ok, "%s: %s", p.Name, m[1])
			if heading != "" {
				require.True(t, strings.Contains(string(to.HTML), `id="`+heading+`"`), "%s: %s", p.Name, m[1])
			}
			links++
		}
	}
	require.Greater(t, links, 30)
}

func TestADocumentBecomesAPage(t *testing.T) {
	t.Parallel()
	l, err := help.New(fstest.MapFS{
		"a.md":      {Data: []byte("# First\n\nWhat it *is*.\n\n## Part one\n\n| a | b |\n|---|---|\n| 1 | <script>alert(1)</script> |\n\nSee [b](deep/b.md#x), [code](../main.go) and [web](https://example.com).\n")},
		"deep/b.md": {Data: []byte("# Second\n\n## X\n\nBack to [a](../a.md).\n\n```sh\ncurl -s $URL\n```\n")},
		"no.txt":    {Data: []byte("no document")},
	}, "/h/")
	require.NoError(t, err)
	require.Len(t, l.Pages(), 2)
	p, ok := l.Page("a")
	require.True(t, ok)
	require.Equal(t, "First", p.Title)
	require.Equal(t, "What it is.", p.Summary)
	require.NotContains(t, p.HTML, "<script")
	require.Contains(t, p.HTML, `<h2 id="part-one">Part one</h2>`)
	require.Contains(t, p.HTML, "<td>1</td>")
	require.Contains(t, p.HTML, `See <a href="/h/deep/b#x">b</a>, code and <a href="https://example.com">web</a>.`)
	p, _ = l.Page("deep/b")
	require.Contains(t, p.HTML, `<a href="/h/a">a</a>`)
	_, ok = l.Page("../a")
	require.False(t, ok)
}

func TestSearchFindsSections(t *testing.T) {
	t.Parallel()
	l, err := help.New(docs.Files, "/h/")
	require.NoError(t, err)
	found := l.Search("API KEY")
	require.NotEmpty(t, found)
	for _, f := range found {
		_, ok := l.Page(f.Page)
		require.True(t, ok)
	}
	require.Equal(t, "graphql", l.Search("graphql")[0].Page)
	require.Empty(t, l.Search("  ?! "))
	require.Empty(t, l.Search("xyzzyplugh"))
	require.NotEmpty(t, l.Search(strings.Repeat("the ", 100)), "long questions are cut")

	hits := ""
	for _, part := range l.Search("quickstart demo toolset")[0].Parts {
		if part.Hit {
			hits += " " + strings.ToLower(part.Text)
		}
	}
	require.Contains(t, hits, "demo")
	require.Contains(t, hits, "toolset")
}
