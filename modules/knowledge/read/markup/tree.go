package markup

import (
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

func attribute(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key && a.Namespace == "" {
			return a.Val
		}
	}
	return ""
}

func hasAttribute(n *html.Node, key string) bool {
	return slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == key })
}

func setAttribute(n *html.Node, key, value string) {
	dropAttribute(n, key)
	n.Attr = append(n.Attr, html.Attribute{Key: key, Val: value})
}

func dropAttribute(n *html.Node, keys ...string) {
	n.Attr = slices.DeleteFunc(n.Attr, func(a html.Attribute) bool { return slices.Contains(keys, a.Key) })
}

func classes(n *html.Node) []string { return strings.Fields(strings.ToLower(attribute(n, "class"))) }

func element(name atom.Atom, children ...*html.Node) *html.Node {
	n := &html.Node{Type: html.ElementNode, DataAtom: name, Data: name.String()}
	for _, c := range children {
		n.AppendChild(c)
	}
	return n
}

func words(s string) *html.Node { return &html.Node{Type: html.TextNode, Data: s} }

// each calls f with the elements below a node, which f may change and remove.
func each(root *html.Node, f func(n *html.Node)) {
	var all []*html.Node
	for n := range root.Descendants() {
		if n.Type == html.ElementNode {
			all = append(all, n)
		}
	}
	for _, n := range all {
		f(n)
	}
}

func remove(nodes []*html.Node) {
	for _, n := range nodes {
		drop(n)
	}
}

func drop(n *html.Node) {
	if n.Parent != nil {
		n.Parent.RemoveChild(n)
	}
}

// replace puts another node in the place of one.
func replace(n, by *html.Node) {
	if n.Parent != nil {
		n.Parent.InsertBefore(by, n)
		n.Parent.RemoveChild(n)
	}
}

// unwrap leaves what is in a node in its place.
func unwrap(n *html.Node) {
	if n.Parent == nil {
		return
	}
	for c := n.FirstChild; c != nil; c = n.FirstChild {
		n.RemoveChild(c)
		n.Parent.InsertBefore(c, n)
	}
	n.Parent.RemoveChild(n)
}

func clone(n *html.Node) *html.Node {
	c := &html.Node{Type: n.Type, DataAtom: n.DataAtom, Data: n.Data, Namespace: n.Namespace, Attr: slices.Clone(n.Attr)}
	for child := range n.ChildNodes() {
		c.AppendChild(clone(child))
	}
	return c
}

func within(n, outer *html.Node) bool {
	for p := n; p != nil; p = p.Parent {
		if p == outer {
			return true
		}
	}
	return false
}

func has(root *html.Node, name atom.Atom) bool { return first(root, name) != nil }

func first(root *html.Node, name atom.Atom) *html.Node {
	if root == nil {
		return nil
	}
	for n := range root.Descendants() {
		if n.DataAtom == name {
			return n
		}
	}
	return nil
}

func bodyOf(doc *html.Node) *html.Node { return first(doc, atom.Body) }

// silent are elements whose content nobody reads.
func silent(n *html.Node) bool {
	switch n.DataAtom {
	case atom.Script, atom.Style, atom.Noscript, atom.Template, atom.Head, atom.Iframe, atom.Svg:
		return true
	}
	return false
}

// textOf is the text that is seen.
func textOf(n *html.Node) string {
	var b strings.Builder
	var walk func(*html.Node)
	walk = func(n *html.Node) {
		switch {
		case n.Type == html.TextNode:
			b.WriteString(n.Data)
		case !silent(n):
			for c := range n.ChildNodes() {
				walk(c)
			}
		}
	}
	walk(n)
	return b.String()
}

// lengthOf is how many characters are seen that are no links, which are what
// navigation consists of.
func lengthOf(n *html.Node) int {
	if n == nil {
		return 0
	}
	sum := 0
	var walk func(*html.Node)
	walk = func(n *html.Node) {
		switch {
		case n.Type == html.TextNode:
			sum += len(strings.Join(strings.Fields(n.Data), " "))
		case n.DataAtom != atom.A && !silent(n):
			for c := range n.ChildNodes() {
				walk(c)
			}
		}
	}
	walk(n)
	return sum
}
