package markup

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// Tidy changes a page so that its content is found, and reports whether it is
// one whose text is made by scripts.
func Tidy(doc *html.Node) (scripted bool) {
	scripted = needsScripts(doc)
	labels := map[string]string{}
	each(doc, func(n *html.Node) {
		if attribute(n, "role") == "tab" && attribute(n, "id") != "" {
			labels[attribute(n, "id")] = strings.TrimSpace(textOf(n))
		}
	})
	each(doc, func(n *html.Node) {
		switch {
		case noise(n), n.DataAtom == atom.Nav && !has(n, atom.H1) && !has(n, atom.Main):
			drop(n)
		case tabPanel(n):
			openPanel(n, labels)
		}
	})
	authors(doc)
	each(doc, func(n *html.Node) {
		switch n.DataAtom {
		case atom.Table:
			if code := numbered(n); code != nil {
				replace(n, code)
			}
		case atom.Caption:
			caption(n)
		case atom.Img:
			image(n)
		case atom.A:
			link(n)
		case atom.Dt, atom.Summary:
			emphasize(n)
		case atom.Math:
			formula(n)
		case atom.Input:
			checkbox(n)
		}
		if slices.Contains(classes(n), "admonition-title") {
			emphasize(n)
		}
	})
	each(doc, func(n *html.Node) {
		if n.DataAtom == atom.Pre {
			plainCode(n)
		}
	})
	return scripted
}

// noise is what no reader wants, wherever it stands.
func noise(n *html.Node) bool {
	switch n.DataAtom {
	case atom.Button, atom.Canvas, atom.Svg, atom.Style, atom.Template, atom.Object, atom.Embed:
		return true
	case atom.Sup:
		return slices.Contains(classes(n), "reference")
	}
	if attribute(n, "role") == "tab" || attribute(n, "role") == "tablist" {
		return true
	}
	for _, c := range classes(n) {
		switch c {
		case "mw-editsection", "noprint", "navbox", "mw-jump-link", "headerlink", "skip-link", "sr-only", "visually-hidden",
			"ad", "ads", "advert", "advertisement", "ad-slot", "ad-container", "adsbygoogle", "sponsored",
			"cookie-banner", "cookie-consent", "share-buttons", "social-share", "newsletter-signup":
			return n.DataAtom != atom.Body && n.DataAtom != atom.Html
		}
	}
	return false
}

var wantsScripts = regexp.MustCompile(`(?i)\b(java)?scripts?\b`)

// needsScripts reports whether a page has scripts, and either no text, an empty
// place that is filled by them, or words that ask for them.
func needsScripts(doc *html.Node) bool {
	body := bodyOf(doc)
	if body == nil || !has(doc, atom.Script) {
		return false
	}
	if strings.TrimSpace(textOf(body)) == "" {
		return true
	}
	for n := range body.Descendants() {
		switch {
		case n.DataAtom == atom.Noscript && n.FirstChild != nil && wantsScripts.MatchString(n.FirstChild.Data):
			return true
		case n.DataAtom == atom.Div || strings.HasPrefix(n.Data, "app-"):
			if id := attribute(n, "id"); slices.Contains([]string{"root", "app", "__next", "__nuxt", "___gatsby"}, id) || n.Data == "app-root" {
				if wordsOf(textOf(n)) < FewWords {
					return true
				}
			}
		}
	}
	return false
}

// tabPanel is a part of a page that is shown when its tab is chosen. All of
// them are kept.
func tabPanel(n *html.Node) bool {
	if attribute(n, "role") == "tabpanel" {
		return true
	}
	return slices.ContainsFunc(classes(n), func(c string) bool {
		return c == "tab-pane" || c == "tabpanel" || c == "tab-panel"
	})
}

func openPanel(n *html.Node, labels map[string]string) {
	dropAttribute(n, "hidden", "aria-hidden", "style", "class")
	label := labels[attribute(n, "aria-labelledby")]
	dropAttribute(n, "role")
	if label != "" {
		n.InsertBefore(element(atom.P, element(atom.Strong, words(label))), n.FirstChild)
	}
}

