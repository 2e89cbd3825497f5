package app

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/httpapi"
)

//go:embed docs.html
var docsPage string

// docs shows the OpenAPI document to people. The page is whole: it loads
// nothing, from here or elsewhere.
type docs struct{ page func() ([]byte, error) }

func newDocs(api *httpapi.API) docs {
	return docs{page: sync.OnceValues(func() ([]byte, error) { return renderDocs(api) })}
}

// Register adds the route.
func (d docs) Register(api *httpapi.API) {
	api.Raw(httpapi.Operation{
		ID: "docs", Method: http.MethodGet, Path: "/docs", Tag: "health", Access: httpapi.Public,
		Summary: "The API for people to read",
	}, func(w http.ResponseWriter, _ *http.Request, _ actor.Actor) error {
		page, err := d.page()
		if err != nil {
			return err
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
		_, _ = w.Write(page) // a client that is gone
		return nil
	})
}

// group is the operations of one tag.
type group struct {
	Tag        string
	Operations []documented
}

// documented is one operation as the page shows it.
type documented struct {
	Method, Path, ID     string
	Summary, Description string
	Public               bool
	Parameters           []parameter
	Body                 string // JSON Schema of the request's body; empty for none
	Answers              []string
}

type parameter struct {
	Name, In, Description string
	Required              bool
}

// renderDocs makes the page out of the document.
func renderDocs(api *httpapi.API) ([]byte, error) {
	text, err := api.OpenAPI()
	if err != nil {
		return nil, fmt.Errorf("the API's document: %w", err)
	}
	var doc struct {
		Info  struct{ Title, Version, Description string }
		Paths map[string]map[string]struct {
			OperationID          string
			Summary, Description string
			Tags                 []string
			Security             []map[string][]string
			Parameters           []parameter
			RequestBody          struct {
				Content map[string]struct{ Schema json.RawMessage }
			}
			Responses map[string]json.RawMessage
		}
		Components struct{ Schemas map[string]json.RawMessage }
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("the API's document: %w", err)
	}
	groups := map[string]*group{}
	for path, item := range doc.Paths {
		for method, op := range item {
			tag := strings.Join(op.Tags, ", ")
			if groups[tag] == nil {
				groups[tag] = &group{Tag: tag}
			}
			d := documented{
				Method: strings.ToUpper(method), Path: path, ID: op.OperationID, Summary: op.Summary, Description: op.Description,
				Public: len(op.Security) == 0, Parameters: op.Parameters,
				Body: schemaText(op.RequestBody.Content["application/json"].Schema, doc.Components.Schemas),
			}
			for status := range op.Responses {
				d.Answers = append(d.Answers, status)
			}
			slices.Sort(d.Answers)
			groups[tag].Operations = append(groups[tag].Operations, d)
		}
	}
	var sorted []*group
	for _, g := range groups {
		slices.SortFunc(g.Operations, func(a, b documented) int {
			return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Method, b.Method))
		})
		sorted = append(sorted, g)
	}
	slices.SortFunc(sorted, func(a, b *group) int { return strings.Compare(a.Tag, b.Tag) })
	page, err := template.New("docs").Parse(docsPage)
	if err != nil {
		return nil, fmt.Errorf("the page of the API: %w", err)
	}
	var b bytes.Buffer
	err = page.Execute(&b, map[string]any{"Info": doc.Info, "Groups": sorted})
	return b.Bytes(), err
}

// schemaText shows a schema, with what it refers to in its place.
func schemaText(schema json.RawMessage, schemas map[string]json.RawMessage) string {
	var ref struct {
		Ref string `json:"$ref"`
	}
	if json.Unmarshal(schema, &ref) == nil && ref.Ref != "" {
		schema = schemas[strings.TrimPrefix(ref.Ref, "#/components/schemas/")]
	}
	if len(schema) == 0 {
		return ""
	}
	var b bytes.Buffer
	if json.Indent(&b, schema, "", "  ") != nil {
		return string(schema)
	}
	return b.String()
}
