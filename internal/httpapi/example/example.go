// Package example makes the examples of the API's document out of its schemas.
package example

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// Unknown stands for a text of which no example is known. The document must
// not have one: the name is missing in the list of names, or the field lacks
// an example tag.
const Unknown = "…"

// deepest is how far objects are shown within each other.
const deepest = 12

// Of is an example of a schema: what the schema says itself, or what its
// members are called.
func Of(r huma.Registry, s *huma.Schema) any { return maker{r}.of(s, "", "", 0) }

// Named is an example of a parameter; nil where none is known.
func Named(name string, s *huma.Schema) any {
	if len(s.Examples) > 0 {
		return s.Examples[0]
	}
	if v, ok := known(name, s); ok && !leftOut(name) {
		return v
	}
	return nil
}

// Line writes a value as one line of JSON that leaves <, > and & readable.
func Line(v any) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}

type maker struct{ registry huma.Registry }

// of makes the example of a member, named owner.name, of a schema's objects.
func (m maker) of(s *huma.Schema, owner, name string, depth int) any {
	if s.Ref != "" {
		owner = s.Ref[strings.LastIndex(s.Ref, "/")+1:]
		s = m.registry.SchemaFromRef(s.Ref)
		if len(s.Properties) > 0 {
			return m.object(s, owner, depth)
		}
	}
	if len(s.Examples) > 0 {
		return s.Examples[0]
	}
	for _, n := range []string{owner + "." + name, name} {
		if v, ok := known(n, s); ok {
			return v
		}
	}
	for _, choice := range [][]*huma.Schema{s.OneOf, s.AnyOf} {
		if len(choice) > 0 {
			return m.of(choice[0], owner, name, depth)
		}
	}
	switch {
	case s.Default != nil:
		return s.Default
	case len(s.Enum) > 0:
		return s.Enum[0]
	case s.Type == huma.TypeObject:
		return m.object(s, owner, depth)
	case s.Type == huma.TypeArray && depth > deepest:
		return []any{}
	case s.Type == huma.TypeArray:
		return []any{m.of(s.Items, owner, strings.TrimSuffix(name, "s"), depth+1)}
	}
	return scalar(s)
}

func (m maker) object(s *huma.Schema, owner string, depth int) any {
	members := object{}
	if depth > deepest {
		return members
	}
	for name, p := range s.Properties {
		if slices.Contains(s.Required, name) || !leftOut(name) {
			members[name] = m.of(p, owner, name, depth+1)
		}
	}
	if values, ok := s.AdditionalProperties.(*huma.Schema); ok {
		members["en"] = m.of(values, owner, "description", depth+1)
	}
	return members
}

func scalar(s *huma.Schema) any {
	switch s.Type {
	case huma.TypeString:
		switch s.Format {
		case "date-time":
			return "2026-03-04T05:06:07Z"
		case "uri":
			return "https://app.example.com/back"
		}
		return Unknown
	case huma.TypeInteger, huma.TypeNumber:
		if s.Minimum != nil && *s.Minimum > 0 {
			return *s.Minimum
		}
		return 0
	case huma.TypeBoolean:
		return true
	}
	return object{} // any JSON
}

// known looks a name up; a value of another type than the schema's, or one that
// it does not list, is not meant.
func known(name string, s *huma.Schema) (any, bool) {
	for _, v := range named(name) {
		if fits(v, s) {
			return v, true
		}
	}
	return nil, false
}

func fits(v any, s *huma.Schema) bool {
	if len(s.Enum) > 0 && !slices.Contains(s.Enum, v) {
		return false
	}
	switch v.(type) {
	case string:
		return s.Type == huma.TypeString
	case int:
		return s.Type == huma.TypeInteger || s.Type == huma.TypeNumber
	}
	return s.Type == "" && len(s.OneOf) == 0 && len(s.AnyOf) == 0 || s.Type == huma.TypeObject && len(s.Properties) == 0 && s.AdditionalProperties != false
}
