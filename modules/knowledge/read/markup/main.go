// Package markup finds the main content of an HTML page, and writes it as
// Markdown.
package markup

import (
	"net/url"
	"strings"

	"codeberg.org/readeck/go-readability/v2"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// MaxElements is how many elements of a page are looked at.
const MaxElements = 100_000

// FewWords is what a page has at most that only asks for scripts to be run.
const FewWords = 25

func wordsOf(s string) int { return len(strings.Fields(s)) }

// Extent is how many elements there are, and how deep the deepest one is.
func Extent(doc *html.Node) (elements, deepest int) {
	depth := 0
	for n := doc; n != nil; {
		if n.Type == html.ElementNode {
			elements++
		}
		if n.FirstChild != nil {
			n, depth = n.FirstChild, depth+1
			deepest = max(deepest, depth)
			continue
		}
		for n != nil && n.NextSibling == nil {
			n, depth = n.Parent, depth-1
		}
		if n != nil {
			n = n.NextSibling
		}
	}
	return elements, deepest
}

// Base is the address that links of a page are relative to.
func Base(doc *html.Node, page *url.URL) *url.URL {
	for n := range doc.Descendants() {
		if n.DataAtom != atom.Base || attribute(n, "href") == "" {
			continue
		}
		href, err := url.Parse(attribute(n, "href"))
		if err != nil {
			break
		}
		if page != nil {
			href = page.ResolveReference(href)
		}
		if href.Host != "" {
			return href
		}
		break
	}
	return page
}

// Main is the title of a page and its main content: what readability finds,
// or the element that the page marks as its main content where readability
// leaves much of that out, as it does with references and lists.
func Main(doc *html.Node, base *url.URL) (string, *html.Node) {
	marked := markedMain(doc)
	parser := readability.NewParser()
	parser.KeepClasses = true
	parser.MaxElemsToParse = MaxElements
	if base == nil {
		base = &url.URL{}
	}
	title := ""
	var found *html.Node
	article, err := parser.ParseDocument(doc, base)
	if err == nil {
		title, found = article.Title(), article.Node
	}
	if marked != nil && lengthOf(found) < lengthOf(marked)*3/4 {
		found = marked
	}
	if lengthOf(found) == 0 { // such as a page of links
		found = stripped(bodyOf(doc))
	}
	if found == nil || strings.TrimSpace(textOf(found)) == "" && !has(found, atom.Img) {
		return title, nil
	}
	return shortTitle(title, doc), found
}

// markedMain is the element that a page names as its main content, without
// what is never a part of that. It is nil where there is none, or not one.
func markedMain(doc *html.Node) *html.Node {
	for _, is := range []func(*html.Node) bool{
		func(n *html.Node) bool { return n.DataAtom == atom.Main || attribute(n, "role") == "main" },
		func(n *html.Node) bool { return n.DataAtom == atom.Article },
	} {
		var all []*html.Node
		for n := range doc.Descendants() {
			if n.Type == html.ElementNode && is(n) && (len(all) == 0 || !within(n, all[len(all)-1])) {
				all = append(all, n)
			}
		}
		if len(all) == 1 {
			return stripped(all[0])
		}
	}
	return nil
}

// stripped is a copy of an element without navigation, forms, and the like.
func stripped(n *html.Node) *html.Node {
	if n == nil {
		return nil
	}
	c := clone(n)
	var gone []*html.Node
	for d := range c.Descendants() {
		if d.Type == html.ElementNode && aside(d) {
			gone = append(gone, d)
		}
	}
	remove(gone)
	return c
}

func aside(n *html.Node) bool {
	switch n.DataAtom {
	case atom.Nav, atom.Aside, atom.Footer, atom.Form, atom.Button, atom.Select, atom.Dialog, atom.Template:
		return true
	}
	switch attribute(n, "role") {
	case "navigation", "complementary", "search", "banner", "contentinfo", "dialog", "alertdialog", "menu", "menubar":
		return true
	}
	return false
}

// shortTitle is the title of a page without the name of its site, where the
// page has a heading that says so.
func shortTitle(title string, doc *html.Node) string {
	whole, best := "", ""
	if n := first(doc, atom.Title); n != nil {
		whole = strings.ToLower(oneLine(textOf(n)))
	}
	for n := range doc.Descendants() {
		if n.DataAtom != atom.H1 {
			continue
		}
		heading := oneLine(textOf(n))
		if (whole == "" || strings.Contains(whole, strings.ToLower(heading))) && len(heading) > len(best) {
			best = heading
		}
	}
	if best != "" {
		return best
	}
	return oneLine(title)
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
