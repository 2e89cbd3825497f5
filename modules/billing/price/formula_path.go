package price

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// fieldPath is a place in JSON: names, indexes and at most one [*], which
// stands for every item.
type fieldPath []step

// step is a name, or an index, or every index.
type step struct {
	name  string
	index int // everyItem for [*], noIndex for a name
}

const (
	everyItem = -1
	noIndex   = -2
	// maxItems bounds what one [*] may stand for.
	maxItems = 1000
)

// parsePath reads a path such as "contents[0].parts[*].text".
func parsePath(text string) (fieldPath, error) {
	var p fieldPath
	for part := range strings.SplitSeq(text, ".") {
		name, rest, bracket := strings.Cut(part, "[")
		if (name == "" && (rest == "" || len(p) > 0)) || (bracket && rest == "") {
			return nil, fmt.Errorf("fieldPath %q has an empty name", text)
		}
		if name != "" {
			p = append(p, step{name, noIndex})
		}
		for rest != "" {
			inside, after, ok := strings.Cut(rest, "]")
			s := step{index: everyItem}
			if n, err := strconv.Atoi(inside); err == nil && n >= 0 {
				s.index = n
			} else if inside != "*" {
				ok = false
			}
			if !ok || (after != "" && after[0] != '[') {
				return nil, fmt.Errorf("fieldPath %q: brackets hold a number or *", text)
			}
			p, rest = append(p, s), strings.TrimPrefix(after, "[")
		}
	}
	return p, nil
}

func (p fieldPath) wildcards() (n int) {
	for _, s := range p {
		if s.index == everyItem {
			n++
		}
	}
	return n
}

// at follows the path; it has no [*].
func (p fieldPath) at(v any) (any, bool) {
	for _, s := range p {
		if s.index == noIndex {
			object, ok := v.(map[string]any)
			if v, ok = object[s.name], ok && object[s.name] != nil; !ok {
				return nil, false
			}
			continue
		}
		list, ok := v.([]any)
		if !ok || s.index >= len(list) || list[s.index] == nil {
			return nil, false
		}
		v = list[s.index]
	}
	return v, v != nil
}

// value is what the path finds in a document. Under [*] the items are collected,
// without nulls; a text joins them. More than one [*] finds nothing:
// docs/wire/refly.md#price-formulas.
func (p fieldPath) value(document any, category string) (any, bool, error) {
	switch p.wildcards() {
	case 0:
		v, ok := p.at(document)
		if list, isList := v.([]any); isList && len(list) > maxItems {
			return nil, false, errors.New("Array too large")
		}
		return v, ok, nil
	case 1:
	default:
		return nil, false, nil
	}
	i := 0
	for p[i].index != everyItem {
		i++
	}
	v, _ := p[:i].at(document)
	list, ok := v.([]any)
	if !ok {
		return nil, false, nil
	}
	if len(list) > maxItems {
		return nil, false, errors.New("Array too large")
	}
	var found []any
	for _, item := range list {
		if v, ok := p[i+1:].at(item); ok {
			found = append(found, v)
		}
	}
	if len(found) == 0 {
		return nil, false, nil
	}
	if category == textCategory {
		return plainText(found), true, nil
	}
	return found, true, nil
}

// typeAt is the JSON type that a schema declares at a path; empty where the
// schema has no such place. What is behind $ref or allOf is not looked at: a
// rule about it is refused when it is loaded.
func typeAt(schema any, p fieldPath) string {
	s, ok := schema.(map[string]any)
	if !ok {
		return ""
	}
	for _, word := range []string{"oneOf", "anyOf"} {
		branches, _ := s[word].([]any)
		for _, b := range branches {
			if t := typeAt(b, p); t != "" && t != typeNull {
				return t
			}
		}
	}
	if len(p) == 0 {
		return declaredType(s)
	}
	if p[0].index != noIndex {
		return typeAt(s["items"], p[1:])
	}
	properties, _ := s["properties"].(map[string]any)
	return typeAt(properties[p[0].name], p[1:])
}

const (
	typeNull   = "null"
	typeString = "string"
	typeNumber = "number"
	typeBool   = "boolean"
)

func declaredType(s map[string]any) string {
	switch t := s["type"].(type) {
	case string:
		return t
	case []any:
		for _, one := range t {
			if name, ok := one.(string); ok && name != typeNull {
				return name
			}
		}
	}
	if c, ok := s["const"]; ok {
		return typeOf(c)
	}
	if list, ok := s["enum"].([]any); ok && len(list) > 0 {
		return typeOf(list[0])
	}
	return ""
}

func typeOf(v any) string {
	switch v.(type) {
	case string:
		return typeString
	case float64, json.Number:
		return typeNumber
	case bool:
		return typeBool
	case nil:
		return typeNull
	case []any:
		return "array"
	}
	return "object"
}
