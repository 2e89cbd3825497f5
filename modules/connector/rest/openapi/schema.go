package openapi

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/portico-run/portico/internal/schema/shared"
)

// schema is a JSON Schema that is being made.
type schema = map[string]any

// maxDepth bounds how deep schemas are nested; what is deeper is any value.
const maxDepth = 20

// maxInline is how many schemas a file has, within each other and beside, before
// those that the document names stand in it once.
const maxInline = 2000

// errManySchemas says that a file would have more than maxInline schemas.
var errManySchemas = errors.New("the document has many schemas")

// convert writes a schema, with what it refers to in its place or as a reference
// to what is shared. Where a schema refers to one that it is in, any value is
// allowed.
func (c *converter) convert(ref *openapi3.SchemaRef, within ...string) schema {
	if ref == nil || ref.Value == nil || len(within) > maxDepth || ref.Ref != "" && slices.Contains(within, ref.Ref) {
		return schema{}
	}
	if c.written++; c.full() {
		return schema{}
	}
	if c.shares != nil && ref.Ref != "" {
		return schema{"$ref": shared.To(c.share(ref))}
	}
	return c.content(ref.Value, append(slices.Clone(within), ref.Ref))
}

// full reports whether there are more schemas than a file has without sharing
// them.
func (c *converter) full() bool { return c.shares == nil && c.written > c.inline }

// shares are the schemas of a document that a file has once.
type shares struct {
	schemas map[string]schema
	// bases are the names by reference, names those by reference and schema: what
	// stands beside a reference makes a schema of its own.
	bases map[string]string
	names map[named]string
	used  map[string]int
}

func newShares() *shares {
	return &shares{schemas: map[string]schema{}, bases: map[string]string{}, names: map[named]string{}, used: map[string]int{}}
}

// named is a schema and the reference to it.
type named struct {
	ref   string
	value *openapi3.Schema
}

var plainName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}$`)

// share keeps what a reference refers to, and returns its name.
func (c *converter) share(ref *openapi3.SchemaRef) string {
	s, key := c.shares, named{ref.Ref, ref.Value}
	if name, ok := s.names[key]; ok {
		return name
	}
	base, again := s.bases[ref.Ref]
	if !again {
		base = s.free(ref.Ref)
		s.bases[ref.Ref] = base
	}
	name := base
	if s.used[base]++; s.used[base] > 1 {
		name = fmt.Sprintf("%s!%d", base, s.used[base])
	}
	s.names[key] = name
	s.schemas[name] = c.content(ref.Value, nil)
	return name
}

// free is a name that no other reference has.
func (s *shares) free(ref string) string {
	base := ref[strings.LastIndex(ref, "/")+1:]
	if !plainName.MatchString(base) {
		base = "schema"
	}
	name := base
	for n := 2; s.used[name] > 0; n++ {
		name = fmt.Sprintf("%s_%d", base, n)
	}
	return name
}

// content writes what a schema says. within are the references that it is in,
// itself among them.
func (c *converter) content(s *openapi3.Schema, within []string) schema {
	out := schema{}
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
			properties[name] = c.convert(p, within...)
		}
		out["properties"] = properties
	}
	if len(s.Required) > 0 {
		out["required"] = slices.Clone(s.Required)
	}
	if s.Items != nil {
		out["items"] = c.convert(s.Items, within...)
	}
	for name, list := range map[string]openapi3.SchemaRefs{"oneOf": s.OneOf, "anyOf": s.AnyOf, "allOf": s.AllOf} {
		if len(list) > 0 {
			branches := make([]any, len(list))
			for i, b := range list {
				branches[i] = c.convert(b, within...)
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
