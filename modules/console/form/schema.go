package form

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/portico-run/portico/internal/schema/jsonschema"
	"github.com/portico-run/portico/internal/schema/jsontree"
)

// Bounds of a form. Beyond them, a place is written as JSON.
const (
	maxDepth   = 3   // of objects
	maxFields  = 400 // of all
	maxOptions = 500 // of one choice
	maxRefs    = 32
)

// reader makes fields of a schema.
type reader struct {
	document *jsontree.Object // for references
}

// form makes the fields of a whole schema.
func (r reader) form(schema *jsontree.Object) *node {
	root := &node{kind: kindObject, label: "Arguments", required: true}
	if s := r.resolve(schema); s != nil && s.Object("properties") != nil {
		r.object(root, s, nil)
	} else {
		root.rest = true
	}
	count := 0
	root.walk(func(*node) { count++ })
	if count > maxFields {
		root.members, root.rest = nil, true
	}
	return root
}

// resolve follows references, and opens what stands alone in a list of
// alternatives, null aside. It returns nil for what it cannot follow.
func (r reader) resolve(v any) *jsontree.Object {
	for range maxRefs {
		s, ok := v.(*jsontree.Object)
		if !ok {
			return nil
		}
		switch alone := single(s); {
		case s.Has("$ref"):
			v = r.document.Pointer(s.String("$ref"))
		case alone != nil:
			v = alone
		default:
			return s
		}
	}
	return nil
}

// single is the only alternative besides null of a schema that says nothing
// else that concerns its value.
func single(s *jsontree.Object) *jsontree.Object {
	for _, keyword := range []string{"anyOf", "oneOf", "allOf"} {
		if !s.Has(keyword) {
			continue
		}
		var found []*jsontree.Object
		for _, v := range s.List(keyword) {
			if o, ok := v.(*jsontree.Object); ok && o.String("type") != "null" {
				found = append(found, o)
			}
		}
		if len(found) == 1 && !s.Has("type") && !s.Has("properties") && !s.Has("enum") && !s.Has("const") {
			return found[0]
		}
		return nil
	}
	return nil
}

// object fills in the members of a group of fields.
func (r reader) object(n *node, s *jsontree.Object, path []string) {
	properties := s.Object("properties")
	required := s.List("required")
	for _, name := range properties.Names() {
		m := r.node(properties.Get(name), append(slices.Clone(path), name))
		m.required = slices.Contains(required, any(name))
		n.members = append(n.members, m)
	}
	n.rest = open(s, len(n.members))
}

// open reports whether an object is asked for members that it does not name.
// Most schemas allow them without meaning to.
func open(s *jsontree.Object, named int) bool {
	if s.Get("additionalProperties") == false {
		return false
	}
	return named == 0 || s.Has("additionalProperties") ||
		slices.ContainsFunc([]string{"patternProperties", "oneOf", "anyOf", "allOf", "if"}, s.Has)
}

// node makes one field.
func (r reader) node(schema any, path []string) *node {
	n := &node{name: path[len(path)-1], path: jsonschema.Path(path), field: field(path), kind: kindJSON}
	n.label = n.name
	s := r.resolve(schema)
	if s == nil {
		return n
	}
	outer, _ := schema.(*jsontree.Object)
	n.describe(outer)
	if outer != s {
		n.describe(s)
	}
	r.input(n, s, path)
	return n
}

// labelKeyword names the field in forms of the console itself. Fields of tools
// have the names of their arguments.
const labelKeyword = "x-label"

// describe takes over what a schema says to people.
func (n *node) describe(s *jsontree.Object) {
	if label := s.String(labelKeyword); label != "" {
		n.label = label
	}
	if n.description == "" {
		n.description = strings.TrimSpace(s.String("description"))
	}
	if n.nothing == "" && s.Has("default") {
		n.nothing = "default: " + shown(s.Get("default"))
	}
}

// input decides by which input a place is filled.
func (r reader) input(n *node, s *jsontree.Object, path []string) {
	if options := choices(s); options != nil {
		n.kind, n.options = kindChoice, options
		return
	}
	switch kindOf(s) {
	case "string":
		n.text(s)
	case "number", "integer":
		n.kind = kindNumber
		n.limits(s)
	case "boolean":
		n.kind, n.options = kindBoolean, []value{{"true", "yes"}, {"false", "no"}}
	case "array":
		r.list(n, s)
	case "object":
		if s.Object("properties") != nil && s.Object("properties").Len() > 0 && len(path) <= maxDepth {
			n.kind, n.empty = kindObject, true
			r.object(n, s, path)
		}
	}
	if n.kind == kindJSON {
		n.hints = append(n.hints, `JSON, such as "text", 12, ["a", "b"] or {"name": true}`)
	}
}

