package answer

import (
	"context"
	"net/http"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
	"github.com/portico-run/portico/modules/knowledge"
	"github.com/portico-run/portico/modules/tool/function"
)

// Register adds the module's routes.
func (m *Module) Register(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "search-knowledge", Method: http.MethodPost, Path: "/v1/knowledge/search", Tag: "knowledge",
		Summary: "Search your documents and those that the operator shares", Errors: []errs.Code{errs.NotFound},
	}, m.Service.search)
	httpapi.Register(api, httpapi.Operation{
		ID: "ask-knowledge", Method: http.MethodPost, Path: "/v1/knowledge/ask", Tag: "knowledge",
		Summary:     "Let a model answer a question from documents",
		Description: "It costs what answers of the model cost. Where no passage fits, no model is asked.",
		Errors:      []errs.Code{errs.NotFound, errs.Unavailable, errs.NoCredits},
	}, m.Service.ask)
}

type knowledgeSource struct {
	N      int    `json:"n" doc:"The number by which the answer names it"`
	Source string `json:"source"`
	Title  string `json:"title"`
	Text   string `json:"text"`
}

type knowledgeAnswer struct {
	Answer  string            `json:"answer" doc:"Names its sources as [1]; says so where nothing answers the question"`
	Sources []knowledgeSource `json:"sources" nullable:"false" doc:"Empty where nothing answers the question"`
	Note    string            `json:"note,omitempty" doc:"Why the search was less than it could be"`
}

func toAnswer(a Answer) knowledgeAnswer {
	body := knowledgeAnswer{Answer: a.Text, Sources: make([]knowledgeSource, len(a.Sources)), Note: a.Note}
	for i, s := range a.Sources {
		body.Sources[i] = knowledgeSource{s.N, s.Source, s.Title, s.Text}
	}
	return body
}

type knowledgeAskInput struct {
	Body struct {
		Question   string `json:"question" minLength:"1" maxLength:"4096"`
		Collection string `json:"collection,omitempty" maxLength:"64" doc:"Only collections of this name; all when left out"`
	}
}

func (s *Service) ask(ctx context.Context, who actor.Actor, in *knowledgeAskInput) (knowledgeAnswer, error) {
	answer, err := s.Ask(ctx, function.Caller{Actor: who}, Question{in.Body.Question, in.Body.Collection})
	return toAnswer(answer), err
}

type knowledgeSearchInput struct {
	Body struct {
		Query      string `json:"query" minLength:"1" maxLength:"4096" doc:"Words or a question. Quotes keep words together, -word leaves out"`
		TopK       int    `json:"topK,omitempty" minimum:"1" maximum:"100" doc:"How many passages at most; 10 when left out"`
		Collection string `json:"collection,omitempty" maxLength:"64" doc:"Only collections of this name; all when left out"`
		Framework  string `json:"framework,omitempty" maxLength:"500" doc:"Only documents about it"`
	}
}

type knowledgeFound struct {
	Passages []knowledgePassage `json:"passages" nullable:"false" doc:"The best first"`
	Note     string             `json:"note,omitempty" doc:"Why the search was less than it could be"`
}

func (s *Service) search(ctx context.Context, who actor.Actor, in *knowledgeSearchInput) (knowledgeFound, error) {
	b := in.Body
	found, err := s.deps.Knowledge.Search(ctx, who, knowledge.Query{Text: b.Query, Collection: b.Collection, Framework: b.Framework, TopK: b.TopK})
	note := found.Note
	found.Note = "" // once is enough here
	return knowledgeFound{toPassages(found), note}, err
}
