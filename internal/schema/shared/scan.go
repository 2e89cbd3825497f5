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
var holds = map[string]int{
	`"items"`: one, `"additionalItems"`: one, `"additionalProperties"`: one, `"not"`: one, `"if"`: one, `"then"`: one, `"else"`: one, `"contains"`: one,
	`"propertyNames"`: one, `"unevaluatedItems"`: one, `"unevaluatedProperties"`: one, `"oneOf"`: one, `"anyOf"`: one, `"allOf"`: one, `"prefixItems"`: one,
	`"properties"`: named, `"patternProperties"`: named, `"$defs"`: named, `"definitions"`: named, `"dependentSchemas"`: named,
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
		if have, err := text(m.name); err == nil && have == name {
			return m.value, true
		}
	}
	return nil, false
}

// membersOf splits an object of valid JSON.
func membersOf(text []byte) ([]span, error) {
	parts, err := split(text, '{', '}')
	if err != nil || len(parts)%2 != 0 {
		return nil, errForm
	}
	members := make([]span, 0, len(parts)/2)
	for i := 0; i < len(parts); i += 2 {
		members = append(members, span{parts[i], parts[i+1]})
	}
	return members, nil
}

func itemsOf(text []byte) ([][]byte, error) { return split(text, '[', ']') }

// split returns what stands between the commas and colons of an object or a
// list.
func split(text []byte, open, end byte) ([][]byte, error) {
	if len(text) < 2 || text[0] != open || text[len(text)-1] != end {
		return nil, errForm
	}
	var parts [][]byte
	depth, from := 0, 1
	for i := 1; i < len(text)-1; i++ {
		switch text[i] {
		case '"':
			i = closing(text, i)
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case ',', ':':
			if depth == 0 {
				parts = append(parts, bytes.TrimSpace(text[from:i]))
				from = i + 1
			}
		}
	}
	if last := bytes.TrimSpace(text[from : len(text)-1]); len(last) > 0 {
		parts = append(parts, last)
	}
	if depth != 0 {
		return nil, errForm
	}
	return parts, nil
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
