package httpapi

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gin-gonic/gin"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/internal/httpapi/decode"
	"github.com/portico-run/portico/internal/httpapi/example"
)

// Description says what a Raw operation reads and writes, for the document. A
// value stands for its type; one that is not empty is the example, too.
type Description struct {
	// Input is a struct with the tags that inputs of Register have, for the
	// parameters. Those of the path that it leaves out are texts.
	Input any
	// Body is the JSON of a request, and Form its multipart/form-data.
	Body, Form any
	// Answers are the JSON of an answer: one of these types.
	Answers []any
	// Media are the content types of answers that are not JSON, with an example
	// of each.
	Media map[string]string
	// Events are the data of the events of a stream.
	Events []any
	// Statuses are further answers that are no errors, with what they mean.
	// They have the content of the others, unless they can have none.
	Statuses map[int]string
}

const exampleFile = "city,population\nRome,2748000\n"

// AnyFile is the Media of a file that a user brought.
func AnyFile() map[string]string { return map[string]string{"*/*": exampleFile} }

// File is a file in a Form.
type File string

// Schema implements huma.SchemaProvider.
func (File) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "binary", Examples: []any{exampleFile}}
}

const jsonMedia, formMedia, eventMedia = "application/json", "multipart/form-data", "text/event-stream"

func (a *API) config() huma.Config {
	c := huma.DefaultConfig("Portico", a.deps.Version)
	c.CreateHooks = nil // no $schema member in answers
	c.Formats = map[string]huma.Format{jsonMedia: {Marshal: marshal, Unmarshal: decode.JSON}}
	// The library's page loads its scripts from elsewhere, and its document is
	// made without a lock.
	c.DocsPath, c.OpenAPIPath, c.SchemasPath = "", "", ""
	c.Info.Description = "Runs model-written code in a sandbox and executes the tools it calls: recorded, billed once, streamed live. " +
		"HEAD works wherever GET does. Every answer has the header " + HeaderTrace + "."
	if a.deps.Endpoint != "" {
		c.Servers = []*huma.Server{{URL: a.deps.Endpoint}}
	}
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"apiKey": {Type: "apiKey", In: "header", Name: "X-API-Key", Description: "An API key, rf_…"},
		"bearer": {Type: "http", Scheme: "bearer", Description: "An API key, or a session token; for the code interpreter also the token that a LibreChat server signed"},
		"session": {Type: "apiKey", In: "cookie", Name: accessCookie, Description: "A session token, for pages whose EventSource cannot send headers. " +
			"It counts for GET and for requests whose body is JSON, and where no other credential is sent"},
	}
	return c
}

// OpenAPI is the document of every operation, as JSON.
func (a *API) OpenAPI() ([]byte, error) { return a.huma.OpenAPI().MarshalJSON() }

// serveDocument adds the routes of the document, which is made when it is
// first asked for.
func (a *API) serveDocument() {
	doc := a.huma.OpenAPI()
	for path, render := range map[string]func() ([]byte, error){
		"/openapi.json": doc.MarshalJSON, "/openapi-3.0.json": func() ([]byte, error) { return doc.Downgrade() },
		"/openapi.yaml": doc.YAML, "/openapi-3.0.yaml": doc.DowngradeYAML,
	} {
		text := sync.OnceValues(render)
		handle(a.engine, http.MethodGet, path, func(c *gin.Context) {
			b, err := text()
			if err != nil {
				a.fail(c, fmt.Errorf("the API's document: %w", err))
				return
			}
			c.Data(http.StatusOK, "application/openapi+"+path[len(path)-4:], b)
		})
	}
}

func (a *API) describe(op Operation) huma.Operation {
	h := huma.Operation{
		OperationID: op.ID, Method: op.Method, Path: op.Path, Summary: op.Summary, Description: op.Description,
		Tags: []string{op.Tag}, DefaultStatus: http.StatusOK, MaxBodyBytes: a.limit(op), BodyReadTimeout: a.bodyTime,
	}
	for status := range failures(op) {
		h.Errors = append(h.Errors, status)
	}
	switch {
	case op.Access == Public:
		return h
	case op.Trusted && a.deps.Trusted != nil:
		h.Security = []map[string][]string{{}}
	}
	h.Security = append(h.Security, map[string][]string{"apiKey": {}}, map[string][]string{"bearer": {}}, map[string][]string{"session": {}})
	return h
}

// documentRaw adds a Raw operation to the document.
func (a *API) documentRaw(op Operation) {
	h, d := a.describe(op), op.Raw
	h.Parameters = a.parameters(op)
	switch {
	case d.Body != nil:
		h.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{jsonMedia: a.media(d.Body)}}
	case d.Form != nil:
		h.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{formMedia: a.media(d.Form)}}
	}
	content := a.content(d)
	h.Responses = map[string]*huma.Response{"200": {Description: op.Summary, Content: content}}
	for status, meaning := range d.Statuses {
		r := &huma.Response{Description: meaning}
		if status != http.StatusNoContent && status != http.StatusNotModified {
			r.Content = content
		}
		h.Responses[strconv.Itoa(status)] = r
	}
	a.huma.OpenAPI().AddOperation(&h)
	in := d.Input
	if d.Body != nil {
		in = d.Body
	}
	a.documented(op, reflect.TypeOf(in))
}

