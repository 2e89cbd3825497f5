package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"regexp"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gin-gonic/gin"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
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
	a.allow(op)
	huma.Register(a.huma, a.describe(op), func(ctx context.Context, in *I) (*answer[O], error) {
		who, _ := actor.From(ctx) // the zero actor on public operations
		data, err := fn(ctx, who, in)
		if err != nil {
			return nil, a.public(ctx, err)
		}
		return &answer[O]{Body: Envelope[O]{Success: true, Data: data}}, nil
	})
	a.openBodies(op)
}

// RegisterPlain adds an operation whose answer is not wrapped in the envelope:
// docs/wire/refly.md#answers-and-errors.
func RegisterPlain[I, O any](a *API, op Operation, fn func(ctx context.Context, who actor.Actor, in *I) (O, error)) {
	a.allow(op)
	huma.Register(a.huma, a.describe(op), func(ctx context.Context, in *I) (*plain[O], error) {
		who, _ := actor.From(ctx)
		data, err := fn(ctx, who, in)
		if err != nil {
			return nil, a.public(ctx, err)
		}
		return &plain[O]{Body: data}, nil
	})
	a.openBodies(op)
}

// Raw adds an operation that writes its own answer: streams and bytes. An
// error it returns before it wrote anything becomes the envelope; afterwards
// the connection is all that is left to end. Path values come by
// r.PathValue.
func (a *API) Raw(op Operation, fn func(w http.ResponseWriter, r *http.Request, who actor.Actor) error) {
	a.allow(op)
	described := a.describe(op)
	described.Responses = map[string]*huma.Response{"200": {Description: op.Summary, Content: a.content(op.Answers...)}}
	refusal := a.content(failure{})
	if op.Refusal != nil {
		refusal = a.content(op.Refusal(&errs.Error{}, ""))
	}
	if op.Body != nil {
		described.RequestBody = &huma.RequestBody{Required: true, Content: a.content(op.Body)}
	}
	for _, status := range statuses(op) {
		described.Responses[strconv.Itoa(status)] = &huma.Response{
			Description: http.StatusText(status), Content: refusal,
		}
	}
	for _, name := range pathParameters(op.Path) {
		described.Parameters = append(described.Parameters, &huma.Param{
			Name: name, In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString},
		})
	}
	a.huma.OpenAPI().AddOperation(&described)
	for _, path := range append([]string{op.Path}, op.Aliases...) {
		a.engine.Handle(op.Method, ginPath(path), func(c *gin.Context) {
			for _, p := range c.Params {
				c.Request.SetPathValue(p.Key, p.Value)
			}
			who, _ := actor.From(c.Request.Context())
			if err := fn(c.Writer, c.Request, who); err != nil {
				a.fail(c, err)
			}
		})
	}
}

// content describes JSON of the type of one of the values; of none, nothing.
func (a *API) content(values ...any) map[string]*huma.MediaType {
	schemas := make([]*huma.Schema, len(values))
	for i, v := range values {
		schemas[i] = a.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeOf(v), true, "")
	}
	switch len(schemas) {
	case 0:
		return nil
	case 1:
		return map[string]*huma.MediaType{"application/json": {Schema: schemas[0]}}
	}
	return map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{AnyOf: schemas}}}
}

func (a *API) describe(op Operation) huma.Operation {
	h := huma.Operation{
		OperationID: op.ID, Method: op.Method, Path: op.Path, Summary: op.Summary, Description: op.Description,
		Tags: []string{op.Tag}, DefaultStatus: http.StatusOK, MaxBodyBytes: a.limit(op), BodyReadTimeout: bodyReadTimeout,
		Errors: statuses(op),
	}
	if op.Access != Public {
		h.Security = []map[string][]string{{"apiKey": {}}, {"bearer": {}}}
	}
	return h
}

// statuses are the error statuses the document promises for an operation.
func statuses(op Operation) []int {
	codes := append([]errs.Code{errs.Invalid, errs.Internal}, op.Errors...)
	if op.Access != Public {
		codes = append(codes, errs.Unauthorized, errs.Forbidden)
	}
	if op.Method == http.MethodPost || op.Method == http.MethodPatch || op.Method == http.MethodPut {
		codes = append(codes, errs.TooLarge, errs.Unsupported)
	}
	var out []int
	seen := map[int]bool{}
	for _, c := range codes {
		if s := c.Status(); !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}

func (a *API) allow(op Operation) {
	for _, path := range append([]string{op.Path}, op.Aliases...) {
		a.routes[op.Method+" "+ginPath(path)] = op
	}
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
	op, known := a.routes[c.Request.Method+" "+c.FullPath()]
	return op, known
}

var pathParameter = regexp.MustCompile(`\{([^}]+)\}`)

// ginPath writes a path the router's way: {id} becomes :id.
func ginPath(path string) string { return pathParameter.ReplaceAllString(path, ":$1") }

func pathParameters(path string) []string {
	var names []string
	for _, m := range pathParameter.FindAllStringSubmatch(path, -1) {
		names = append(names, m[1])
	}
	return names
}

// Write answers a request that worked, for a Raw operation.
func Write[O any](w http.ResponseWriter, data O) error {
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(Envelope[O]{Success: true, Data: data})
}
