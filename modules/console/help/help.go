// Package help turns the repository's documents into pages, and searches them.
package help

import (
	"bytes"
	"cmp"
	"fmt"
	"html/template"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// Library is a folder of documents. It is safe for concurrent use.
type Library struct {
	pages map[string]Page
	names []string // in the order of titles
}

// Page is one document.
type Page struct {
	Name     string // its path without .md, such as wire/refly
	Title    string
	Summary  string        // its first paragraph
	HTML     template.HTML // without the title
	Sections []Section
}

// Section is what stands below one heading, until the next.
type Section struct {
	ID    string // of the heading; empty before the first
	Title string
	Text  string // without markup
}

// New reads the documents of a folder. base is the path that their names are
// appended to, with its slash, for links between them. HTML in documents is left
// out.
func New(folder fs.FS, base string) (*Library, error) {
	l := &Library{pages: map[string]Page{}}
	err := fs.WalkDir(folder, ".", func(file string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || path.Ext(file) != ".md" {
			return err
		}
		source, err := fs.ReadFile(folder, file)
		if err != nil {
			return err
		}
		page, err := read(folder, file, source, base)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		l.pages[page.Name] = page
		l.names = append(l.names, page.Name)
		return nil
	})
	slices.SortFunc(l.names, func(a, b string) int {
		return cmp.Or(strings.Count(a, "/")-strings.Count(b, "/"), strings.Compare(l.pages[a].Title, l.pages[b].Title))
	})
	return l, err
}

// Pages are all documents, by title.
func (l *Library) Pages() []Page {
	list := make([]Page, len(l.names))
	for i, name := range l.names {
		list[i] = l.pages[name]
	}
	return list
}

// Page is one document; ok is false if there is none.
func (l *Library) Page(name string) (p Page, ok bool) {
	p, ok = l.pages[name]
	return p, ok
}

func read(folder fs.FS, file string, source []byte, base string) (Page, error) {
	markdown := goldmark.New(goldmark.WithExtensions(extension.Table), goldmark.WithParserOptions(parser.WithAutoHeadingID()))
	document := markdown.Parser().Parse(text.NewReader(source))
	p := Page{Name: strings.TrimSuffix(file, ".md")}
	withoutComments(document)
	links(document, folder, path.Dir(file), base)
	p.Sections = sections(document, source)
	p.Title = p.Sections[0].Title
	if first := document.FirstChild(); first != nil && first.Kind() == ast.KindHeading {
		if next := first.NextSibling(); next != nil && next.Kind() == ast.KindParagraph {
			p.Summary = words(next, source)
		}
		document.RemoveChild(document, first) // the page has it as its own
	}
	var b bytes.Buffer
	if err := markdown.Renderer().Render(&b, source, document); err != nil {
		return Page{}, err
	}
	p.HTML = template.HTML(b.String()) //nolint:gosec // of documents of this repository, without their HTML
	return p, nil
}

// withoutComments removes comments, which are for those who write the document.
func withoutComments(document ast.Node) {
	for n := document.FirstChild(); n != nil; {
		next := n.NextSibling()
		if h, ok := n.(*ast.HTMLBlock); ok && h.HTMLBlockType == ast.HTMLBlockType2 {
			document.RemoveChild(document, h)
		}
		n = next
	}
}

// links makes links between documents lead to their pages. Those to other files
// of the repository become plain words: the server does not have them.
func links(document ast.Node, folder fs.FS, at, base string) {
	var gone []*ast.Link
	_ = ast.Walk(document, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // nothing in it fails
		l, ok := n.(*ast.Link)
		if !ok || !entering {
			return ast.WalkContinue, nil
		}
		if to, there := target(string(l.Destination), folder, at, base); there {
			l.Destination = []byte(to)
		} else {
			gone = append(gone, l)
		}
		return ast.WalkContinue, nil
	})
	for _, l := range gone {
		parent := l.Parent()
		for child := l.FirstChild(); child != nil; child = l.FirstChild() {
			parent.InsertBefore(parent, l, child)
		}
		parent.RemoveChild(parent, l)
	}
}

// target is where a link of a document leads to, if it leads anywhere here.
func target(link string, folder fs.FS, at, base string) (to string, there bool) {
	u, err := url.Parse(link)
	if err != nil {
		return "", false
	}
	if u.Scheme != "" || u.Path == "" {
		return link, true // elsewhere, or within the page
	}
	name := path.Join(at, u.Path)
	if _, err := fs.Stat(folder, name); err != nil || path.Ext(name) != ".md" {
		return "", false
	}
	u.Path = base + strings.TrimSuffix(name, ".md")
	return u.String(), true
}

// sections are the parts of a document for the search; there is always one.
func sections(document ast.Node, source []byte) []Section {
	list := []Section{{}}
	for n := document.FirstChild(); n != nil; n = n.NextSibling() {
		h, ok := n.(*ast.Heading)
		if !ok {
			last := &list[len(list)-1]
			last.Text = strings.TrimSpace(last.Text + " " + words(n, source))
			continue
		}
		s := Section{Title: words(h, source)}
		if id, ok := h.AttributeString("id"); ok && h.Level > 1 {
			if text, ok := id.([]byte); ok {
				s.ID = string(text)
			}
		}
		if list[0] == (Section{}) {
			list[0] = s
		} else {
			list = append(list, s)
		}
	}
	return list
}

// words is the text of a node on one line.
func words(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // nothing in it fails
		if !entering {
			if n.Type() == ast.TypeBlock {
				b.WriteByte(' ')
			}
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Text:
			b.Write(n.Value(source))
			if n.SoftLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			for _, line := range n.Lines().Sliced(0, n.Lines().Len()) {
				b.Write(line.Value(source))
			}
		}
		return ast.WalkContinue, nil
	})
	return strings.Join(strings.Fields(b.String()), " ")
}
