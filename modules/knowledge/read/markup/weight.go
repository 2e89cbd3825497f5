package markup

import (
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// maxWeight bounds the nodes that reading a page makes.
const maxWeight = 1_000_000

// TooHeavy reports whether a page becomes more nodes than are read. A formatting element
// that is not closed is made again in every block that follows, so that a
// short page can become a very large tree.
func TooHeavy(text string) bool {
	z := html.NewTokenizer(strings.NewReader(text))
	open := map[atom.Atom][]string{}
	weight, formats := 0, 0
	for weight <= maxWeight {
		kind := z.Next()
		if kind == html.ErrorToken {
			break
		}
		weight++
		if kind != html.StartTagToken && kind != html.EndTagToken {
			continue
		}
		raw := string(z.Raw())
		tag, _ := z.TagName()
		name := atom.Lookup(tag)
		switch {
		case !formatting(name):
			weight += formats
		case kind == html.StartTagToken && name != atom.A:
			// The same element is made again three times at most.
			same := func(other string) bool { return other == raw }
			if n := len(open[name]); n < 3 || !all(open[name][n-3:], same) {
				open[name] = append(open[name], raw)
				formats++
			}
		case kind == html.EndTagToken && len(open[name]) > 0:
			open[name] = open[name][:len(open[name])-1]
			formats--
		}
	}
	return weight > maxWeight
}

func all(list []string, is func(string) bool) bool {
	return !slices.ContainsFunc(list, func(s string) bool { return !is(s) })
}

// formatting are the elements that the standard of HTML makes again.
func formatting(name atom.Atom) bool {
	switch name {
	case atom.A, atom.B, atom.Big, atom.Code, atom.Em, atom.Font, atom.I, atom.Nobr, atom.S, atom.Small, atom.Strike, atom.Strong, atom.Tt, atom.U:
		return true
	}
	return false
}
