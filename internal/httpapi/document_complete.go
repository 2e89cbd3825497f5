package httpapi

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi/example"
)

// documented completes the description of an operation that was added: bodies
// take members that are not known, every answer has an example, and errors have
// their codes.
func (a *API) documented(op Operation, in reflect.Type) {
	item := a.huma.OpenAPI().Paths[op.Path]
	var h *huma.Operation
	for _, o := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
		if o != nil && o.OperationID == op.ID {
			h = o
		}
	}
	a.limits(h, in)
	if op.Never != nil {
		a.body(h).Extensions = map[string]any{"not": op.Never}
	}
	// The library promises it for every body, and failure turns it into 400.
	delete(h.Responses, strconv.Itoa(http.StatusUnprocessableEntity))
	if h.RequestBody != nil {
		for kind, m := range h.RequestBody.Content {
			opener{a.huma.OpenAPI().Components.Schemas, op.Raw.Body != nil, kind == formMedia}.open(m.Schema, map[*huma.Schema]bool{})
			a.exemplify(m)
		}
	}
	for _, p := range h.Parameters {
		if p.Schema.Default == nil {
			p.Example = example.Named(p.Name, p.Schema)
		}
	}
	for status, r := range h.Responses {
		for _, m := range r.Content {
			if status == "200" && op.Example != nil {
				m.Example = op.Example
			}
			a.exemplify(m)
		}
	}
	for status, codes := range failures(op) {
		a.documentFailure(op, h, status, codes)
	}
}

func (a *API) exemplify(m *huma.MediaType) {
	if m.Example == nil && len(m.Examples) == 0 {
		m.Example = a.example(m.Schema)
	}
}

// limits adds to the document what the tag documented says of fields, such as
// "minLength=1 maxLength=100", of an input or of a body: limits that a service
// checks, in words of its own. "items.maxLength=64" is about what is in a list.
func (a *API) limits(h *huma.Operation, in reflect.Type) {
	if in == nil || in.Kind() != reflect.Struct {
		return
	}
	for _, f := range reflect.VisibleFields(in) {
		if f.Name == "Body" && f.Type.Kind() == reflect.Struct {
			a.limits(h, f.Type)
		}
		said := f.Tag.Get("documented")
		if said == "" {
			continue
		}
		field := a.described(h, f)
		for word := range strings.FieldsSeq(said) {
			name, value, _ := strings.Cut(word, "=")
			s := field
			if item, ok := strings.CutPrefix(name, "items."); ok {
				name, s = item, field.Items
			}
			if s.Extensions == nil {
				s.Extensions = map[string]any{}
			}
			s.Extensions[name] = value
			if name == "type" {
				s.Extensions[name] = strings.Split(value, "|")
			} else if number, err := strconv.Atoi(value); err == nil {
				s.Extensions[name] = number
			} else if value == "true" {
				s.Extensions[name] = true
			}
		}
	}
}

// described is the schema of a parameter, or of a member of the body.
func (a *API) described(h *huma.Operation, f reflect.StructField) *huma.Schema {
	for _, p := range h.Parameters {
		if p.Name == f.Tag.Get(p.In) {
			return p.Schema
		}
	}
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return a.body(h).Properties[name]
}

func (a *API) body(h *huma.Operation) *huma.Schema {
	s := h.RequestBody.Content[jsonMedia].Schema
	if s.Ref != "" {
		s = a.huma.OpenAPI().Components.Schemas.SchemaFromRef(s.Ref)
	}
	return s
}

// opener lets bodies have members that are not known, in the document and where
// they are checked, and says that null is as good as leaving a member out.
type opener struct {
	registry huma.Registry
	items    bool // null may be in lists, too, where the API library does not check
	form     bool // no null at all
}

func (o opener) open(s *huma.Schema, seen map[*huma.Schema]bool) {
	if s != nil && s.Ref != "" {
		s = o.registry.SchemaFromRef(s.Ref)
	}
	if s == nil || seen[s] {
		return
	}
	seen[s] = true
	if s.AdditionalProperties == false {
		s.AdditionalProperties = true
	}
	if o.items {
		o.nullable(s.Items)
	}
	o.open(s.Items, seen)
	for name, p := range s.Properties {
		if !slices.Contains(s.Required, name) {
			o.nullable(p)
		}
		o.open(p, seen)
	}
}

func (o opener) nullable(s *huma.Schema) {
	if s == nil || o.form || s.Ref != "" || s.Type == "" || s.Nullable {
		return
	}
	s.Nullable = true
	if len(s.Enum) > 0 {
		s.Enum = append(s.Enum, nil)
	}
}

// failures are the codes of the errors that the document promises for an
// operation, by their statuses.
func failures(op Operation) map[int][]errs.Code {
	codes := append([]errs.Code{errs.Invalid, errs.Internal}, op.Errors...)
	if op.Access != Public {
		codes = append(codes, errs.Unauthorized, errs.Forbidden)
	}
	if op.Method == http.MethodPost || op.Method == http.MethodPatch || op.Method == http.MethodPut {
		codes = append(codes, errs.TooLarge, errs.Unsupported)
	}
	slices.Sort(codes)
	out := map[int][]errs.Code{}
	for _, c := range slices.Compact(codes) {
		out[c.Status()] = append(out[c.Status()], c)
	}
	return out
}

func (a *API) documentFailure(op Operation, h *huma.Operation, status int, codes []errs.Code) {
	r := &huma.Response{Content: map[string]*huma.MediaType{jsonMedia: {Examples: map[string]*huma.Example{}}}}
	m := r.Content[jsonMedia]
	var meanings []string
	for _, code := range codes {
		meanings = append(meanings, fmt.Sprintf("%s: %s", code, code.Meaning()))
		e := errs.New(code, code.Meaning()).Do("What to do about it, in a sentence.")
		var body any = &failure{ErrCode: e.Code, ErrMsg: e.Message, Detail: e.Detail, TraceID: exampleTrace}
		if op.Refusal != nil {
			body = op.Refusal(e, exampleTrace)
		}
		m.Schema = a.schema(body)
		m.Examples[string(code)] = a.shared(m.Schema.Ref, string(code), body)
	}
	r.Description = strings.Join(meanings, ". ")
	if slices.ContainsFunc(codes, func(c errs.Code) bool { return c == errs.RateLimited || c == errs.Unavailable }) {
		r.Headers = map[string]*huma.Param{"Retry-After": {Description: "Seconds after which trying again can help", Schema: &huma.Schema{Type: huma.TypeInteger, Examples: []any{1}}}}
	}
	if answer := h.Responses[strconv.Itoa(status)]; answer != nil && op.Raw.Statuses[status] != "" { // an answer of another form has the status, too
		m.Schema = &huma.Schema{AnyOf: []*huma.Schema{answer.Content[jsonMedia].Schema, m.Schema}}
		r.Description = op.Raw.Statuses[status] + ". " + r.Description
	}
	h.Responses[strconv.Itoa(status)] = r
}

// shared is an example that many operations have.
func (a *API) shared(ref, name string, value any) *huma.Example {
	c := a.huma.OpenAPI().Components
	if c.Examples == nil {
		c.Examples = map[string]*huma.Example{}
	}
	name = strings.TrimPrefix(ref, componentPath) + "-" + name
	c.Examples[name] = &huma.Example{Value: value}
	return &huma.Example{Ref: "#/components/examples/" + name}
}

const exampleTrace = "0b4f4e0a-6f5e-4f6a-9d6b-0d4f3b1c2a19"
