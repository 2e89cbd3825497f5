package program

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi"
)

// What a program asks about its tools. Answers are {"text": …}.
const (
	searchPath = "/v1/program/search" // {"query": …}
	helpPath   = "/v1/program/help"   // {"name": …}
)

// maxQuestion is the longest question, in bytes.
const maxQuestion = 64 << 10

func (g gateway) answer(r *http.Request, query, name string) (string, error) {
	if r.URL.Path == searchPath {
		return g.catalogue.Search(query), nil
	}
	return g.catalogue.Help(r.Context(), name)
}

// lookUp answers search_tools and help inside a program.
func (g gateway) lookUp(w http.ResponseWriter, r *http.Request) {
	var in struct{ Query, Name string }
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxQuestion)).Decode(&in); err != nil {
		httpapi.Fail(w, errs.New(errs.Invalid, "The question is no JSON object with query or name, or too long.").Do("Ask in a few words."))
		return
	}
	text, err := g.answer(r, in.Query, in.Name)
	if refusal, ok := errors.AsType[*errs.Error](err); ok {
		httpapi.Fail(w, refusal)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]string{"text": text}) // the program may be gone
}
