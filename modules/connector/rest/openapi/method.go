package openapi

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// schema is a JSON Schema that is being made.
type schema = map[string]any

func (c *converter) method(path, verb string, item *openapi3.PathItem, op *openapi3.Operation) (method, error) {
	m := method{Name: nameOf(op.OperationID), Endpoint: path, Method: verb, Description: strings.TrimSpace(op.Summary + "\n" + op.Description)}
	if m.Name == "" {
		m.Name = nameOf(strings.ToLower(verb) + "_" + path)
	}
	b := &builder{converter: c, method: &m, properties: schema{}, adapter: &adapter{}}
	for _, p := range slices.Concat(item.Parameters, op.Parameters) {
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
	m.Response = response(op)
	return m, nil
}

// builder collects the parameters of one method.
type builder struct {
	*converter

	method     *method
	adapter    *adapter
	properties schema
	required   []string
}

func (b *builder) add(name string, s schema, required bool) error {
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
		s = convert(p.Schema)
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
	s := convert(r.Content[kinds[i]].Schema)
	switch kinds[i] {
	case "multipart/form-data":
		b.adapter.UseFormData = true
	case "application/x-www-form-urlencoded":
		b.adapter.Headers = map[string]string{"Content-Type": kinds[i]}
	}
	properties, isObject := s["properties"].(schema)
	if !isObject {
		if i > 0 {
			return fmt.Errorf("a body of %s must be an object with properties", kinds[i])
		}
		b.adapter.BodyParameter = bodyName
		return b.add(bodyName, s, r.Required)
	}
	required, _ := s["required"].([]string)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		p, _ := properties[name].(schema)
		if i == 1 && p["format"] == "binary" { // a file of the caller's
			p["isResource"] = true
		}
		if err := b.add(name, p, slices.Contains(required, name)); err != nil {
			return err
		}
	}
	return nil
}

// response is the schema of the first answer that is a success in JSON.
func response(op *openapi3.Operation) schema {
	for _, status := range []string{"200", "201", "202", "default"} {
		r := op.Responses.Value(status)
		if r == nil || r.Value == nil {
			continue
		}
		if media := r.Value.Content["application/json"]; media != nil && media.Schema != nil {
			return convert(media.Schema)
		}
	}
	return nil
}

// maxDepth bounds how deep schemas are nested; what is deeper is any value.
const maxDepth = 20

// convert writes a schema with what it refers to in its place. Where a schema
// refers to one that it is in, any value is allowed.
func convert(ref *openapi3.SchemaRef, within ...string) schema {
	if ref == nil || ref.Value == nil || len(within) > maxDepth || ref.Ref != "" && slices.Contains(within, ref.Ref) {
		return schema{}
	}
	within = append(slices.Clone(within), ref.Ref)
	s, out := ref.Value, schema{}
	if s.Type != nil && len(*s.Type) > 0 {
		types := slices.Clone([]string(*s.Type))
		if s.Nullable && !slices.Contains(types, "null") {
			types = append(types, "null")
		}
		out["type"] = types[0]
		if len(types) > 1 {
			out["type"] = types
		}
	}
	for name, text := range map[string]string{"description": s.Description, "format": s.Format, "pattern": s.Pattern, "title": s.Title} {
		if text != "" {
			out[name] = text
		}
	}
	bounds(s, out)
	if len(s.Properties) > 0 {
		properties := schema{}
		for name, p := range s.Properties {
			properties[name] = convert(p, within...)
		}
		out["properties"] = properties
	}
	if len(s.Required) > 0 {
		out["required"] = slices.Clone(s.Required)
	}
	if s.Items != nil {
		out["items"] = convert(s.Items, within...)
	}
	for name, list := range map[string]openapi3.SchemaRefs{"oneOf": s.OneOf, "anyOf": s.AnyOf, "allOf": s.AllOf} {
		if len(list) > 0 {
			branches := make([]any, len(list))
			for i, b := range list {
				branches[i] = convert(b, within...)
			}
			out[name] = branches
		}
	}
	return out
}

// bounds copies what limits a value.
func bounds(s *openapi3.Schema, out schema) {
	if len(s.Enum) > 0 {
		out["enum"] = s.Enum
	}
	if s.Default != nil {
		out["default"] = s.Default
	}
	for name, n := range map[string]*float64{"minimum": s.Min, "maximum": s.Max, "multipleOf": s.MultipleOf} {
		if n != nil {
			out[name] = *n
		}
	}
	for name, n := range map[string]uint64{"minLength": s.MinLength, "minItems": s.MinItems} {
		if n > 0 {
			out[name] = n
		}
	}
	for name, n := range map[string]*uint64{"maxLength": s.MaxLength, "maxItems": s.MaxItems} {
		if n != nil {
			out[name] = *n
		}
	}
}
