package schema

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Type is a Python type expression in parts, so that types can be united and
// a default can be checked against them. The zero value is a type without
// values yet.
type Type struct {
	Any      bool     // any value, null included
	Null     bool     // None is one of the values
	Literals []string // rendered members of a Literal
	Names    []string // str, List[int], …
}

func anyType() Type               { return Type{Any: true, Null: true} }
func namedType(names string) Type { return Type{Names: []string{names}} }

// Union adds the values of other.
func (t *Type) Union(other Type) {
	t.Any = t.Any || other.Any
	t.Null = t.Null || other.Null
	for _, l := range other.Literals {
		if !slices.Contains(t.Literals, l) {
			t.Literals = append(t.Literals, l)
		}
	}
	for _, n := range other.Names {
		if !slices.Contains(t.Names, n) {
			t.Names = append(t.Names, n)
		}
	}
}

func (t Type) empty() bool {
	return !t.Any && !t.Null && len(t.Literals) == 0 && len(t.Names) == 0
}

// String is the annotation, with Optional when null is a value.
func (t Type) String() string {
	if t.Any || t.empty() {
		return "Any"
	}
	parts := slices.Clone(t.Names)
	if len(t.Literals) > 0 {
		parts = append([]string{"Literal[" + strings.Join(t.Literals, ", ") + "]"}, parts...)
	}
	var s string
	switch len(parts) {
	case 0:
		return "None"
	case 1:
		s = parts[0]
	default:
		s = "Union[" + strings.Join(parts, ", ") + "]"
	}
	if t.Null {
		return "Optional[" + s + "]"
	}
	return s
}

// Accepts reports whether a scalar that Python writes as literal, and that is
// of the named Python type, is a value of t.
func (t Type) Accepts(literal, name string) bool {
	switch {
	case t.Any, slices.Contains(t.Literals, literal), slices.Contains(t.Names, name):
		return true
	case name == "int":
		return slices.Contains(t.Names, "float")
	case name == "None":
		return t.Null
	}
	return false
}

// TypeOf translates a schema.
func TypeOf(s *Schema) Type { return typeOf(s, 0) }

// typeOf translates a schema node. Depth bounds recursion, which also ends
// cycles of references.
func typeOf(s *Schema, depth int) Type {
	if s = s.Resolve(); s == nil || s.always != nil || depth > maxDepth {
		return anyType()
	}
	t, known := literalType(s)
	if !known {
		t, known = declaredType(s, depth)
	}
	if !known {
		t, known = combinedType(s, depth)
	}
	if !known {
		t, known = impliedType(s, depth)
	}
	if !known {
		return anyType()
	}
	if s.flag("nullable") {
		t.Null = true
	}
	return t
}

// literalType handles const and enum. A member that cannot be in a Literal (a
// float, a list, an object) is described by its type.
func literalType(s *Schema) (Type, bool) {
	var values []json.RawMessage
	if raw, ok := s.keywords["const"]; ok {
		values = []json.RawMessage{raw}
	} else if json.Unmarshal(s.keywords["enum"], &values) != nil || len(values) == 0 {
		return Type{}, false
	}
	var t Type
	for _, raw := range values {
		literal, name := Literal(raw)
		switch {
		case name == "None":
			t.Null = true
		case literal == "" || name == "float":
			t.Union(namedType(name))
		default:
			t.Union(Type{Literals: []string{literal}})
		}
	}
	return t, true
}

// declaredType handles the type keyword, a name or a list of names.
func declaredType(s *Schema, depth int) (Type, bool) {
	var t Type
	for _, name := range s.Types() {
		switch name {
		case "string":
			t.Union(namedType("str"))
		case "integer":
			t.Union(namedType("int"))
		case "number":
			t.Union(namedType("float"))
		case "boolean":
			t.Union(namedType("bool"))
		case "null":
			t.Null = true
		case "array":
			t.Union(arrayType(s, depth))
		case "object":
			t.Union(objectType(s, depth))
		default:
			return anyType(), true
		}
	}
	return t, !t.empty()
}

func arrayType(s *Schema, depth int) Type {
	items := s.Node("items")
	if items == nil || s.keywords["prefixItems"] != nil {
		return namedType("List[Any]")
	}
	return namedType("List[" + typeOf(items, depth+1).String() + "]")
}

// objectType is Dict[str, T] for a plain map and Dict[str, Any] for an object
// with named members: those are listed in the documentation.
func objectType(s *Schema, depth int) Type {
	values := s.Node("additionalProperties")
	if values == nil || values.always != nil || s.keywords["properties"] != nil || s.keywords["patternProperties"] != nil {
		return namedType("Dict[str, Any]")
	}
	return namedType("Dict[str, " + typeOf(values, depth+1).String() + "]")
}

// combinedType handles anyOf and oneOf as a union, and allOf as its first part
// that says anything.
func combinedType(s *Schema, depth int) (Type, bool) {
	for _, keyword := range []string{"anyOf", "oneOf"} {
		variants := s.List(keyword)
		if len(variants) == 0 {
			continue
		}
		var t Type
		for _, v := range variants {
			t.Union(typeOf(v, depth+1))
		}
		return t, true
	}
	for _, part := range s.List("allOf") {
		if t := typeOf(part, depth+1); !t.Any {
			return t, true
		}
	}
	return Type{}, false
}

// impliedType reads the type off keywords that only make sense for one.
func impliedType(s *Schema, depth int) (Type, bool) {
	has := func(keywords ...string) bool {
		return slices.ContainsFunc(keywords, func(k string) bool { _, ok := s.keywords[k]; return ok })
	}
	switch {
	case has("properties", "additionalProperties", "patternProperties"):
		return objectType(s, depth), true
	case has("items", "prefixItems"):
		return arrayType(s, depth), true
	}
	return Type{}, false
}

// Literal renders a JSON value as a Python literal and names its type. Values
// that have no short, immutable literal have only the type.
func Literal(raw json.RawMessage) (literal, name string) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return "", "Any"
	}
	switch raw[0] {
	case '"':
		var s string
		if json.Unmarshal(raw, &s) != nil {
			return "", "Any"
		}
		return Quote(s), "str"
	case 't':
		return "True", "bool"
	case 'f':
		return "False", "bool"
	case 'n':
		return "None", "None"
	case '[':
		return "", "List[Any]"
	case '{':
		return "", "Dict[str, Any]"
	}
	return number(string(raw))
}

// maxDigits bounds an integer literal: Python refuses to read very long ones.
const maxDigits = 64

// number renders a JSON number. One without a fraction is an int however it is
// written; one that is too long or beyond a float has no literal.
func number(text string) (literal, name string) {
	if !strings.ContainsAny(text, ".eE") {
		if len(text) > maxDigits {
			return "", "int"
		}
		if text == "-0" {
			text = "0"
		}
		return text, "int"
	}
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil || math.IsInf(f, 0):
		return "", "float"
	case f == math.Trunc(f) && math.Abs(f) < 1<<53:
		return strconv.FormatInt(int64(f), 10), "int"
	}
	return strconv.FormatFloat(f, 'g', -1, 64), "float"
}
