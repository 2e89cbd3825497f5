package catalogue

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/kljensen/snowball/english"
)

//go:embed synonyms.txt
var synonyms string

// stopped are words that say nothing about a tool. They count in phrases alone.
const stopped = `a an the of to in on at by for from with into onto and or as is are was were be been being it its this
that these those my me our your their his her we you they them whom what when where how why can could should
would will may might must do does did doing done have has had i want need needs like wish please any some there here
then than so if not no about out up off over down via using use used just only also too very one ones thing things
something under each between after before while within without across inside already now ve ll re don let us`

// lexicon is what is known of English.
type lexicon struct {
	stopped map[string]bool
	groups  map[string][]string // the names of a term's groups
	phrases map[string][]phrase // by their first stem
	// known are the stems of words while an index is made; nil afterwards.
	known map[string]string
}

// phrase is several words that are a term together.
type phrase struct {
	term  string
	stems []string
}

// newLexicon reads synonyms.txt. No word has the form of a group's name.
func newLexicon() lexicon {
	l := lexicon{map[string]bool{}, map[string][]string{}, map[string][]phrase{}, map[string]string{}}
	for w := range strings.FieldsSeq(stopped) {
		l.stopped[w] = true
	}
	for i, line := range strings.Split(synonyms, "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		seen := map[string]bool{}
		for entry := range strings.FieldsSeq(line) {
			term := l.term(entry)
			if !seen[term] {
				seen[term] = true
				l.groups[term] = append(l.groups[term], fmt.Sprint("~", i))
			}
		}
	}
	return l
}

// term is a word's stem, or a phrase, it remembers.
func (l lexicon) term(entry string) string {
	var stems []string
	for _, word := range words.FindAllString(entry, -1) {
		stems = append(stems, l.stem(strings.ToLower(word)))
	}
	term := strings.Join(stems, " ")
	if len(stems) > 1 && l.groups[term] == nil {
		l.phrases[stems[0]] = append(l.phrases[stems[0]], phrase{term, stems})
	}
	return term
}

// words are parts of names and of texts: ListUsers and list_users have two.
var words = regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+|[0-9]+`)

// stems are all words of a text without their endings.
func (l lexicon) stems(text string) []string {
	list := words.FindAllString(text, -1)
	for i, word := range list {
		list[i] = l.stem(strings.ToLower(word))
	}
	return list
}

// stem is a word without its ending. Stopped words stay as they are.
func (l lexicon) stem(word string) string {
	stem, known := l.known[word]
	if known {
		return stem
	}
	stem = word
	if len(word) > 1 && !l.stopped[word] {
		stem = english.Stem(word, false)
	}
	if l.known != nil {
		l.known[word] = stem
	}
	return stem
}

// terms are the phrases and the words of a text that say something. Phrases
// replace their words, or stand beside them.
func (l lexicon) terms(text string, replaces bool) []string {
	var list []string
	stems := l.stems(text)
	for i := 0; i < len(stems); i++ {
		if found := l.phraseAt(stems[i:]); found.term != "" {
			list = append(list, found.term)
			if replaces {
				i += len(found.stems) - 1
				continue
			}
		}
		if s := stems[i]; len(s) > 1 && !l.stopped[s] {
			list = append(list, s)
		}
	}
	return list
}

// phraseAt is the longest phrase that stems begin with.
func (l lexicon) phraseAt(stems []string) phrase {
	var longest phrase
	for _, p := range l.phrases[stems[0]] {
		if len(p.stems) > len(longest.stems) && len(p.stems) <= len(stems) && slices.Equal(p.stems, stems[:len(p.stems)]) {
			longest = p
		}
	}
	return longest
}

// properNames are the words of a title that are not general: no synonyms are
// known of them.
func (l lexicon) properNames(title string) []string {
	return slices.DeleteFunc(l.terms(title, false), func(term string) bool { return l.groups[term] != nil })
}
