package openapi

import (
	"errors"
	"maps"
	"slices"
	"strings"
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

// schemaOf is the schema that a boolean is.
func schemaOf(always bool) schema {
	if always {
		return schema{}
	}
	return schema{"not": schema{}}
}

// any is a value of a document as a schema.
func (c *converter) schema(in node, v any, within ...string) schema {
	if always, ok := v.(bool); ok {
		return schemaOf(always)
	}
	return c.convert(in.of(v), within...)
}

// convert writes a schema, with what it refers to in its place or as a reference
// to what is shared. Where a schema refers to one that it is in, any value is
// allowed.
func (c *converter) convert(n node, within ...string) schema {
	if len(n.value) == 0 || len(within) > maxDepth {
		return schema{}
	}
	target, ref, err := c.docs.follow(n)
	if err != nil {
		c.lose("a schema", "%s: any value is allowed in its place", err)
		return schema{}
	}
	if ref != "" && slices.Contains(within, ref) {
		return schema{}
	}
	if c.written++; c.full() {
		return schema{}
	}
	beside := besideOf(n, ref)
	if c.shares != nil && ref != "" {
		return schema{"$ref": c.share(ref, target, beside)}
	}
	return c.content(merged(target, beside), append(slices.Clone(within), ref))
}

// besideOf are the members beside a reference that count: plain words, which
// mean the same in every document.
func besideOf(n node, ref string) map[string]any {
	if ref == "" {
		return nil
	}
	out := map[string]any{}
	for _, name := range []string{"description", "title", "default", "nullable", "x-nullable", "enum", "format", "minimum", "maximum", "minLength", "maxLength", "pattern"} {
		if v, ok := n.value[name]; ok {
			out[name] = v
		}
	}
	return out
}

// merged is a schema with other members in place of its own.
func merged(n node, beside map[string]any) node {
	if len(beside) == 0 {
		return n
	}
	value := maps.Clone(n.value)
	maps.Copy(value, beside)
	return node{n.in, value}
}

// full reports whether there are more schemas than a file has without sharing
// them.
func (c *converter) full() bool { return c.shares == nil && c.written > c.inline }

// content writes what a schema says. within are the references that it is in,
// itself among them.
func (c *converter) content(n node, within []string) schema {
	out := schema{}
	c.kinds(n, out)
	c.words(n, out)
	c.bounds(n, out)
	if properties := n.object("properties"); len(properties.value) > 0 {
		made := schema{}
		for name, p := range properties.value {
			made[name] = c.schema(n, p, within...)
		}
		out["properties"] = made
	}
	if required := c.required(n); len(required) > 0 {
		out["required"] = required
	}
	c.parts(n, out, within)
	c.branches(n, out, within)
	return c.orNull(n, out)
}

// parts writes the schemas within a schema, besides its properties and branches.
func (c *converter) parts(n node, out schema, within []string) {
	switch items := n.value["items"].(type) {
	case []any: // as older drafts have it
		out["prefixItems"] = c.list(n, items, within)
	case map[string]any, bool:
		out["items"] = c.schema(n, items, within...)
	}
	if list := n.list("prefixItems"); len(list) > 0 {
		out["prefixItems"] = c.list(n, list, within)
	}
	for _, name := range []string{"not", "contains", "propertyNames", "if", "then", "else"} {
		switch v := n.value[name].(type) {
		case map[string]any, bool:
			out[name] = c.schema(n, v, within...)
		}
	}
	// A closed object stays open here: the upstream itself refuses what it does
	// not know, and allOf with closed parts would refuse everything.
	if more := n.object("additionalProperties"); len(more.value) > 0 {
		out["additionalProperties"] = c.convert(more, within...)
	}
	if patterns := n.object("patternProperties"); len(patterns.value) > 0 {
		made := schema{}
		for pattern, p := range patterns.value {
			if c.pattern(pattern) {
				made[pattern] = c.schema(n, p, within...)
			}
		}
		out["patternProperties"] = made
	}
}

func (c *converter) list(n node, list []any, within []string) []any {
	out := make([]any, len(list))
	for i, one := range list {
		out[i] = c.schema(n, one, within...)
	}
	return out
}

// branches writes what combines schemas. Where a discriminator says which of
// them counts, several may fit: each then says what the discriminator must be.
func (c *converter) branches(n node, out schema, within []string) {
	for _, name := range []string{"allOf", "anyOf", "oneOf"} {
		list := n.list(name)
		if len(list) == 0 {
			continue
		}
		made := c.list(n, list, within)
		if property, values := c.discriminator(n, list); name != "allOf" && property != "" {
			name = "anyOf"
			for i := range made {
				if len(values[i]) > 0 {
					says := schema{"type": "object", "properties": schema{property: schema{"enum": values[i]}}, "required": []string{property}}
					made[i] = schema{"allOf": []any{made[i], says}}
				}
			}
		}
		out[name] = made
	}
}

// discriminator is the property that says which branch a value is, and the
// values that each branch has there.
func (c *converter) discriminator(n node, branches []any) (property string, values [][]any) {
	d := n.object("discriminator")
	property = d.text("propertyName")
	if property == "" {
		return "", nil
	}
	values = make([][]any, len(branches))
	mapping := d.object("mapping").value
	for i, b := range branches {
		ref, _ := n.of(b).value["$ref"].(string)
		if ref == "" {
			continue
		}
		short := ref[strings.LastIndex(ref, "/")+1:]
		for _, name := range slices.Sorted(maps.Keys(mapping)) {
			if to, _ := mapping[name].(string); to == ref || to == short {
				values[i] = append(values[i], name)
			}
		}
		if len(values[i]) == 0 {
			values[i] = []any{short}
		}
	}
	return property, values
}

// required are the properties that must be there in requests and in responses:
// one that only the server writes, or only the caller, is not.
func (c *converter) required(n node) []string {
	var out []string
	properties := n.object("properties")
	for _, v := range n.list("required") {
		name, ok := v.(string)
		if !ok || slices.Contains(out, name) {
			continue
		}
		if p := properties.object(name); c.only(p, "readOnly") || c.only(p, "writeOnly") {
			continue
		}
		out = append(out, name)
	}
	return out
}

// only reports whether a schema says that a property is for one direction.
func (c *converter) only(p node, word string) bool {
	if p.is(word) {
		return true
	}
	if !p.has("$ref") {
		return false
	}
	target, _, err := c.docs.follow(p)
	return err == nil && target.is(word)
}

// orNull allows null where the document does so in its own way.
func (c *converter) orNull(n node, out schema) schema {
	if !nullable(n) || out["type"] != nil {
		return out
	}
	null := schema{"type": "null"}
	for _, name := range []string{"anyOf", "oneOf"} {
		if list, ok := out[name].([]any); ok && out["allOf"] == nil {
			out[name] = append(list, null)
			return out
		}
	}
	if out["allOf"] == nil {
		return out
	}
	whole := schema{"anyOf": []any{out, null}}
	for _, name := range []string{"description", "title"} {
		if text, ok := out[name]; ok {
			whole[name] = text
			delete(out, name)
		}
	}
	return whole
}

func nullable(n node) bool { return n.is("nullable") || n.is("x-nullable") }
