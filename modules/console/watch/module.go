// Package watch holds the console's pages about runs: the list, one run while it
// happens and afterwards, one call, and the playground.
package watch

import (
	"embed"
	"net/http"
	"net/url"
	"time"

	"github.com/portico-run/portico/modules/console/pages"
)

// Templates are the templates of the pages.
//
//go:embed templates/*.html
var Templates embed.FS

// Pages are the pages about runs.
type Pages struct {
	base  string
	now   func() time.Time
	color *highlighter
}

// New makes what the pages need. base is the path before all of them.
func New(base string, now func() time.Time) (*Pages, error) {
	h, err := newHighlighter()
	return &Pages{base: base, now: now, color: h}, err
}

// Routes are the pages by their patterns, below the console's path.
func (p *Pages) Routes() map[string]func(*pages.Visit) (pages.Answer, error) {
	const get, post = http.MethodGet + " ", http.MethodPost + " "
	return map[string]func(*pages.Visit) (pages.Answer, error){
		get + "/runs": p.runs, get + "/runs/{id}": p.run, get + "/runs/{id}/programs": p.programs, post + "/runs/{id}/abort": p.abort,
		post + "/runs/{id}/replay": p.replay, get + "/calls/{id}": p.call, get + "/calls/{id}/card": p.card,
		get + "/playground": p.playground, post + "/playground": p.execute, post + "/playground/ask": p.ask,
	}
}

// list is a list of the API.
type list[T any] struct {
	Items      []T
	NextCursor string
}

func read(v *pages.Visit, path string, query url.Values, into any) error {
	return v.API.Call(v.R.Context(), pages.Request{Method: http.MethodGet, Path: path, Query: query}, into)
}

func send(v *pages.Visit, path string, body, into any) error {
	return v.API.Call(v.R.Context(), pages.Request{Method: http.MethodPost, Path: path, Body: body}, into)
}

// pick takes the members of a query that are set.
func pick(q url.Values, names ...string) url.Values {
	picked := url.Values{}
	for _, name := range names {
		if q.Get(name) != "" {
			picked.Set(name, q.Get(name))
		}
	}
	return picked
}
