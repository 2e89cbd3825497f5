package catalogue

import (
	"cmp"
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/kljensen/snowball/english"

	"github.com/portico-run/portico/modules/compact"
	"github.com/portico-run/portico/modules/toolset"
)

// The usual parameters of BM25.
const (
	saturation = 1.2
	lengthPart = 0.5
)

// What a word counts by where it stands.
const (
	inName        = 2.0
	inKey         = 1.0
	inSentence    = 1.5
	inDescription = 0.3
	inParameter   = 0.5
	// asSynonym is what a word counts as one of its group.
	asSynonym = 0.5
	// coverage is how much it counts that a document has many of the words.
	coverage = 0.5
)

// index ranks documents by BM25 over stems, and over groups of words that mean
// nearly the same.
type index struct {
	lexicon  lexicon
	postings map[string]map[int]float64 // weighted count by term and document
	lengths  []float64
	average  float64
}

func newIndex(sets []toolset.Definition, tools []Tool) *index {
	titles := map[string]string{}
	for _, set := range sets {
		titles[set.Key] = set.Key + " " + set.Name
	}
	x := &index{lexicon: newLexicon(), postings: map[string]map[int]float64{}, lengths: make([]float64, len(tools))}
	total := 0.0
	for i, t := range tools {
		first := compact.Sentence(t.Description)
		x.add(i, t.Name, inName)
		x.add(i, titles[t.Toolset], inKey)
		x.add(i, first, inSentence)
		x.add(i, t.Description, inDescription)
		x.add(i, strings.Join(parameterNames(t.InputSchema), " "), inParameter)
		total += x.lengths[i]
	}
	x.lexicon.known = nil // searches may come at once
	x.average = total / float64(max(len(tools), 1))
	return x
}

func (x *index) add(document int, text string, weight float64) {
	for _, word := range x.lexicon.stems(text) {
		x.lengths[document] += weight
		for _, term := range append([]string{word}, x.lexicon.groups[word]...) {
			if x.postings[term] == nil {
				x.postings[term] = map[int]float64{}
			}
			x.postings[term][document] += weight
		}
	}
}

// search returns documents that have a word of the question, best first. A word
// counts once in a document: as it is, or as one that means nearly the same.
func (x *index) search(question string) []int {
	scores, matched := map[int]float64{}, map[int]float64{}
	asked := x.lexicon.stems(question)
	for _, word := range asked {
		best := x.scores(word)
		for _, group := range x.lexicon.groups[word] {
			for document, score := range x.scores(group) {
				best[document] = max(best[document], asSynonym*score)
			}
		}
		for document, score := range best {
			scores[document] += score
			matched[document]++
		}
	}
	found := make([]int, 0, len(scores))
	for document := range scores {
		scores[document] *= math.Pow(matched[document]/float64(len(asked)), coverage)
		found = append(found, document)
	}
	slices.SortFunc(found, func(a, b int) int { return cmp.Or(cmp.Compare(scores[b], scores[a]), cmp.Compare(a, b)) })
	return found
}

// scores are what a term alone is worth in each document.
func (x *index) scores(term string) map[int]float64 {
	with, n := x.postings[term], float64(len(x.lengths))
	rarity := math.Log(1 + (n-float64(len(with))+0.5)/(float64(len(with))+0.5))
	scores := make(map[int]float64, len(with))
	for document, count := range with {
		norm := saturation * (1 - lengthPart + lengthPart*x.lengths[document]/x.average)
		scores[document] = rarity * count * (saturation + 1) / (count + norm)
	}
	return scores
}

// words are parts of names and of texts: ListUsers and list_users have two.
var words = regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+|[0-9]+`)

// stems are the words of a text without their endings.
func (l lexicon) stems(text string) []string {
	var list []string
	for _, word := range words.FindAllString(text, -1) {
		word = strings.ToLower(word)
		stem, known := l.known[word]
		if !known {
			if len(word) > 1 && !l.stopped[word] {
				stem = english.Stem(word, false)
			}
			if l.known != nil {
				l.known[word] = stem
			}
		}
		if stem != "" {
			list = append(list, stem)
		}
	}
	return list
}

func parameterNames(schema json.RawMessage) []string {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(schema, &s) != nil {
		return nil
	}
	names := make([]string, 0, len(s.Properties))
	for name := range s.Properties {
		names = append(names, name)
	}
	return names
}
