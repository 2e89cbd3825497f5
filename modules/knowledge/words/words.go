// Package words reads questions for full-text searches: which words they have, and
// which of them say anything.
package words

import (
	"strings"
	"unicode"
)

// Words is a question as a full-text search takes it.
type Words struct {
	// Literal says that it is taken as it is written: everything must be there.
	Literal bool
	terms   []term
}

// term is a word, or several that stand together.
type term struct {
	words []string
	not   bool // must not be there
}

// Parse reads a question. "…" are words that stand together, and a minus before a
// word or a quote says that it must not be there: both make it literal. All else
// that is no letter or digit separates words.
func Parse(text string) Words {
	var w Words
	runes := []rune(text)
	for i := 0; i < len(runes); {
		before := i == 0 || unicode.IsSpace(runes[i-1])
		not := runes[i] == '-' && before
		if not {
			i++
		}
		if i < len(runes) && runes[i] == '"' {
			end := i + 1
			for end < len(runes) && runes[end] != '"' {
				end++
			}
			if closed := end < len(runes); closed {
				w.add(term{Split(string(runes[i+1 : end])), not}, true)
				i = end + 1
				continue
			}
		}
		end := i
		for end < len(runes) && !unicode.IsSpace(runes[end]) && (end == i || runes[end] != '"') {
			end++
		}
		if found := Split(string(runes[i:end])); not {
			w.add(term{found, true}, true)
		} else {
			for _, word := range found {
				w.add(term{[]string{word}, false}, false)
			}
		}
		i = max(end, i+1)
	}
	return w
}

// maxTerms bounds what one search asks of the database.
const maxTerms = 64

func (w *Words) add(t term, literal bool) {
	if len(t.words) > 0 && len(w.terms) < maxTerms {
		w.terms = append(w.terms, t)
		w.Literal = w.Literal || literal
	}
}

// Split is the words of a text, in small letters.
func Split(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) })
}

// None reports whether there is nothing to search for.
func (w Words) None() bool {
	for _, t := range w.terms {
		if !t.not {
			return false
		}
	}
	return true
}

// Content are the words that say something; all, where none does.
func (w Words) Content() []string {
	var all, telling []string
	seen := map[string]bool{}
	for _, t := range w.terms {
		for _, word := range t.words {
			if t.not || seen[word] {
				continue
			}
			seen[word] = true
			all = append(all, word)
			if !isStop(word) {
				telling = append(telling, word)
			}
		}
	}
	if len(telling) == 0 {
		return all
	}
	return telling
}

// Plain is the words for PostgreSQL, which leaves out those that say nothing.
func (w Words) Plain() string { return strings.Join(w.Content(), " ") }

// Web is a literal question in the form of websearch_to_tsquery.
func (w Words) Web() string {
	var b strings.Builder
	for _, t := range w.terms {
		if t.not {
			b.WriteByte('-')
		}
		b.WriteString(`"` + strings.Join(t.words, " ") + `" `)
	}
	return b.String()
}

// FTS5 is a question in the form of SQLite's MATCH. Words in quotes are no
// operators of it.
func (w Words) FTS5() string {
	if !w.Literal {
		return `"` + strings.Join(w.Content(), `" OR "`) + `"`
	}
	var must, not []string
	for _, t := range w.terms {
		quoted := `"` + strings.Join(t.words, " ") + `"`
		if t.not {
			not = append(not, quoted)
		} else {
			must = append(must, quoted)
		}
	}
	text := "(" + strings.Join(must, " AND ") + ")"
	if len(not) > 0 {
		text += " NOT (" + strings.Join(not, " OR ") + ")"
	}
	return text
}

// stopWords are English words that are nearly everywhere and say nothing.
const stopWords = ` a about after all also am an and any are as at be because been before being between both but by can could did do does
 doing down during each few for from further had has have having he her here hers him his how i if in into is it its itself just
 me more most my no nor not now of off on once only or other our out over own same she should so some such than that the their
 them then there these they this those through to too under until up very was we were what when where which while who whom why
 will with would you your `

func isStop(word string) bool {
	return len(word) == 1 && word[0] >= 'a' || strings.Contains(stopWords, " "+word+" ") || strings.Contains(stopWords, " "+word+"\n")
}

// Share is how many of some words a text has, in any of their forms.
func Share(asked []string, text string) float64 {
	if len(asked) == 0 {
		return 0
	}
	there := map[string]bool{}
	for _, word := range Split(text) {
		there[root(word)] = true
	}
	n := 0
	for _, word := range asked {
		if there[root(word)] {
			n++
		}
	}
	return float64(n) / float64(len(asked))
}

// root is a word without the endings that its forms differ by. It need not be a
// word, as long as the forms of one word agree.
func root(word string) string {
	const shortest = 3
	for _, ending := range []string{"ing", "ies", "ied", "es", "ed", "s", "e", "y"} {
		if cut, ok := strings.CutSuffix(word, ending); ok && len(cut) >= shortest {
			return cut
		}
	}
	return word
}
