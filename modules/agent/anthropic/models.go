package anthropic

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
)

// anthropicModel is a model: docs/wire/anthropic.md#models.
type anthropicModel struct {
	Type        string    `json:"type" enum:"model"`
	ID          string    `json:"id" doc:"Its name, for the member model of a request"`
	DisplayName string    `json:"display_name" example:"claude"`
	CreatedAt   time.Time `json:"created_at" doc:"Always 1970-01-01T00:00:00Z: it is not known"`
	Lifecycle   string    `json:"lifecycle" enum:"active"`
	MaxInput    *int64    `json:"max_input_tokens" doc:"null is not known"`
	MaxTokens   *int64    `json:"max_tokens" doc:"null is not known"`
}

type anthropicModels struct {
	Data    []anthropicModel `json:"data"`
	HasMore bool             `json:"has_more"`
	FirstID *string          `json:"first_id" example:"claude"`
	LastID  *string          `json:"last_id" example:"claude"`
}

// pageInput says which part of a list is asked for.
type pageInput struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" doc:"20 where it is left out"`
	After  string `query:"after_id" doc:"What follows this one"`
	Before string `query:"before_id" doc:"What comes before this one"`
}

func known(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}

func (m *Module) describe(name string) anthropicModel {
	one := m.deps.Models.Find(name)
	return anthropicModel{
		Type: "model", ID: name, DisplayName: name, CreatedAt: time.Unix(0, 0).UTC(), Lifecycle: "active",
		MaxInput: known(one.Context), MaxTokens: known(one.Config.MaxOutput),
	}
}

func (m *Module) models(w http.ResponseWriter, r *http.Request, _ actor.Actor) error {
	limit, err := limitOf(r)
	if err != nil {
		return err
	}
	var names []string
	if m.deps.Models != nil {
		names = m.deps.Models.Names()
	}
	body := anthropicModels{Data: []anthropicModel{}}
	query := r.URL.Query()
	if i := slices.Index(names, query.Get("after_id")); i >= 0 {
		names = names[i+1:]
	}
	if i := slices.Index(names, query.Get("before_id")); i >= 0 {
		body.HasMore = i > limit
		names = names[max(0, i-limit):i]
	} else if len(names) > limit {
		body.HasMore, names = true, names[:limit]
	}
	for _, name := range names {
		body.Data = append(body.Data, m.describe(name))
	}
	if n := len(names); n > 0 {
		body.FirstID, body.LastID = &names[0], &names[n-1]
	}
	return write(w, body)
}

// limitOf is how much of a list is asked for.
func limitOf(r *http.Request) (int, error) {
	text := r.URL.Query().Get("limit")
	if text == "" {
		return 20, nil
	}
	limit, err := strconv.Atoi(text)
	if err != nil || limit < 1 || limit > 1000 {
		return 0, errs.New(errs.Invalid, "limit: Input should be a number from 1 to 1000")
	}
	return limit, nil
}

func (m *Module) model(w http.ResponseWriter, r *http.Request, _ actor.Actor) error {
	name := r.PathValue("model")
	if m.deps.Models == nil || name == "" || !m.deps.Models.Has(name) {
		return errs.Newf(errs.NotFound, "model: %s", name)
	}
	return write(w, m.describe(name))
}