// kindOf is the type of a value besides null; empty where there are several.
func kindOf(s *jsontree.Object) string {
	for _, keyword := range []string{"oneOf", "anyOf", "allOf", "not", "if"} {
		if s.Has(keyword) && !s.Has("properties") {
			return ""
		}
	}
	switch t := s.Get("type").(type) {
	case string:
		return t
	case []any:
		types := slices.DeleteFunc(slices.Clone(t), func(v any) bool { return v == "null" })
		if len(types) == 1 {
			name, _ := types[0].(string)
			return name
		}
	case nil:
		if s.Object("properties") != nil {
			return "object"
		}
	}
	return ""
}

// choices are the values of an enumeration.
func choices(s *jsontree.Object) []value {
	all := s.List("enum")
	if s.Has("const") {
		all = []any{s.Get("const")}
	}
	if len(all) == 0 || len(all) > maxOptions {
		return nil
	}
	options := make([]value, 0, len(all))
	for _, v := range all {
		text, err := jsontree.Encode(v)
		if err != nil {
			return nil
		}
		options = append(options, value{json: string(text), label: shown(v)})
	}
	return options
}

// text decides by which input a text is typed.
func (n *node) text(s *jsontree.Object) {
	format := s.String("format")
	switch {
	case format == "password" || s.Get("writeOnly") == true:
		n.kind = kindSecret
	case format == "date":
		n.kind = kindDate
	case format != "" || s.Has("pattern"):
		n.kind = kindLine
	case short(s):
		n.kind, n.empty = kindLine, may(s, "minLength")
	default:
		n.kind, n.empty = kindText, may(s, "minLength")
	}
	if example, ok := examples()[format]; ok {
		n.hints = append(n.hints, example)
	} else if format != "" {
		n.hints = append(n.hints, "format: "+format)
	}
	if p := s.String("pattern"); p != "" {
		n.hints = append(n.hints, "matches "+p)
	}
	n.span(s, "minLength", "maxLength", "characters")
}

// short reports whether a text is no longer than a line.
func short(s *jsontree.Object) bool {
	const line = 120
	most, ok := s.Get("maxLength").(json.Number)
	n, err := most.Int64()
	return ok && err == nil && n <= line
}

// may reports whether a place may be empty.
func may(s *jsontree.Object, least string) bool {
	n, ok := s.Get(least).(json.Number)
	return !ok || n == "0"
}

// examples of formats that people do not know by heart.
func examples() map[string]string {
	return map[string]string{
		"date": "a date, such as 2026-11-23", "date-time": "such as 2026-11-23T08:30:00Z", "time": "such as 08:30:00Z",
		"email": "an e-mail address", "uri": "such as https://example.com/page", "password": "",
	}
}

// list decides by which input a list is filled.
func (r reader) list(n *node, s *jsontree.Object) {
	item := r.resolve(s.Get("items"))
	if item == nil || s.Has("prefixItems") {
		return
	}
	if options := choices(item); options != nil {
		n.kind, n.options, n.empty = kindChoices, options, may(s, "minItems")
		n.span(s, "minItems", "maxItems", "values")
		return
	}
	kind := kindOf(item)
	switch kind {
	case "string":
		n.hints = append(n.hints, "one a line")
	case "number", "integer":
		n.numbers = true
		n.hints = append(n.hints, "one number a line")
	default:
		return
	}
	n.kind, n.empty = kindList, may(s, "minItems")
	n.span(s, "minItems", "maxItems", "lines")
}

func (n *node) span(s *jsontree.Object, least, most, of string) {
	low, high := s.Get(least), s.Get(most)
	switch {
	case low != nil && high != nil:
		n.hints = append(n.hints, fmt.Sprintf("%v to %v %s", low, high, of))
	case low == json.Number("1"): // an input that is left empty is left out anyway
	case low != nil:
		n.hints = append(n.hints, fmt.Sprintf("at least %v %s", low, of))
	case high != nil:
		n.hints = append(n.hints, fmt.Sprintf("at most %v %s", high, of))
	}
}

// limits says which numbers may be typed.
func (n *node) limits(s *jsontree.Object) {
	if kindOf(s) == "integer" {
		n.hints = append(n.hints, "a whole number")
	}
	for _, rule := range []struct{ keyword, words string }{
		{"minimum", "at least"}, {"maximum", "at most"}, {"exclusiveMinimum", "more than"}, {"exclusiveMaximum", "less than"}, {"multipleOf", "a multiple of"},
	} {
		if v := s.Get(rule.keyword); v != nil {
			n.hints = append(n.hints, fmt.Sprintf("%s %v", rule.words, v))
		}
	}
}

// shown writes a value for people: a text without its quotes.
func shown(v any) string {
	const longest = 120
	text, ok := v.(string)
	if !ok || text == "" {
		encoded, err := jsontree.Encode(v)
		if err != nil {
			return ""
		}
		text = string(encoded)
	}
	if r := []rune(text); len(r) > longest {
		return string(r[:longest]) + "…"
	}
	return text
}

// field writes a path for the name of an input.
func field(path []string) string {
	var b strings.Builder
	for _, name := range path {
		b.WriteString("/" + url.PathEscape(name))
	}
	return b.String()
}
