package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/portico-run/portico/internal/schema/jsonschema"
	"github.com/portico-run/portico/internal/schema/shared"
)

// checked are the methods that can be loaded: their schemas are valid, and of a
// size that a server takes.
func (c *converter) checked(methods []method) ([]method, error) {
	k := checker{converter: c, schemas: shared.Schemas{}, compiled: map[string]error{}}
	if c.shares != nil {
		for _, name := range slices.Sorted(maps.Keys(c.shares.schemas)) {
			text, err := k.compile(c.shares.schemas[name])
			if err != nil {
				c.current = "schema " + name
				c.lose("a schema", "%s: any value is allowed in its place", err)
				c.shares.schemas[name], text = schema{}, []byte("{}")
			}
			k.schemas[name] = text
		}
	}
	k.writer = shared.NewWriter(k.schemas)
	var out []method
	for _, m := range methods {
		c.current = m.Method + " " + m.Endpoint
		var err error
		if m.Request, err = k.fitting(m.Request); err != nil {
			c.lose("", "the schema of its arguments: %s", err)
			continue
		}
		if m.Response, err = k.fitting(m.Response); err != nil {
			c.lose("the type of its result", "%s", err)
			m.Response = nil
		}
		if c.shares == nil && k.size > c.room {
			return nil, errManySchemas
		}
		out = append(out, m)
	}
	if k.outlines > 0 {
		c.note("%d schemas of arguments and results are told in their outermost parts only: whole, each has more than %d bytes", k.outlines, shared.MaxSize)
	}
	return out, nil
}

type checker struct {
	*converter

	schemas  shared.Schemas
	writer   *shared.Writer
	compiled map[string]error
	size     int // of what was checked, in bytes
	// outlines counts the schemas that are told in part.
	outlines int
}

// compile writes a schema as JSON, which is valid without what it refers to.
func (k *checker) compile(s schema) ([]byte, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	k.size += len(text)
	alone := text
	if bytes.Contains(text, []byte(shared.Prefix)) {
		if alone, _, err = shared.References(text); err != nil {
			return nil, err
		}
	}
	if before, known := k.compiled[string(alone)]; known {
		return text, before
	}
	_, err = jsonschema.Compile(alone)
	if err != nil {
		err = errors.New(strings.ReplaceAll(err.Error(), "\n", " "))
	}
	k.compiled[string(alone)] = err
	return text, err
}

// fitting is a schema that can be loaded. Of one that would be too large with
// the schemas in it, only the outermost are told: below them any value is
// allowed.
func (k *checker) fitting(s schema) (schema, error) {
	if s == nil {
		return nil, nil //nolint:nilnil // nothing is known of a result
	}
	text, err := k.compile(s)
	if err != nil {
		return nil, err
	}
	if _, err = k.writer.Write(text); !errors.Is(err, shared.ErrTooLarge) || k.shares == nil {
		return s, err
	}
	k.outlines++
	if ref, ok := s["$ref"].(string); ok && len(s) == 1 { // many methods return it
		name := k.shares.name("outline/"+strings.TrimPrefix(ref, shared.Prefix), nil, func() schema { return k.outlined(s) })
		if k.schemas[name] == nil {
			if k.schemas[name], err = k.compile(k.shares.schemas[name]); err != nil {
				return nil, err
			}
		}
		return schema{"$ref": shared.To(name)}, nil
	}
	s = k.outlined(s)
	if text, err = k.compile(s); err == nil {
		_, err = k.writer.Write(text)
	}
	return s, err
}

// maxOutline is how large an outline may be before it tells less, in bytes.
const maxOutline = 8 << 10

func (k *checker) outlined(s schema) schema {
	for depth := 3; ; depth-- {
		out := k.outline(s, depth)
		if text, err := json.Marshal(out); depth == 1 || err == nil && len(text) <= maxOutline {
			return out
		}
	}
}

// outline is a schema with the schemas that it refers to in their place, at most
// depth within each other.
func (k *checker) outline(s schema, depth int) schema {
	if ref, ok := s["$ref"].(string); ok {
		merged := maps.Clone(k.target(ref))
		if depth == 0 || merged == nil {
			if kind, has := merged["type"]; has {
				return schema{"type": kind}
			}
			return schema{}
		}
		for name, v := range s {
			if name != "$ref" {
				merged[name] = v
			}
		}
		return k.outline(merged, depth-1)
	}
	out := schema{}
	for name, v := range s {
		switch {
		case name == "properties" || name == "patternProperties":
			inner := schema{}
			all, _ := v.(schema)
			for p, of := range all {
				if short, isShort := of.(string); isShort { // the property of that name
					of = schema{"$ref": shared.ToProperty(strings.TrimPrefix(short, shared.Prefix), p)}
				}
				inner[p] = k.within(of, depth)
			}
			out[name] = inner
		case name == "default" || name == "const" || name == "enum":
			out[name] = v
		default:
			out[name] = k.within(v, depth)
		}
	}
	return out
}

// within is the outline of what is a schema, or of a list of them.
func (k *checker) within(v any, depth int) any {
	switch v := v.(type) {
	case schema:
		return k.outline(v, depth)
	case []any:
		out := make([]any, len(v))
		for i, one := range v {
			out[i] = k.within(one, depth)
		}
		return out
	}
	return v
}

// target is the shared schema, or the property of one, that a reference is to.
func (k *checker) target(ref string) schema {
	name, property, isProperty := strings.Cut(strings.TrimPrefix(ref, shared.Prefix), "/properties/")
	s := k.shares.schemas[name]
	if !isProperty {
		return s
	}
	properties, _ := s["properties"].(schema)
	of, _ := properties[strings.ReplaceAll(strings.ReplaceAll(property, "~1", "/"), "~0", "~")].(schema)
	return of
}
