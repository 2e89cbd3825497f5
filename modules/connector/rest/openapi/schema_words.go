package openapi

import (
	"fmt"
	"math"
	"regexp"
	"slices"
)

// kinds writes which types a value may have.
func (c *converter) kinds(n node, out schema) {
	types := typesOf(n)
	if slices.Contains(types, "file") {
		types = []string{"string"}
		out["format"] = "binary"
	}
	types = slices.DeleteFunc(types, func(t string) bool {
		known := slices.Contains([]string{"string", "number", "integer", "boolean", "array", "object", "null"}, t)
		if !known {
			c.lose("a schema", "%q is no type: any value is allowed", t)
		}
		return !known
	})
	if len(types) > 0 && nullable(n) && !slices.Contains(types, "null") {
		types = append(types, "null")
	}
	switch len(types) {
	case 0:
	case 1:
		out["type"] = types[0]
	default:
		out["type"] = types
	}
}

// typesOf are the types that a schema names.
func typesOf(n node) []string {
	switch t := n.value["type"].(type) {
	case string:
		return []string{t}
	case []any:
		var out []string
		for _, one := range t {
			if s, ok := one.(string); ok && !slices.Contains(out, s) {
				out = append(out, s)
			}
		}
		return out
	}
	return nil
}

// words copies what describes a value and what it is one of.
func (c *converter) words(n node, out schema) {
	for _, name := range []string{"description", "format", "title", "contentEncoding", "contentMediaType"} {
		if text := n.text(name); text != "" {
			out[name] = text
		}
	}
	if p := n.text("pattern"); p != "" && c.pattern(p) {
		out["pattern"] = p
	}
	types := typesOf(n)
	if values := n.list("enum"); len(values) > 0 {
		if nullable(n) && !slices.Contains(values, nil) {
			values = append(slices.Clone(values), nil)
		}
		out["enum"] = asTexts(types, values)
	}
	if v, ok := n.value["const"]; ok {
		out["const"] = v
	}
	if v, ok := n.value["default"]; ok && v != nil {
		v = asTexts(types, []any{v})[0]
		enum, isEnum := out["enum"].([]any)
		if fits(types, v) && (!isEnum || slices.ContainsFunc(enum, func(e any) bool { return same(e, v) })) {
			out["default"] = v
		} else {
			c.lose("a default", "%v is not a value that its schema allows", v)
		}
	}
}

// asTexts writes numbers and booleans as text where only text fits: YAML reads
// them so where they have no quotes.
func asTexts(types []string, values []any) []any {
	if !slices.Contains(types, "string") || slices.ContainsFunc(types, func(t string) bool { return t != "string" && t != "null" }) {
		return values
	}
	out := slices.Clone(values)
	for i, v := range out {
		switch v.(type) {
		case int64, uint64, float64, bool:
			out[i] = fmt.Sprint(v)
		}
	}
	return out
}

// same compares two values of a document.
func same(a, b any) bool { return fmt.Sprintf("%T %v", a, a) == fmt.Sprintf("%T %v", b, b) }

// fits reports whether a value is of one of the types; of any where there are
// none.
func fits(types []string, v any) bool {
	return len(types) == 0 || slices.ContainsFunc(types, func(t string) bool {
		switch v := v.(type) {
		case string:
			return t == "string" || t == "file"
		case bool:
			return t == "boolean"
		case int64, uint64:
			return t == "integer" || t == "number"
		case float64:
			return t == "number" || t == "integer" && v == math.Trunc(v)
		case []any:
			return t == "array"
		case map[string]any:
			return t == "object"
		}
		return false
	})
}

// pattern reports whether a regular expression can be checked.
func (c *converter) pattern(p string) bool {
	if _, err := regexp.Compile(p); err != nil {
		c.lose("a pattern", "%s is not checked: it is written for another engine", p)
		return false
	}
	return true
}

// bounds copies what limits a value.
func (c *converter) bounds(n node, out schema) {
	for _, name := range []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"} {
		if v, ok := numberOf(n.value[name]); ok && (name != "multipleOf" || v > 0) {
			out[name] = n.value[name]
		}
	}
	// Up to OpenAPI 3.0 a bound is made exclusive by a boolean.
	for word, bound := range map[string]string{"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"} {
		if v, ok := out[bound]; ok && n.is(word) {
			out[word] = v
			delete(out, bound)
		}
	}
	for _, name := range []string{"minLength", "minItems", "minProperties", "maxLength", "maxItems", "maxProperties", "minContains", "maxContains"} {
		v, ok := numberOf(n.value[name])
		if ok && v >= 0 && v == math.Trunc(v) && (v > 0 || name[:3] == "max") {
			out[name] = n.value[name]
		}
	}
	if n.is("uniqueItems") {
		out["uniqueItems"] = true
	}
}

func numberOf(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case uint64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}
