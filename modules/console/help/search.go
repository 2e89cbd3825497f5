package help

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
)

// Found is one place where the words of a question are.
type Found struct {
	Page    string // its name
	Section string // the id of the heading, which may be empty
	Title   string // of the page, and of the section
	Parts   []Part // of the text around the first word
}

// Part is a piece of a text; Hit says whether it is one of the words.
type Part struct {
	Text string
	Hit  bool
}

// Bounds of a search.
const (
	maxWords = 8
	maxFound = 30
	around   = 100 // characters before the first word, and twice as many after it
)

// Search finds the sections that have all words of a question, or begin with
// them, the best first: words in titles count more than words in the text.
func (l *Library) Search(question string) []Found {
	asked := split(question)
	if len(asked) == 0 {
		return nil
	}
	asked = asked[:min(len(asked), maxWords)]
	type scored struct {
		Found

		score int
	}
	var list []scored
	for _, name := range l.names {
		p := l.pages[name]
		for _, s := range p.Sections {
			if score := s.score(asked, p.Title); score > 0 {
				list = append(list, scored{Found{Page: name, Section: s.ID, Title: title(p, s), Parts: s.parts(asked)}, score})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b scored) int { return cmp.Compare(b.score, a.score) })
	found := make([]Found, 0, maxFound)
	for _, f := range list[:min(len(list), maxFound)] {
		found = append(found, f.Found)
	}
	return found
}

func title(p Page, s Section) string {
	if s.Title == p.Title || s.Title == "" {
		return p.Title
	}
	return p.Title + ": " + s.Title
}

// score is 0 if a word is missing.
func (s Section) score(asked []string, page string) int {
	const inTitle, inPage, most = 20, 5, 10
	inText, titles, pages := split(s.Text), split(s.Title), split(page)
	score := 0
	for _, word := range asked {
		n := min(count(inText, word), most) + inTitle*min(count(titles, word), 1)
		if n == 0 {
			return 0
		}
		score += n + inPage*min(count(pages, word), 1)
	}
	return score
}

func count(words []string, prefix string) int {
	n := 0
	for _, w := range words {
		if strings.HasPrefix(w, prefix) {
			n++
		}
	}
	return n
}

// split makes the words of a text, in small letters.
func split(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// parts is the text around the first word that was asked for.
func (s Section) parts(asked []string) []Part {
	text := []rune(s.Text)
	first := len(text)
	var hits [][2]int
	for start := 0; start < len(text); {
		if !letter(text[start]) {
			start++
			continue
		}
		end := start
		for end < len(text) && letter(text[end]) {
			end++
		}
		word := strings.ToLower(string(text[start:end]))
		if slices.ContainsFunc(asked, func(a string) bool { return strings.HasPrefix(word, a) }) {
			hits, first = append(hits, [2]int{start, end}), min(first, start)
		}
		start = end
	}
	from := 0
	if first < len(text) {
		from = max(first-around, 0)
	}
	until := min(from+3*around, len(text))
	return cut(text, hits, from, until)
}

func letter(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// cut divides a piece of a text into hits and what is between.
func cut(text []rune, hits [][2]int, from, until int) []Part {
	var parts []Part
	add := func(a, b int, hit bool) {
		if a < b {
			parts = append(parts, Part{Text: string(text[a:b]), Hit: hit})
		}
	}
	at := from
	if from > 0 {
		parts = append(parts, Part{Text: "…"})
	}
	for _, h := range hits {
		if h[0] < from || h[1] > until {
			continue
		}
		add(at, h[0], false)
		add(h[0], h[1], true)
		at = h[1]
	}
	add(at, until, false)
	if until < len(text) {
		parts = append(parts, Part{Text: "…"})
	}
	return parts
}
