package read_test

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"

	"github.com/portico-run/portico/modules/knowledge/read"
)

func TestMarkdownIsSplitAtItsHeadings(t *testing.T) {
	t.Parallel()
	text := "---\ntitle: \"The manual\"\ntags: [a]\n---\nBefore.\n\n# Pump #\n\nAbout.\n\n## `Install` it\n\n```sh\n# no heading\n```\n\n" +
		"### On [Linux](https://x.example)\r\n\r\nSteps.\n\nUse\n---\n\nDaily.\n\n## Empty\n"
	d, err := read.Markdown{}.Read(t.Context(), source("docs/pump.md", "", []byte(text)))
	require.NoError(t, err)
	require.Equal(t, read.Document{Source: "docs/pump.md", Title: "The manual", Sections: []read.Section{
		{"", "Before."},
		{"", "About."},
		{"Install it", "```sh\n# no heading\n```"},
		{"Install it > On Linux", "Steps."},
		{"Use", "Daily."},
	}}, d)
	d, err = read.Markdown{}.Read(t.Context(), source("a/b.md", "", []byte("# First\nx\n# Second\ny\n```\n# in code, to the end")))
	require.NoError(t, err)
	require.Equal(t, "First", d.Title)
	require.Equal(t, "Second", d.Sections[1].Title)
	_, err = read.Markdown{}.Read(t.Context(), source("a.md", "", []byte("# Nothing below\n")))
	require.ErrorIs(t, err, read.ErrEmpty)
}

func TestTextIsReadInItsCharset(t *testing.T) {
	t.Parallel()
	const want = "Größe: 5 €\nnächste"
	utf16, err := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder().Bytes([]byte(want))
	require.NoError(t, err)
	windows, err := charmap.Windows1252.NewEncoder().Bytes([]byte(want))
	require.NoError(t, err)
	for name, b := range map[string][]byte{"utf-8": []byte(want), "with a mark": []byte("\ufeff" + want), "utf-16": utf16, "windows-1252": windows, "windows lines": []byte(strings.ReplaceAll(want, "\n", "\r\n"))} {
		d, err := read.Text{}.Read(t.Context(), source("notes/a.txt", "text/plain", b))
		require.NoError(t, err, name)
		require.Equal(t, []read.Section{{"", want}}, d.Sections, name)
		require.Equal(t, "a.txt", d.Title)
	}
	latin, err := charmap.ISO8859_2.NewEncoder().Bytes([]byte("Łódź"))
	require.NoError(t, err)
	d, err := read.Text{}.Read(t.Context(), source("a.txt", "text/plain; charset=iso-8859-2", latin))
	require.NoError(t, err)
	require.Equal(t, "Łódź", d.Sections[0].Text)
	_, err = read.Text{}.Read(t.Context(), source("a.txt", "", []byte("a\x00b\x01\x02")))
	require.ErrorIs(t, err, read.ErrType)
	_, err = read.Text{}.Read(t.Context(), source("a.txt", "", []byte(" \n")))
	require.ErrorIs(t, err, read.ErrEmpty)
}

// closes counts what was opened and not closed.
type closes struct {
	io.Reader

	open *int
}

func (c closes) Close() error { *c.open--; return nil }

func TestSourcesAreReadByTheirType(t *testing.T) {
	t.Parallel()
	html := "<html><head><title>T</title></head><body><h2>Part</h2><p>Hello <a href=/x>there</a>.</p></body></html>"
	for name, c := range map[string]struct {
		name, mime, content, title, text string
		err                              error
	}{
		"page by its type":          {"https://a.example/p", "text/html; charset=utf-8", html, "T", "Hello [there](https://a.example/x).", nil},
		"page by its first bytes":   {"download", "application/octet-stream", html, "T", "Hello [there](/x).", nil},
		"page by its name":          {"https://a.example/p.html?x=1", "", html, "T", "Hello [there](https://a.example/x).", nil},
		"Markdown sent as text":     {"https://a.example/README.md", "text/plain", "# A\n\nb", "A", "b", nil},
		"text":                      {"LICENSE", "", "Free.", "LICENSE", "Free.", nil},
		"JSON is text":              {"a", "application/vnd.api+json", "{}", "a", "{}", nil},
		"picture":                   {"a.png", "image/png", "\x89PNG\r\n\x1a\n", "", "", read.ErrType},
		"picture without a type":    {"a", "", "\x89PNG\r\n\x1a\n", "", "", read.ErrType},
		"Word file of before 2007":  {"a.doc", "", "\xd0\xcf\x11\xe0", "", "", read.ErrType},
		"PDF that is none":          {"a.pdf", "", "hello", "", "", read.ErrType},
		"archive that is no Office": {"a", "", "GIF89a", "", "", read.ErrType},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open := 0
			s := read.Source{Name: c.name, MIME: c.mime, Size: -1, Open: func() (io.ReadCloser, error) {
				open++
				return closes{strings.NewReader(c.content), &open}, nil
			}}
			d, err := read.Any{}.Read(t.Context(), s)
			require.ErrorIs(t, err, c.err)
			require.Zero(t, open, "every reader is closed")
			if c.err != nil {
				require.NotEmpty(t, detail(err))
				return
			}
			require.Equal(t, c.title, d.Title)
			require.Equal(t, c.text, d.Sections[0].Text)
		})
	}
	_, err := read.Any{}.Read(t.Context(), read.Source{Name: "a.txt", Size: 17 << 20})
	require.ErrorIs(t, err, read.ErrTooLarge, "by its size alone")
	_, err = read.Any{}.Read(t.Context(), read.Source{Name: "a.txt", Size: -1, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(io.LimitReader(endless{}, 17<<20)), nil
	}})
	require.ErrorIs(t, err, read.ErrTooLarge, "by what comes")
	_, err = read.Any{}.Read(t.Context(), read.Source{Name: "a", Size: -1, Open: func() (io.ReadCloser, error) { return nil, os.ErrNotExist }})
	require.ErrorIs(t, err, os.ErrNotExist)
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}
