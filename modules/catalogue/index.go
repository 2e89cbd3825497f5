package catalogue

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/portico-run/portico/modules/catalogue/signature"
	"github.com/portico-run/portico/modules/toolset"
)

// The parameters of BM25: how soon more of a word counts no more, and how much
// longer documents are held back.
const (
	saturation = 1.2
	lengthPart = 0.3
)

// What a word counts by where it stands.
const (
	inName        = 3.0
	inKey         = 1.0
	inSentence    = 1.5
	inDescription = 0.3
	inParameter   = 0.5
	// asSynonym is what a word counts as one of its group.
	asSynonym = 0.6
	// coverage is how much it counts that a document has many of the words.
	coverage = 0.5
	// ofNamed is by how much more the tools of a toolset count that is named.
	ofNamed = 1.6
)

// index ranks documents by BM25 over stems, and over groups of words that mean
// nearly the same.
type index struct {
	lexicon  lexicon
	postings map[string][]posting // by term, in the order of documents
	lengths  []float64
	average  float64
	toolsets []string            // of the documents
	names    map[string][]string // the stems that name a toolset
}

// posting is how much of a term a document has.
type posting struct {
	document int
	count    float64
}

func newIndex(sets []toolset.Definition, tools []Tool) *index {
	x := &index{
		lexicon: newLexicon(), postings: map[string][]posting{}, lengths: make([]float64, len(tools)), names: map[string][]string{},
	}
	titles := map[string]string{}
	for _, set := range sets {
		titles[set.Key] = set.Key + " " + set.Name
		x.names[set.Key] = x.lexicon.properNames(titles[set.Key])
	}
	total := 0.0
	for i, t := range tools {
		x.toolsets = append(x.toolsets, t.Toolset)
		x.add(i, x.lexicon.terms(t.Name, false), inName)
		x.add(i, distinct(x.lexicon.terms(titles[t.Toolset], false)), inKey)
		x.add(i, x.lexicon.terms(signature.Sentence(t.Description), false), inSentence)
		// A long description repeats itself: each of its words counts once.
		x.add(i, distinct(x.lexicon.terms(t.Description, false)), inDescription)
		x.add(i, distinct(x.lexicon.terms(parameterWords(t.InputSchema), false)), inParameter)
		total += x.lengths[i]
	}
	x.lexicon.known = nil // searches may come at once
	x.average = total / float64(max(len(tools), 1))
	return x
}

func distinct(terms []string) []string {
	slices.Sort(terms)
	return slices.Compact(terms)
}

func (x *index) add(document int, terms []string, weight float64) {
	for _, term := range terms {
		x.lengths[document] += weight
		x.count(term, document, weight)
		for _, group := range x.lexicon.groups[term] {
			x.count(group, document, weight)
		}
	}
}

func (x *index) count(term string, document int, weight float64) {
	list := x.postings[term]
	if last := len(list) - 1; last >= 0 && list[last].document == document {
		list[last].count += weight
		return
	}
	x.postings[term] = append(list, posting{document, weight})
}

// search returns documents that have a word of the question, best first. A word
// counts once in a document: as it is, or as one that means nearly the same.
func (x *index) search(question string) []int {
	scores, matched := map[int]float64{}, map[int]float64{}
	asked := distinct(x.lexicon.terms(question, true))
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
	named := x.named(asked)
	found := make([]int, 0, len(scores))
	for document := range scores {
		scores[document] *= math.Pow(matched[document]/float64(len(asked)), coverage)
		if named[x.toolsets[document]] {
			scores[document] *= ofNamed
		}
		found = append(found, document)
	}
	slices.SortFunc(found, func(a, b int) int { return cmp.Or(cmp.Compare(scores[b], scores[a]), cmp.Compare(a, b)) })
	return found
}

// named are the toolsets that a question names, in whole or by a part.
func (x *index) named(asked []string) map[string]bool {
	named := map[string]bool{}
	for set, names := range x.names {
		named[set] = slices.ContainsFunc(names, func(name string) bool {
			return slices.ContainsFunc(asked, func(word string) bool { return sameName(name, word) })
		})
	}
	return named
}

// shortestName is the shortest part of a name that stands for it, as "mongo"
// for "mongodb".
const shortestName = 5

func sameName(a, b string) bool {
	return a == b || min(len(a), len(b)) >= shortestName && (strings.HasPrefix(a, b) || strings.HasPrefix(b, a))
}

// scores are what a term alone is worth in each document.
func (x *index) scores(term string) map[int]float64 {
	with, n := x.postings[term], float64(len(x.lengths))
	have := 0.0 // documents that only mention a term have it in part
	for _, p := range with {
		have += min(1, p.count/inSentence)
	}
	rarity := math.Log(1 + (n-have+0.5)/(have+0.5))
	scores := make(map[int]float64, len(with))
	for _, p := range with {
		norm := saturation * (1 - lengthPart + lengthPart*x.lengths[p.document]/x.average)
		scores[p.document] = rarity * p.count * (saturation + 1) / (p.count + norm)
	}
	return scores
}

// parameterWords are the names of parameters and the values they are limited to:
// those say what a tool of many methods does.
func parameterWords(schema json.RawMessage) string {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(schema, &s) != nil {
		return ""
	}
	var list []string
	for name, property := range s.Properties {
		var p struct {
			Enum []string `json:"enum"`
		}
		list = append(list, name)
		if json.Unmarshal(property, &p) == nil {
			list = append(list, p.Enum...)
		}
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}
