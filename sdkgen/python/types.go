package python

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
)

// pyType is a Python type expression in parts, so that types can be united and
// a default can be checked against them. The zero value is a type without
// values yet.
type pyType struct {
	any      bool     // any value, null included
	null     bool     // None is one of the values
	literals []string // rendered members of a Literal
	names    []string // str, List[int], …
}

func anyType() pyType               { return pyType{any: true, null: true} }
func namedType(names string) pyType { return pyType{names: []string{names}} }

// union adds the values of other.
func (t *pyType) union(other pyType) {
	t.any = t.any || other.any
	t.null = t.null || other.null
	for _, l := range other.literals {
		if !slices.Contains(t.literals, l) {
			t.literals = append(t.literals, l)
		}
	}
	for _, n := range other.names {
		if !slices.Contains(t.names, n) {
			t.names = append(t.names, n)
		}
	}
}

func (t pyType) empty() bool {
	return !t.any && !t.null && len(t.literals) == 0 && len(t.names) == 0
}

// String is the annotation, with Optional when null is a value.
func (t pyType) String() string {
	if t.any || t.empty() {
		return "Any"
	}
	parts := slices.Clone(t.names)
	if len(t.literals) > 0 {
		parts = append([]string{"Literal[" + strings.Join(t.literals, ", ") + "]"}, parts...)
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
	if t.null {
		return "Optional[" + s + "]"
	}
	return s
}

// accepts reports whether a scalar that Python writes as literal, and that is
// of the named Python type, is a value of t.
func (t pyType) accepts(literal, name string) bool {
	switch {
	case t.any, slices.Contains(t.literals, literal), slices.Contains(t.names, name):
		return true
	case name == "int":
		return slices.Contains(t.names, "float")
	case name == "None":
		return t.null
	}
	return false
}

// typeOf translates a schema node. Depth bounds recursion, which also ends
// cycles of references.
func typeOf(s *schema, depth int) pyType {
	if s = s.resolve(); s == nil || s.always != nil || depth > maxDepth {
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
		t.null = true
	}
	return t
}

// literalType handles const and enum. A member that cannot be in a Literal (a
// float, a list, an object) is described by its type.
func literalType(s *schema) (pyType, bool) {
	var values []json.RawMessage
	if raw, ok := s.keywords["const"]; ok {
		values = []json.RawMessage{raw}
	} else if json.Unmarshal(s.keywords["enum"], &values) != nil || len(values) == 0 {
		return pyType{}, false
	}
	var t pyType
	for _, raw := range values {
		literal, name := scalar(raw)
		switch {
		case name == "None":
			t.null = true
		case literal == "" || name == "float":
			t.union(namedType(name))
		default:
			t.union(pyType{literals: []string{literal}})
		}
	}
	return t, true
}

// declaredType handles the type keyword, a name or a list of names.
func declaredType(s *schema, depth int) (pyType, bool) {
	var t pyType
	for _, name := range s.types() {
		switch name {
		case "string":
			t.union(namedType("str"))
		case "integer":
			t.union(namedType("int"))
		case "number":
			t.union(namedType("float"))
		case "boolean":
			t.union(namedType("bool"))
		case "null":
			t.null = true
		case "array":
			t.union(arrayType(s, depth))
		case "object":
			t.union(objectType(s, depth))
		default:
			return anyType(), true
		}
	}
	return t, !t.empty()
}

func arrayType(s *schema, depth int) pyType {
	items := s.node("items")
	if items == nil || s.keywords["prefixItems"] != nil {
		return namedType("List[Any]")
	}
	return namedType("List[" + typeOf(items, depth+1).String() + "]")
}

// objectType is Dict[str, T] for a plain map and Dict[str, Any] for an object
// with named members: those are listed in the documentation.
func objectType(s *schema, depth int) pyType {
	values := s.node("additionalProperties")
	if values == nil || values.always != nil || s.keywords["properties"] != nil || s.keywords["patternProperties"] != nil {
		return namedType("Dict[str, Any]")
	}
	return namedType("Dict[str, " + typeOf(values, depth+1).String() + "]")
}

// combinedType handles anyOf and oneOf as a union, and allOf as its first part
// that says anything.
func combinedType(s *schema, depth int) (pyType, bool) {
	for _, keyword := range []string{"anyOf", "oneOf"} {
		variants := s.list(keyword)
		if len(variants) == 0 {
			continue
		}
		var t pyType
		for _, v := range variants {
			t.union(typeOf(v, depth+1))
		}
		return t, true
	}
	for _, part := range s.list("allOf") {
		if t := typeOf(part, depth+1); !t.any {
			return t, true
		}
	}
	return pyType{}, false
}

// impliedType reads the type off keywords that only make sense for one.
func impliedType(s *schema, depth int) (pyType, bool) {
	has := func(keywords ...string) bool {
		return slices.ContainsFunc(keywords, func(k string) bool { _, ok := s.keywords[k]; return ok })
	}
	switch {
	case has("properties", "additionalProperties", "patternProperties"):
		return objectType(s, depth), true
	case has("items", "prefixItems"):
		return arrayType(s, depth), true
	}
	return pyType{}, false
}

// scalar renders a JSON value as a Python literal and names its type. Values
// that have no short, immutable literal have only the type.
func scalar(raw json.RawMessage) (literal, name string) {
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
		return quote(s), "str"
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
