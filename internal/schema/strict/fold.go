package strict

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/portico-run/portico/internal/schema/jsontree"
)

// flatten merges allOf into what stands beside it. The result may be changed.
func (c *converter) flatten(node *jsontree.Object, path string, depth int) (*jsontree.Object, error) {
	parts := node.List("allOf")
	out := clone(node)
	out.Delete("allOf")
	if err := c.step(path, depth); err != nil {
		return nil, err
	}
	for _, p := range parts {
		part, ok := p.(*jsontree.Object)
		if !ok {
			return nil, c.misfit(path, "has an allOf that takes anything")
		}
		if ref := part.String("$ref"); ref != "" {
			target, _, err := c.lookup(ref, path)
			if err != nil {
				return nil, err
			}
			part = target
		}
		part, err := c.flatten(part, path, depth+1)
		if err != nil {
			return nil, err
		}
		if err := c.merge(out, part, path); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// merge adds a schema to another that must hold as well.
func (c *converter) merge(into, from *jsontree.Object, path string) error {
	for _, name := range from.Names() {
		switch {
		case name == "properties" && into.Object(name) != nil && from.Object(name) != nil:
			merged := clone(into.Object(name))
			for _, p := range from.Object(name).Names() {
				if !merged.Has(p) {
					merged.Set(p, from.Object(name).Get(p))
				}
			}
			into.Set(name, merged)
		case name == "required" && into.Has(name):
			into.Set(name, slices.Concat(into.List(name), from.List(name)))
		case !into.Has(name):
			into.Set(name, from.Get(name))
		case name == "type" && !same(into.Get(name), from.Get(name)):
			return c.misfit(path, "has an allOf of different types")
		case name == "enum" || name == "anyOf" || name == "oneOf":
			return c.misfit(path, "has an allOf with several lists")
		default:
			c.relax(path, "allOf "+name)
		}
	}
	return nil
}

// reference converts a reference. What stands beside it is dropped: the
// provider refuses it.
func (c *converter) reference(ref, path string, depth int) (*jsontree.Object, *shape, error) {
	target, name, err := c.lookup(ref, path)
	if err != nil {
		return nil, nil, err
	}
	out := jsontree.NewObject()
	if ref == "#" {
		out.Set("$ref", "#")
		return out, &shape{ref: "#"}, nil
	}
	if name == "" { // it points into the schema, and is written out there
		return c.convert(target, path, depth+1)
	}
	out.Set("$ref", "#/$defs/"+name)
	if _, known := c.shapes[name]; !known {
		c.shapes[name] = &shape{} // a definition may use itself
		c.defs.Set(name, nil)
		converted, shapeOf, err := c.convert(target, path, depth+1)
		if err != nil {
			return nil, nil, err
		}
		for at := shapeOf; at != nil && at.ref != ""; at = c.shapes[at.ref] {
			if at.ref == name {
				return nil, nil, c.misfit(path, "refers to itself")
			}
		}
		c.defs.Set(name, converted)
		*c.shapes[name] = *shapeOf
	}
	return out, &shape{ref: name}, nil
}

// lookup finds what a reference means, and the name of the definition it is.
func (c *converter) lookup(ref, path string) (target *jsontree.Object, name string, err error) {
	if !strings.HasPrefix(ref, "#") {
		return nil, "", c.misfit(path, "refers to another document")
	}
	target, ok := c.root.Pointer(ref).(*jsontree.Object)
	if !ok {
		return nil, "", c.misfit(path, "refers to nothing")
	}
	steps := strings.Split(strings.TrimPrefix(ref, "#/"), "/")
	if len(steps) == 2 && (steps[0] == "$defs" || steps[0] == "definitions") {
		name = steps[1]
	}
	return target, name, nil
}

// nullable lets null stand for a property that is left out.
func nullable(node *jsontree.Object) *jsontree.Object {
	null := jsontree.NewObject()
	null.Set("type", "null")
	switch {
	case node.Has("$ref"):
		out := jsontree.NewObject()
		out.Set("anyOf", []any{node, null})
		return out
	case node.Has("anyOf"):
		for _, b := range node.List("anyOf") {
			if slices.Contains(typesOf(b.(*jsontree.Object)), "null") { //nolint:forcetypeassert // we made them
				return node
			}
		}
		node.Set("anyOf", append(slices.Clone(node.List("anyOf")), null))
	default:
		kinds := typesOf(node)
		if slices.Contains(kinds, "null") {
			return node
		}
		list := make([]any, 0, len(kinds)+1)
		for _, k := range kinds {
			list = append(list, k)
		}
		node.Set("type", append(list, "null"))
		if values := node.List("enum"); values != nil {
			node.Set("enum", append(slices.Clone(values), nil))
		}
	}
	return node
}

// typesOf are the types a schema names, or implies.
func typesOf(node *jsontree.Object) []string {
	switch t := node.Get("type").(type) {
	case string:
		return []string{t}
	case []any:
		var kinds []string
		for _, v := range t {
			if k, ok := v.(string); ok && !slices.Contains(kinds, k) {
				kinds = append(kinds, k)
			}
		}
		return kinds
	}
	switch {
	case node.Has("properties"):
		return []string{"object"}
	case node.Has("items"):
		return []string{"array"}
	case node.Has("pattern"), node.Has("minLength"), node.Has("maxLength"), node.Has("format"):
		return []string{"string"}
	}
	return nil
}

func kindOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return "number"
		}
		return "integer"
	case []any:
		return "array"
	}
	return "object"
}

// onlyConstraints reports whether alternatives say only which properties are
// required together, or nothing at all.
func onlyConstraints(list []any) bool {
	return len(list) > 0 &&
		jsontree.None(list, "type", "properties", "$ref", "enum", "const", "items", "anyOf", "oneOf", "allOf", "pattern", "format")
}

func same(a, b any) bool {
	x, _ := jsontree.Encode(a) // both came from JSON
	y, _ := jsontree.Encode(b)
	return string(x) == string(y)
}

// clone copies an object, not its members.
func clone(o *jsontree.Object) *jsontree.Object {
	out := jsontree.NewObject()
	for _, name := range o.Names() {
		out.Set(name, o.Get(name))
	}
	return out
}