// image gives an image its real address, and takes those away that show
// nothing.
func image(n *html.Node) {
	src := strings.TrimSpace(attribute(n, "src"))
	if attribute(n, "alt") == "" && small(n) { // an icon, or a face
		src = ""
		dropAttribute(n, "data-src", "data-original", "data-lazy-src", "data-srcset", "srcset")
	} else if src == "" || strings.HasPrefix(src, "data:") {
		src = ""
		for _, key := range []string{"data-src", "data-original", "data-lazy-src", "data-srcset", "srcset"} {
			if value, _, _ := strings.Cut(strings.TrimSpace(attribute(n, key)), " "); value != "" && !strings.HasPrefix(value, "data:") {
				src = strings.TrimSuffix(value, ",")
				break
			}
		}
	}
	if src == "" || sizeOf(n, "width") == 1 || sizeOf(n, "height") == 1 {
		drop(n)
		return
	}
	setAttribute(n, "src", src)
	dropAttribute(n, "srcset", "data-srcset", "loading", "title")
}

// sizeOf is a width or a height in pixels, at least 1; 0 where it is not known.
func sizeOf(n *html.Node, key string) int {
	size, err := strconv.Atoi(strings.TrimSuffix(attribute(n, key), "px"))
	if err != nil {
		return 0
	}
	return max(size, 1)
}

// small is the width of an image that is at most an icon.
func small(n *html.Node) bool {
	width := sizeOf(n, "width")
	return width > 0 && width <= iconSize
}

const iconSize = 64

// link takes links away that lead to their own heading, and those that lead
// nowhere.
func link(n *html.Node) {
	href := strings.TrimSpace(attribute(n, "href"))
	dropAttribute(n, "title")
	text := strings.Trim(textOf(n), " \n\t#¶\u00a7^↑🔗\u200b")
	switch {
	case text == "" && !has(n, atom.Img) && (strings.HasPrefix(href, "#") || href == ""):
		drop(n)
	case text == "" && inHeading(n) && !has(n, atom.Img):
		drop(n)
	case href == "" || href == "#" || strings.HasPrefix(strings.ToLower(href), "javascript:"):
		unwrap(n)
	}
}

func inHeading(n *html.Node) bool {
	for p := n.Parent; p != nil; p = p.Parent {
		switch p.DataAtom {
		case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
			return true
		}
	}
	return false
}

// emphasize makes what names a definition, or what is folded, bold.
func emphasize(n *html.Node) {
	if strings.TrimSpace(textOf(n)) == "" || has(n, atom.Strong) || has(n, atom.B) {
		return
	}
	bold := element(atom.Strong)
	for c := n.FirstChild; c != nil; c = n.FirstChild {
		n.RemoveChild(c)
		bold.AppendChild(c)
	}
	n.AppendChild(bold)
	if n.DataAtom == atom.Summary {
		n.DataAtom, n.Data = atom.P, "p"
	}
}

// authors keeps who wrote each of several posts, as a line before it:
// readability would take them for menus. One author alone stays as written.
func authors(doc *html.Node) {
	var found []*html.Node
	each(doc, func(n *html.Node) {
		if n.DataAtom != atom.Div && n.DataAtom != atom.Header || len(textOf(n)) > maxAuthor || strings.TrimSpace(textOf(n)) == "" {
			return
		}
		if slices.ContainsFunc(classes(n), func(c string) bool {
			return c == "author" || c == "post-author" || c == "poster" || c == "topic-author" || c == "comment-author" || c == "topic-meta-data"
		}) {
			found = append(found, n)
		}
	})
	if len(found) < 2 {
		return
	}
	for _, n := range found {
		replace(n, element(atom.P, element(atom.Strong, words(oneLine(textOf(n))))))
	}
}

// maxAuthor is how long the line about an author is at most, in bytes.
const maxAuthor = 200

// caption puts what a table is called before it.
func caption(n *html.Node) {
	table := n.Parent
	if table == nil || table.DataAtom != atom.Table || table.Parent == nil || strings.TrimSpace(textOf(n)) == "" {
		return
	}
	drop(n)
	table.Parent.InsertBefore(element(atom.P, element(atom.Strong, words(oneLine(textOf(n))))), table)
}

// checkbox keeps what is done in a list of tasks.
func checkbox(n *html.Node) {
	if attribute(n, "type") != "checkbox" || n.Parent == nil || n.Parent.DataAtom != atom.Li && n.Parent.DataAtom != atom.P && n.Parent.DataAtom != atom.Label {
		return
	}
	mark := "[ ] "
	if hasAttribute(n, "checked") {
		mark = "[x] "
	}
	replace(n, words(mark))
}

// formula keeps the TeX of a formula.
func formula(n *html.Node) {
	tex := attribute(n, "alttext")
	if tex == "" {
		for d := range n.Descendants() {
			if d.Data == "annotation" && strings.Contains(attribute(d, "encoding"), "tex") {
				tex = textOf(d)
			}
		}
	}
	if tex = strings.TrimSpace(tex); tex != "" {
		replace(n, element(atom.Code, words(tex)))
	}
}
