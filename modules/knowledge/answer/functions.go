package answer

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/portico-run/portico/modules/knowledge"
	"github.com/portico-run/portico/modules/tool/function"
)

// knowledgePassage is a passage as programs and clients get it.
type knowledgePassage struct {
	Text       string  `json:"text"`
	Source     string  `json:"source" doc:"Where it comes from: an address or the name of a file"`
	Title      string  `json:"title" doc:"Of the document"`
	Section    string  `json:"section" doc:"The headings that it stands below"`
	Score      float64 `json:"score" doc:"Orders the passages of one search, at most 1; it compares with no other search's"`
	Collection string  `json:"collection"`
	Shared     bool    `json:"shared" doc:"The collection is the operator's"`
	Framework  string  `json:"framework,omitempty" doc:"What a page of programming documentation is about"`
	Symbol     string  `json:"symbol,omitempty" doc:"The symbol that it describes"`
	Note       string  `json:"note,omitempty" doc:"Why the search was less than it could be"`
}

func toPassages(f knowledge.Found) []knowledgePassage {
	list := make([]knowledgePassage, len(f.Hits))
	for i, h := range f.Hits {
		list[i] = knowledgePassage{
			Text: h.Text, Source: h.Source, Title: h.Title, Section: h.Section, Score: h.Score, Collection: h.Collection, Shared: h.Shared,
			Framework: h.Framework, Symbol: h.Symbol, Note: f.Note,
		}
	}
	return list
}

const (
	passagesSchema = `{"type":"array","items":{"type":"object","properties":{"text":{"type":"string"},"source":{"type":"string"},"title":{"type":"string"},` +
		`"section":{"type":"string"},"score":{"type":"number"},"collection":{"type":"string"},"shared":{"type":"boolean"},"framework":{"type":"string"},` +
		`"symbol":{"type":"string"},"note":{"type":"string"}},"required":["text","source","title","section","score","collection","shared"]}}`
	answerSchema = `{"type":"object","properties":{"answer":{"type":"string"},"sources":{"type":"array","items":{"type":"object","properties":` +
		`{"n":{"type":"integer"},"source":{"type":"string"},"title":{"type":"string"},"text":{"type":"string"}},"required":["n","source","title","text"]}},` +
		`"note":{"type":"string"}},"required":["answer","sources"]}`
	topKSchema       = `{"type":"integer","minimum":1,"maximum":100,"default":10,"description":"How many passages at most"}`
	collectionSchema = `{"type":"string","default":"","description":"Only collections of this name; all when left out"}`
	querySchema      = `{"type":"string","minLength":1,"maxLength":4096,"description":"What you look for, in words or as a question. Quotes keep words together, and -word leaves out"}`
)

// Functions are the tools of the store for programs. Nothing that adds or removes
// is among them.
func (s *Service) Functions() []function.Function {
	return []function.Function{{
		Name: "search_knowledge",
		Description: "Search the documents of the knowledge store. Returns the best passages first, with their sources; an empty list where nothing was found. " +
			"A passage with a note says why the search was less than it could be.",
		Input: json.RawMessage(`{"type":"object","required":["query"],"properties":{"query":` + querySchema + `,"top_k":` + topKSchema + `,"collection":` +
			collectionSchema + `},"additionalProperties":false}`),
		Output: json.RawMessage(passagesSchema), ReadOnly: true, Idempotent: true, SandboxCallable: true, Run: s.runSearch,
	}, {
		Name:        "ask_knowledge",
		Description: "Ask a question about the documents of the knowledge store. A model answers from the best passages and names them as [1]; sources has them. Says so where nothing answers it.",
		Input: json.RawMessage(`{"type":"object","required":["question"],"properties":{"question":{"type":"string","minLength":1,"maxLength":4096},"collection":` +
			collectionSchema + `},"additionalProperties":false}`),
		Output: json.RawMessage(answerSchema), ReadOnly: true, SandboxCallable: true, Run: s.runAsk,
	}, {
		Name:        "apple_search",
		Description: "Search Apple's developer documentation, as far as it was added to the collection apple. Returns the best passages first, with symbol and framework.",
		Input: json.RawMessage(`{"type":"object","required":["query"],"properties":{"query":` + querySchema + `,"framework":{"type":"string","default":"","maxLength":100,` +
			`"description":"Only this framework, such as SwiftUI; any when left out"},"top_k":` + topKSchema + `},"additionalProperties":false}`),
		Output: json.RawMessage(passagesSchema), ReadOnly: true, Idempotent: true, SandboxCallable: true, Run: s.runApple,
	}}
}

func (s *Service) runSearch(ctx context.Context, c function.Caller, arguments json.RawMessage) (json.RawMessage, error) {
	var in struct {
		Query, Collection string
		TopK              int `json:"top_k"`
	}
	if err := json.Unmarshal(arguments, &in); err != nil {
		return nil, err
	}
	found, err := s.deps.Knowledge.Search(ctx, c.Actor, knowledge.Query{Text: in.Query, Collection: in.Collection, TopK: in.TopK})
	if err != nil {
		return nil, err
	}
	return json.Marshal(toPassages(found))
}

func (s *Service) runApple(ctx context.Context, c function.Caller, arguments json.RawMessage) (json.RawMessage, error) {
	var in struct {
		Query, Framework string
		TopK             int `json:"top_k"`
	}
	if err := json.Unmarshal(arguments, &in); err != nil {
		return nil, err
	}
	found, err := s.deps.Knowledge.Search(ctx, c.Actor, knowledge.Query{Text: in.Query, Collection: knowledge.Apple, Framework: in.Framework, TopK: in.TopK})
	if errors.Is(err, knowledge.ErrCollectionMissing) {
		err = knowledge.ErrCollectionMissing.Do("No documentation of Apple's was added; the operator does it with: portico knowledge add --docc")
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(toPassages(found))
}

func (s *Service) runAsk(ctx context.Context, c function.Caller, arguments json.RawMessage) (json.RawMessage, error) {
	var in struct{ Question, Collection string }
	if err := json.Unmarshal(arguments, &in); err != nil {
		return nil, err
	}
	answer, err := s.Ask(ctx, c, Question{Text: in.Question, Collection: in.Collection})
	if err != nil {
		return nil, err
	}
	return json.Marshal(toAnswer(answer))
}
