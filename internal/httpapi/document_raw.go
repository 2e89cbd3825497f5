package httpapi

import (
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/portico-run/portico/internal/httpapi/example"
)

// documentRaw adds a Raw operation to the document.
func (a *API) documentRaw(op Operation) {
	h, d := a.describe(op), op.Raw
	h.Parameters = a.parameters(op)
	switch {
	case d.Body != nil:
		h.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{jsonMedia: a.media(d.Body)}}
	case d.Form != nil:
		h.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{formMedia: a.media(d.Form)}}
	case d.Encoded != nil:
		h.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{encodedMedia: a.media(d.Encoded)}}
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
		if in != nil {
			a.limits(&h, reflect.TypeOf(in))
		}
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
		switch {
		case kind == eventMedia:
			content[kind] = plainEvents(text)
		case !strings.HasPrefix(kind, "text/"):
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

// plainEvents describes events of another protocol than the stream's own, by the data
// of one.
func plainEvents(data string) *huma.MediaType {
	return &huma.MediaType{
		Schema: &huma.Schema{
			Type: huma.TypeObject, Description: "One server-sent event", Required: []string{"data"},
			Properties: map[string]*huma.Schema{"event": {Type: huma.TypeString}, "data": {Type: huma.TypeString, Description: "One line of JSON"}},
		},
		Example: map[string]string{"event": "message", "data": data},
	}
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
