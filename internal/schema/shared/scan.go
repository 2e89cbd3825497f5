package shared

import (
	"bytes"
	"encoding/json"
)

// span is a member of an object as it was written: its name with the quotes,
// and its value.
type span struct{ name, value []byte }

// holds says of the keywords with schemas in them what they hold. Whatever is
// in other members is no schema.
func holds(keyword []byte) int {
	switch string(keyword) {
	case `"items"`, `"additionalItems"`, `"additionalProperties"`, `"not"`, `"if"`, `"then"`, `"else"`, `"contains"`, `"propertyNames"`,
		`"unevaluatedItems"`, `"unevaluatedProperties"`, `"oneOf"`, `"anyOf"`, `"allOf"`, `"prefixItems"`:
		return one
	case `"properties"`, `"patternProperties"`, `"$defs"`, `"definitions"`, `"dependentSchemas"`:
		return named
	}
	return 0
}

// reference is what an object refers to among the shared schemas.
func reference(members []span) (string, bool) {
	for _, m := range members {
		if string(m.name) != `"$ref"` || !bytes.HasPrefix(m.value, []byte(`"`+Prefix)) {
			continue
		}
		ref, err := text(m.value)
		return ref, err == nil
	}
	return "", false
}

// text reads a JSON string.
func text(quoted []byte) (string, error) {
	if len(quoted) >= 2 && bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1]), nil
	}
	var s string
	err := json.Unmarshal(quoted, &s)
	return s, err
}

// memberOf is one member of an object.
func memberOf(text []byte, name string) ([]byte, bool) {
	members, err := membersOf(text)
	if err != nil {
		return nil, false
	}
	return value(members, name)
}

// value is that of the member of a name.
func value(members []span, name string) ([]byte, bool) {
	for _, m := range members {
		if plain := bytes.IndexByte(m.name, '\\') < 0; plain && len(m.name) >= 2 {
			if string(m.name[1:len(m.name)-1]) == name {
				return m.value, true
			}
			continue
		}
		if have, err := text(m.name); err == nil && have == name {
			return m.value, true
		}
	}
	return nil, false
}

// membersOf splits an object of valid JSON.
func membersOf(text []byte) ([]span, error) { return split(nil, text, '{', '}') }

// members is membersOf in memory that the expander uses again.
func (e *expander) members(text []byte) ([]span, error) { return e.parts(text, '{', '}') }

// items splits a list; its items have no names.
func (e *expander) items(text []byte) ([]span, error) { return e.parts(text, '[', ']') }

func (e *expander) parts(text []byte, open, end byte) ([]span, error) {
	before := len(e.spans)
	all, err := split(e.spans, text, open, end)
	if err != nil {
		return nil, err
	}
	e.spans = all
	return all[before:len(all):len(all)], nil
}

// split appends the members of an object, or the items of a list.
func split(spans []span, text []byte, open, end byte) ([]span, error) {
	if len(text) < 2 || text[0] != open || text[len(text)-1] != end {
		return nil, errForm
	}
	var name []byte
	depth, from := 0, 1
	for i := 1; i < len(text)-1; i++ {
		switch text[i] {
		case '"':
			i = closing(text, i)
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case ':':
			if depth == 0 {
				name, from = bytes.TrimSpace(text[from:i]), i+1
			}
		case ',':
			if depth == 0 {
				spans, from = append(spans, span{name, bytes.TrimSpace(text[from:i])}), i+1
			}
		}
	}
	if last := bytes.TrimSpace(text[from : len(text)-1]); len(last) > 0 {
		spans = append(spans, span{name, last})
	}
	if depth != 0 {
		return nil, errForm
	}
	return spans, nil
}

// closing is where the string ends that begins at i.
func closing(text []byte, i int) int {
	for i++; i < len(text) && text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i
}

// nesting is how deep objects and lists are within each other, which schemas
// are at most.
func nesting(text []byte) int {
	depth, deepest := 0, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = closing(text, i)
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		}
	}
	return deepest
}
