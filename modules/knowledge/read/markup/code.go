package markup

import (
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// numbered is the code in a table whose first column is the numbers of its
// lines; nil for any other table.
func numbered(table *html.Node) *html.Node {
	var code *html.Node
	numbers := false
	for n := range table.Descendants() {
		if n.DataAtom != atom.Td && n.DataAtom != atom.Th {
			continue
		}
		if slices.ContainsFunc(classes(n), gutter) {
			numbers = true
		} else if pre := first(n, atom.Pre); pre != nil {
			code = pre
		}
	}
	if !numbers || code == nil {
		return nil
	}
	// What says the language may be the table, or the cell.
	if language := languageOf(code); language != "" {
		setAttribute(code, "class", "language-"+language)
	}
	drop(code)
	return code
}

// gutter are classes of line numbers.
func gutter(class string) bool {
	switch class {
	case "gutter", "linenos", "lineno", "line-numbers", "line-number", "linenumber", "linenodiv", "lnt", "ln", "blob-num", "hljs-ln-numbers":
		return true
	}
	return false
}

// plainCode makes a code block plain text in a language.
func plainCode(pre *html.Node) {
	language := languageOf(pre)
	var b strings.Builder
	codeText(&b, pre)
	text := strings.Trim(strings.ReplaceAll(b.String(), "\u00a0", " "), "\n")
	text = strings.TrimRight(text, " \t\n")
	if text == "" {
		drop(pre)
		return
	}
	code := element(atom.Code, words(text))
	if language != "" {
		setAttribute(code, "class", "language-"+language)
	}
	made := element(atom.Pre, code)
	replace(pre, made)
	// A box that has nothing but the code would be taken for an
	// advertisement where it has few words.
	for box := made.Parent; box != nil && box.DataAtom == atom.Div && only(box, made); box = made.Parent {
		replace(box, takeOut(made))
	}
}

func takeOut(n *html.Node) *html.Node {
	drop(n)
	return n
}

// only reports whether a node has one child, besides blank text.
func only(n, child *html.Node) bool {
	for c := range n.ChildNodes() {
		if c != child && (c.Type == html.ElementNode || strings.TrimSpace(c.Data) != "") {
			return false
		}
	}
	return true
}

// codeText is the text of code. Lines that are elements of their own become
// lines.
func codeText(b *strings.Builder, n *html.Node) {
	for c := range n.ChildNodes() {
		switch {
		case c.Type == html.TextNode:
			b.WriteString(c.Data)
		case c.Type != html.ElementNode || silent(c) || slices.ContainsFunc(classes(c), gutter) || attribute(c, "aria-hidden") == "true":
		case c.DataAtom == atom.Br:
			b.WriteByte('\n')
		case c.DataAtom == atom.Div || c.DataAtom == atom.Li || c.DataAtom == atom.P || c.DataAtom == atom.Tr:
			startLine(b)
			codeText(b, c)
			startLine(b)
		default:
			codeText(b, c)
		}
	}
}

func startLine(b *strings.Builder) {
	if s := b.String(); s != "" && !strings.HasSuffix(s, "\n") {
		b.WriteByte('\n')
	}
}

var (
	languageClass = regexp.MustCompile(`^(?:language|lang|highlight-source|highlight-text|highlight|brush|code|prism)[-:]([a-z0-9+#._-]+)$`)
	language      = regexp.MustCompile(`^[a-z0-9+#._-]{1,20}$`)
)

// languageOf is the language that the classes of a code block, or of what is
// around it, name as one of the usual generators of pages does.
func languageOf(pre *html.Node) string {
	nodes := []*html.Node{pre}
	if code := first(pre, atom.Code); code != nil {
		nodes = []*html.Node{code, pre}
	}
	for p, n := pre.Parent, 0; p != nil && n < 6 && p.DataAtom != atom.Body && p.DataAtom != atom.Article && p.DataAtom != atom.Main; p, n = p.Parent, n+1 {
		if p.DataAtom == atom.Div || p.DataAtom == atom.Figure || p.DataAtom == atom.Td || p.DataAtom == atom.Table {
			nodes = append(nodes, p)
		}
	}
	for _, n := range nodes {
		if found := languageAt(n); found != "" {
			return found
		}
	}
	return ""
}

func languageAt(n *html.Node) string {
	for _, key := range []string{"data-lang", "data-language"} {
		if value := strings.ToLower(attribute(n, key)); language.MatchString(value) {
			return plainLanguage(value)
		}
	}
	// "brush: js" is written as two words.
	list := strings.Fields(strings.ReplaceAll(strings.ToLower(attribute(n, "class")), "brush: ", "brush:"))
	for _, c := range list {
		if m := languageClass.FindStringSubmatch(strings.TrimSuffix(c, ";")); m != nil {
			return plainLanguage(m[1])
		}
	}
	// Pandoc and highlight.js write the language as a class of its own.
	for i, c := range list {
		if (c == "sourcecode" || c == "hljs") && len(list) == 2 {
			return plainLanguage(list[1-i])
		}
	}
	return ""
}

func plainLanguage(name string) string {
	switch name {
	case "default", "none", "plaintext", "plain", "text", "nohighlight", "notranslate", "block", "wrapper", "container", "hljs", "sourcecode":
		return ""
	}
	return name
}