func (a *API) parameters(op Operation) []*huma.Param {
	var list []*huma.Param
	known := map[string]bool{}
	if op.Raw.Input != nil {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(op.Raw.Input)) {
			for _, in := range []string{"path", "query", "header"} {
				if name := f.Tag.Get(in); name != "" {
					schema := huma.SchemaFromField(a.huma.OpenAPI().Components.Schemas, f, "")
					list = append(list, &huma.Param{Name: name, In: in, Required: in == "path" || f.Tag.Get("required") == "true", Description: schema.Description, Schema: schema})
					known[name] = true
				}
			}
		}
	}
	for _, m := range pathParameter.FindAllStringSubmatch(op.Path, -1) {
		if !known[m[1]] {
			list = append(list, &huma.Param{Name: m[1], In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}})
		}
	}
	return list
}

// media describes the type of a value.
func (a *API) media(v any) *huma.MediaType {
	m := &huma.MediaType{Schema: a.schema(v)}
	if r := reflect.ValueOf(v); !r.IsZero() && (r.Kind() != reflect.Slice || r.Len() > 0) {
		m.Example = v
	}
	return m
}

func (a *API) schema(v any) *huma.Schema {
	return a.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeOf(v), true, "")
}

// content describes an answer.
func (a *API) content(d Description) map[string]*huma.MediaType {
	content := map[string]*huma.MediaType{}
	for kind, text := range d.Media {
		content[kind] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString}, Example: text}
		if !strings.HasPrefix(kind, "text/") {
			content[kind].Schema.Format = "binary"
		}
	}
	if len(d.Events) > 0 {
		content[eventMedia] = a.events(d.Events)
	}
	switch len(d.Answers) {
	case 0:
	case 1:
		content[jsonMedia] = a.media(d.Answers[0])
	default:
		either := &huma.MediaType{Schema: &huma.Schema{}, Examples: map[string]*huma.Example{}}
		for _, v := range d.Answers {
			m := a.media(v)
			m.Schema.Nullable = false // a list may be empty
			a.exemplify(m)
			either.Schema.AnyOf = append(either.Schema.AnyOf, m.Schema)
			name := strings.TrimPrefix(m.Schema.Ref, componentPath)
			if m.Schema.Items != nil {
				name = strings.TrimPrefix(m.Schema.Items.Ref, componentPath) + "List"
			}
			either.Examples[name] = &huma.Example{Value: m.Example}
		}
		content[jsonMedia] = either
	}
	return content
}

const componentPath = "#/components/schemas/"

// events describes a stream of server-sent events, whose data is one of the
// types of the values, by one of its events: OpenAPI 3.1 has no word for a
// stream.
func (a *API) events(values []any) *huma.MediaType {
	const event = "Event"
	each := &huma.Schema{Description: "The data of one server-sent event"}
	m := &huma.MediaType{
		Schema: &huma.Schema{
			Type: huma.TypeObject, Description: "One event of the stream. Comments between events keep the connection alive",
			Required: []string{"id", "data"}, Properties: map[string]*huma.Schema{
				"id": {Type: huma.TypeString, Description: "The event's number"},
				"data": {Type: huma.TypeString, Description: "One line of JSON", Extensions: map[string]any{
					"contentMediaType": jsonMedia, "contentSchema": &huma.Schema{Ref: componentPath + event},
				}},
			},
		},
		Examples: map[string]*huma.Example{},
	}
	for i, v := range values {
		schema := a.schema(v)
		each.OneOf = append(each.OneOf, schema)
		line, err := example.Line(v)
		if err != nil {
			panic("the example of an event is not JSON: " + err.Error()) // said by the program, not by a user
		}
		m.Examples[strings.TrimPrefix(schema.Ref, componentPath)] = &huma.Example{Value: map[string]string{"id": strconv.Itoa(i + 1), "data": line}}
	}
	a.huma.OpenAPI().Components.Schemas.Map()[event] = each
	return m
}

func (a *API) example(s *huma.Schema) any {
	return example.Of(a.huma.OpenAPI().Components.Schemas, s)
}

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
// checks, in words of its own.
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
		s := a.described(h, f)
		if s.Extensions == nil {
			s.Extensions = map[string]any{}
		}
		for word := range strings.FieldsSeq(said) {
			name, value, _ := strings.Cut(word, "=")
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
	s := h.RequestBody.Content[jsonMedia].Schema
	if s.Ref != "" {
		s = a.huma.OpenAPI().Components.Schemas.SchemaFromRef(s.Ref)
	}
	return s.Properties[name]
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
