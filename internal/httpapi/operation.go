package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/peer"
)

// bodyReadTimeout is for the slowest honest client of a body at the limit.
const bodyReadTimeout = time.Minute

// Envelope is the answer to a request that worked.
type Envelope[O any] struct {
	Success bool `json:"success" doc:"Always true here"`
	Data    O    `json:"data"`

	stream *Stream // written in place of Data
}

type plain[O any] struct{ Body O }

type answer[O any] struct{ Body Envelope[O] }

// Register adds an operation. I is a struct whose fields carry huma's tags
// (path, query, header, Body); O becomes the data of the envelope.
func Register[I, O any](a *API, op Operation, fn func(ctx context.Context, who actor.Actor, in *I) (O, error)) {
	register(a, op, func(ctx context.Context, in *I) (*answer[O], error) {
		who, _ := actor.From(ctx) // the zero actor on public operations
		data, err := fn(ctx, who, in)
		if err != nil {
			return nil, a.public(ctx, err)
		}
		return &answer[O]{Body: Envelope[O]{Success: true, Data: data}}, nil
	})
}

// RegisterPlain adds an operation whose answer is not wrapped in the envelope:
// docs/wire/refly.md#answers-and-errors.
func RegisterPlain[I, O any](a *API, op Operation, fn func(ctx context.Context, who actor.Actor, in *I) (O, error)) {
	register(a, op, func(ctx context.Context, in *I) (*plain[O], error) {
		who, _ := actor.From(ctx)
		data, err := fn(ctx, who, in)
		if err != nil {
			return nil, a.public(ctx, err)
		}
		return &plain[O]{Body: data}, nil
	})
}

// Raw adds an operation that writes its own answer: streams and bytes. An
// error it returns before it wrote anything becomes the envelope; afterwards
// the connection is all that is left to end. Path values come by
// r.PathValue.
func (a *API) Raw(op Operation, fn func(w http.ResponseWriter, r *http.Request, who actor.Actor) error) {
	a.allow(op)
	a.descriptions = append(a.descriptions, func() { a.documentRaw(op) })
	for _, path := range append([]string{op.Path}, op.Aliases...) {
		handle(a.engine, op.Method, path, func(c *gin.Context) {
			for _, p := range c.Params {
				c.Request.SetPathValue(p.Key, p.Value)
			}
			who, _ := actor.From(c.Request.Context())
			r := c.Request
			if op.Lasts && a.deps.Still != nil {
				ctx, leave := a.attend(r.Context(), who)
				defer leave()
				r = r.WithContext(ctx)
			}
			err := fn(c.Writer, r, who)
			if e, held := errors.AsType[*peer.Elsewhere](err); held {
				err = a.handOn(c, e)
			}
			if err != nil {
				a.fail(c, err)
			}
		})
	}
}

func (a *API) allow(op Operation) {
	for _, path := range append([]string{op.Path}, op.Aliases...) {
		a.routes[op.Method+" "+ginPath(path)] = op
	}
}

// allowed lists the methods of a path: those of the routes that name it with
// the fewest parameters, as the document has them.
func (a *API) allowed(path string) string {
	var methods []string
	most := -1
	for route, op := range a.routes {
		_, pattern, _ := strings.Cut(route, " ")
		fixed, ok := match(strings.Split(pattern, "/"), strings.Split(path, "/"))
		if !ok || fixed < most {
			continue
		}
		if fixed > most {
			methods, most = nil, fixed
		}
		if methods = append(methods, op.Method); op.Method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
	}
	slices.Sort(methods)
	return strings.Join(methods, ", ")
}

// Below has every path below a folder answered in the form of an operation where there
// is no route.
func (a *API) Below(folder string, form Operation) {
	a.folders = append(a.folders, below{folder + "/", form})
}

// below is the form of the answers below a folder.
type below struct {
	folder string
	form   Operation
}

// beside is an operation that the path has with another method, or one that stands for
// the paths around it.
func (a *API) beside(path string) (op Operation, known bool) {
	most := -1
	for route, other := range a.routes {
		_, pattern, _ := strings.Cut(route, " ")
		if fixed, ok := match(strings.Split(pattern, "/"), strings.Split(path, "/")); ok && fixed > most {
			op, known, most = other, true, fixed
		}
	}
	for _, b := range a.folders {
		if !known && strings.HasPrefix(path, b.folder) {
			op, known = b.form, true
		}
	}
	return op, known
}

// match counts the parts of a path that a pattern has in the same words.
func match(pattern, path []string) (fixed int, ok bool) {
	if len(pattern) != len(path) {
		return 0, false
	}
	for i, part := range pattern {
		switch {
		case part == path[i]:
			fixed++
		case !strings.HasPrefix(part, ":"):
			return 0, false
		}
	}
	return fixed, true
}

// limit is the largest body of an operation.
func (a *API) limit(op Operation) int64 {
	if op.BodyLimit > 0 {
		return op.BodyLimit
	}
	return a.deps.BodyLimit
}

// route is the operation that a request goes to.
func (a *API) route(c *gin.Context) (Operation, bool) {
	method := c.Request.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	op, known := a.routes[method+" "+c.FullPath()]
	return op, known
}

var pathParameter = regexp.MustCompile(`\{([^}]+)\}`)

// ginPath writes a path the router's way: {id} becomes :id.
func ginPath(path string) string { return pathParameter.ReplaceAllString(path, ":$1") }

// Write answers a request that worked, for a Raw operation.
func Write[O any](w http.ResponseWriter, data O) error {
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(Envelope[O]{Success: true, Data: data})
}
