// Package console serves the pages for people: where to begin, and the API.
package console

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/httpapi"
)

//go:embed home.html
var homePage string

//go:embed reference.html
var referencePage string

// operations are the contents of that page, which the console has in its own frame.
//
//go:embed operations.html
var operations string

// Deps is what the module needs.
type Deps struct {
	API     *httpapi.API // whose document is shown, and which the console asks
	Version string
	Path    string // where the console is; empty for none
	Logger  *slog.Logger
}

// Module is the wired package.
type Module struct {
	deps      Deps
	start     startBody
	home      func() ([]byte, error)
	reference func() ([]byte, error)
	content   func() (reference, error) // of the page about the API
}

// startBody says where to go from /, to whoever is not a browser.
type startBody struct {
	Name      string `json:"name" example:"Portico"`
	Version   string `json:"version"`
	Reference string `json:"docs" example:"/docs" doc:"The API for people to read"`
	OpenAPI   string `json:"openapi" example:"/openapi.json" doc:"The same for programs"`
	Live      string `json:"healthz" example:"/healthz" doc:"Whether the server lives"`
	Ready     string `json:"readyz" example:"/readyz" doc:"Whether it can work"`
	Metrics   string `json:"metrics" example:"/metrics" doc:"Its numbers, for Prometheus"`
}

// New makes the pages when they are first asked for: the operations are known
// by then.
func New(d Deps) *Module {
	start := startBody{
		Name: "Portico", Version: d.Version, Reference: "/docs", OpenAPI: "/openapi.json", Live: "/healthz", Ready: "/readyz", Metrics: "/metrics",
	}
	content := func() (reference, error) {
		text, err := d.API.OpenAPI()
		if err != nil {
			return reference{}, fmt.Errorf("the API's document: %w", err)
		}
		return read(text)
	}
	return &Module{
		deps: d, start: start, content: content,
		home: sync.OnceValues(func() ([]byte, error) { return render(homePage, start) }),
		reference: sync.OnceValues(func() ([]byte, error) {
			content, err := content()
			if err != nil {
				return nil, err
			}
			return render(referencePage+operations, content)
		}),
	}
}

// Handler serves the console below its path, the page about the API in its frame,
// and the API everywhere else.
func (m *Module) Handler() (http.Handler, error) {
	if m.deps.Path == "" {
		return m.deps.API, nil
	}
	console, err := handler(m.deps, m.content, time.Now)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle(m.deps.Path+"/", console)
	mux.Handle(m.deps.Path, console)
	mux.Handle("GET /docs", console)
	mux.Handle("/", m.deps.API)
	return mux, nil
}

// Register adds the routes.
func (m *Module) Register(api *httpapi.API) {
	const tag = "server"
	api.Raw(httpapi.Operation{
		ID: "start", Method: http.MethodGet, Path: "/", Tag: tag, Access: httpapi.Public, Summary: "Where to begin",
		Description: "Browsers, which say that they accept text/html, go to the console, or see a page where there is none; JSON for all others.",
		Raw:         httpapi.Description{Answers: []any{httpapi.Envelope[startBody]{}}, Media: examplePage()},
	}, func(w http.ResponseWriter, r *http.Request, _ actor.Actor) error {
		w.Header().Add("Vary", "Accept")
		if strings.Contains(r.Header.Get("Accept"), pageMedia) {
			if m.deps.Path != "" {
				http.Redirect(w, r, m.deps.Path+"/runs", http.StatusSeeOther)
				return nil
			}
			return show(w, m.home)
		}
		return httpapi.Write(w, m.start)
	})
	api.Raw(httpapi.Operation{
		ID: "docs", Method: http.MethodGet, Path: "/docs", Tag: tag, Access: httpapi.Public,
		Summary: "The API for people to read", Raw: httpapi.Description{Media: examplePage()},
	}, func(w http.ResponseWriter, _ *http.Request, _ actor.Actor) error { return show(w, m.reference) })
}

const pageMedia = "text/html"

func examplePage() map[string]string { return map[string]string{pageMedia: "<!doctype html>…"} }

func show(w http.ResponseWriter, page func() ([]byte, error)) error {
	text, err := page()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", pageMedia+"; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	_, _ = w.Write(text) // a client that is gone
	return nil
}

func render(page string, content any) ([]byte, error) {
	t, err := template.New("page").Parse(page)
	if err != nil {
		return nil, fmt.Errorf("a page: %w", err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, content); err != nil {
		return nil, fmt.Errorf("a page: %w", err)
	}
	return b.Bytes(), nil
}
