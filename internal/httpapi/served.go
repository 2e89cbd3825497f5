package httpapi

import (
	"context"
	"net/http"
	"reflect"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humagin"
	"github.com/gin-gonic/gin"
)

// register adds an operation of the API library. What checks its requests is made with
// the first of them, and its part of the document with the document.
func register[I, O any](a *API, op Operation, fn func(ctx context.Context, in *I) (*O, error)) {
	a.allow(op)
	a.descriptions = append(a.descriptions, func() {
		huma.Register(a.huma, a.describe(op), fn)
		a.documented(op, reflect.TypeFor[I]())
	})
	serve := sync.OnceValue(func() *served {
		s := &served{}
		library := huma.NewAPI(a.config(), s)
		huma.Register(library, a.describe(op), fn)
		if s.op.RequestBody != nil {
			for kind, m := range s.op.RequestBody.Content {
				opener{registry: library.OpenAPI().Components.Schemas, form: kind == formMedia}.open(m.Schema, map[*huma.Schema]bool{})
			}
		}
		return s
	})
	handle(a.engine, op.Method, op.Path, func(c *gin.Context) {
		s := serve()
		s.fn(humagin.NewContext(s.op, c))
	})
}

// served is what the API library takes for its router. It keeps the handler of its one
// operation; register adds the route.
type served struct {
	op *huma.Operation
	fn func(huma.Context)
}

// Handle implements huma.Adapter.
func (s *served) Handle(op *huma.Operation, fn func(huma.Context)) { s.op, s.fn = op, fn }

// ServeHTTP implements huma.Adapter. Nobody calls it.
func (s *served) ServeHTTP(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }
