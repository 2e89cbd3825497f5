package openapi

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/portico-run/portico/internal/schema/shared"
)

func (c *converter) method(path, verb string, item *openapi3.PathItem, op *openapi3.Operation) (method, error) {
	m := method{Name: nameOf(op.OperationID), Endpoint: path, Method: verb, Description: strings.TrimSpace(op.Summary + "\n" + op.Description)}
	if m.Name == "" {
		m.Name = nameOf(strings.ToLower(verb) + "_" + path)
	}
	b := &builder{converter: c, method: &m, properties: schema{}, adapter: &adapter{}}
	for _, p := range parameters(item, op) {
		if err := b.parameter(p.Value); err != nil {
			return m, err
		}
	}
	if op.RequestBody != nil {
		if err := b.body(op.RequestBody.Value); err != nil {
			return m, err
		}
	}
	m.Request = schema{"type": "object", "properties": b.properties, "additionalProperties": false}
	if len(b.required) > 0 {
		slices.Sort(b.required)
		m.Request["required"] = slices.Compact(b.required)
	}
	if a := b.adapter; len(a.Headers)+len(a.QueryParameters)+len(a.HeaderParameters) > 0 || a.UseFormData || a.BodyParameter != "" {
		m.Adapter = a
	}
	m.Response = c.response(op)
	return m, nil
}

// parameters are those of a path and of one of its operations. The operation's
// takes the place of the path's that has its name and is in the same part of the
// request.
func parameters(item *openapi3.PathItem, op *openapi3.Operation) openapi3.Parameters {
	all := slices.Clone(item.Parameters)
	for _, own := range op.Parameters {
		i := slices.IndexFunc(item.Parameters, func(p *openapi3.ParameterRef) bool {
			return p.Value != nil && own.Value != nil && p.Value.Name == own.Value.Name && p.Value.In == own.Value.In
		})
		if i < 0 {
			all = append(all, own)
		} else {
			all[i] = own
		}
	}
	return all
}

// builder collects the parameters of one method.
type builder struct {
	*converter

	method     *method
	adapter    *adapter
	properties schema
	required   []string
}

func (b *builder) add(name string, s any, required bool) error {
	if _, twice := b.properties[name]; twice {
		return fmt.Errorf("two parameters are called %q", name)
	}
	b.properties[name] = s
	if required {
		b.required = append(b.required, name)
	}
	return nil
}

func (b *builder) parameter(p *openapi3.Parameter) error {
	s := schema{"type": "string"}
	if p.Schema != nil {
		s = b.convert(p.Schema)
	}
	if p.Description != "" {
		s["description"] = p.Description
	}
	switch p.In {
	case openapi3.ParameterInPath:
		return b.add(p.Name, s, true)
	case openapi3.ParameterInQuery:
		if b.method.Method != http.MethodGet && b.method.Method != http.MethodHead {
			b.adapter.QueryParameters = append(b.adapter.QueryParameters, p.Name)
		}
		return b.add(p.Name, s, p.Required)
	case openapi3.ParameterInHeader:
		if slices.Contains([]string{"accept", "content-type", "authorization"}, strings.ToLower(p.Name)) {
			return nil // the gateway's own
		}
		name := nameOf(p.Name)
		if b.adapter.HeaderParameters == nil {
			b.adapter.HeaderParameters = map[string]string{}
		}
		b.adapter.HeaderParameters[name] = p.Name
		return b.add(name, s, p.Required)
	}
	b.warn("%s: the parameter %s in %s is left out", b.method.Name, p.Name, p.In)
	return nil
}

// bodyName is the parameter that is a whole body, where that is no object.
const bodyName = "body"

func (b *builder) body(r *openapi3.RequestBody) error {
	kinds := []string{"application/json", "multipart/form-data", "application/x-www-form-urlencoded"}
	i := slices.IndexFunc(kinds, func(kind string) bool { return r.Content[kind] != nil && r.Content[kind].Schema != nil })
	if i < 0 {
		b.warn("%s: a body of %s is left out", b.method.Name, strings.Join(slices.Sorted(maps.Keys(r.Content)), ", "))
		return nil
	}
	from := r.Content[kinds[i]].Schema
	s, properties := b.whole(from, i == 1)
	switch kinds[i] {
	case "multipart/form-data":
		b.adapter.UseFormData = true
	case "application/x-www-form-urlencoded":
		b.adapter.Headers = map[string]string{"Content-Type": kinds[i]}
	}
	if properties == nil {
		if i > 0 {
			return fmt.Errorf("a body of %s must be an object with properties", kinds[i])
		}
		b.adapter.BodyParameter = bodyName
		return b.add(bodyName, s, r.Required)
	}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		p := properties[name]
		if err := b.add(name, p, slices.Contains(from.Value.Required, name)); err != nil {
			return err
		}
	}
	return nil
}

// whole is the schema of a body, and those of its properties by name; nil where
// it is no object with properties. In a form, a property of bytes is a file of
// the caller's.
func (b *builder) whole(body *openapi3.SchemaRef, form bool) (schema, map[string]any) {
	s := b.convert(body)
	if body.Value == nil || len(body.Value.Properties) == 0 {
		return s, nil
	}
	inline, _ := s["properties"].(schema)
	properties := map[string]any{}
	for name, of := range body.Value.Properties {
		file := form && of.Value != nil && of.Value.Format == "binary"
		switch p, isInline := inline[name].(schema); {
		case isInline && file:
			p["isResource"] = true
			properties[name] = p
		case isInline || b.shares == nil:
			properties[name] = p
		case file:
			properties[name] = schema{"$ref": shared.ToProperty(b.share(body), name), "isResource": true}
		default:
			properties[name] = shared.To(b.share(body))
		}
	}
	return s, properties
}

// response is the schema of the first answer that is a success in JSON.
func (c *converter) response(op *openapi3.Operation) schema {
	for _, status := range []string{"200", "201", "202", "default"} {
		r := op.Responses.Value(status)
		if r == nil || r.Value == nil {
			continue
		}
		if media := r.Value.Content["application/json"]; media != nil && media.Schema != nil {
			return c.convert(media.Schema)
		}
	}
	return nil
}
