package read

import (
	"context"
	"net/url"
	"strings"

	"golang.org/x/net/html"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/knowledge/read/markup"
)

// ErrNeedsBrowser is a page whose text is made by its scripts.
var ErrNeedsBrowser = errs.New(errs.Invalid, "The page has no text without a browser.").
	Do("Its text is made by scripts, which are not run. Look for an API, a feed, or a page for printing of the same site.")

// Bounds of pages. The time of what reads them grows with the elements, and
// that of a few steps with their nesting.
const (
	maxElements = markup.MaxElements
	maxDepth    = 400
)

// Page is the content of a web page that a person would keep.
type Page struct {
	Title string
	// Markdown is its main content, without its title. Links and images are
	// absolute.
	Markdown string
}

// HTML reads web pages.
type HTML struct{}

// Read implements Reader.
func (HTML) Read(_ context.Context, s Source) (Document, error) {
	b, err := content(s, maxText)
	if err != nil {
		return Document{}, err
	}
	base, err := url.Parse(s.Name)
	if err != nil || base.Host == "" {
		base = nil
	}
	page, err := PageOf(b, s.MIME, base)
	if err != nil {
		return Document{}, err
	}
	return ofMarkdown(s.Name, page.Title, page.Markdown)
}

// PageOf reads the main content of a page. MIME is its declared media type.
// Base is its address, or nil for none, where links stay as they are.
func PageOf(b []byte, mime string, base *url.URL) (Page, error) {
	text, err := Decode(b, mime)
	if err != nil {
		return Page{}, err
	}
	if markup.TooHeavy(text) {
		return Page{}, ErrTooLarge.Do("The page has more elements than are read. Ask for a part of it.")
	}
	doc, err := html.Parse(strings.NewReader(text))
	if err != nil {
		return Page{}, ErrDamaged.Do("Its elements are nested too deeply.").With(err)
	}
	elements, depth := markup.Extent(doc)
	if elements > maxElements {
		return Page{}, ErrTooLarge.Do("The page has more elements than are read. Ask for a part of it.")
	}
	if depth > maxDepth {
		return Page{}, ErrDamaged.Do("Its elements are nested too deeply.")
	}
	base = markup.Base(doc, base)
	scripted := markup.Tidy(doc)
	title, found := markup.Main(doc, base)
	if found == nil {
		return Page{}, noText(scripted)
	}
	markdown, err := markup.Write(found, base)
	if err != nil {
		return Page{}, ErrDamaged.With(err)
	}
	if markdown == "" || scripted && len(strings.Fields(markdown)) < markup.FewWords {
		return Page{}, noText(scripted)
	}
	return Page{Title: title, Markdown: withoutTitle(markdown, title)}, nil
}

func noText(scripted bool) error {
	if scripted {
		return ErrNeedsBrowser
	}
	return ErrEmpty.Do("The page has no text.")
}

// withoutTitle takes the title off where the text begins with it.
func withoutTitle(markdown, title string) string {
	first, rest, _ := strings.Cut(markdown, "\n")
	if m := atxHeading.FindStringSubmatch(first); m != nil && strings.EqualFold(plainHeading(m[2]), plainHeading(title)) {
		return strings.TrimLeft(rest, "\n")
	}
	return markdown
}
