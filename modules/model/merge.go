package model

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// merged is an object that comes in pieces. What is in it need not be known here:
// texts are joined, except those that name something; objects are merged; lists
// follow one another, or are merged by the index of their members; of other values
// the last one holds.
type merged struct {
	names  []string // in the order in which they came
	values map[string]*mergedValue
}

// mergedValue is one member: a text, an object, a list, or anything else.
type mergedValue struct {
	text   *strings.Builder
	object *merged
	list   []*mergedValue
	other  json.RawMessage
}

// add takes a piece. Some providers repeat in each what names something.
func (m *merged) add(piece map[string]json.RawMessage) {
	for _, name := range slices.Sorted(maps.Keys(piece)) {
		v := m.values[name]
		if v == nil {
			v = &mergedValue{}
			m.put(name, v)
		}
		if v.text != nil && v.text.Len() > 0 && slices.Contains([]string{"id", "type", "role", "name", "format"}, name) {
			continue
		}
		v.add(piece[name])
	}
}

func (m *merged) put(name string, v *mergedValue) {
	if m.values == nil {
		m.values = map[string]*mergedValue{}
	}
	if m.values[name] == nil {
		m.names = append(m.names, name)
	}
	m.values[name] = v
}

// set sets a member.
func (m *merged) set(name string, value json.RawMessage) { m.put(name, &mergedValue{other: value}) }

// text is that of a member; empty where it has none.
func (m *merged) text(name string) string {
	if v := m.values[name]; v != nil && v.text != nil {
		return v.text.String()
	}
	return ""
}

// within is a member that is an object; an empty one where it is none.
func (m *merged) within(name string) *merged {
	if v := m.values[name]; v != nil && v.object != nil {
		return v.object
	}
	return &merged{}
}

// raw is the whole object.
func (m *merged) raw() json.RawMessage {
	var o object
	for _, name := range m.names {
		o.add(name, m.values[name].raw())
	}
	return o.end()
}

func (v *mergedValue) add(piece json.RawMessage) {
	piece = bytes.TrimSpace(piece)
	switch {
	case len(piece) == 0, string(piece) == "null":
		if v.text == nil && v.object == nil && v.list == nil && v.other == nil {
			v.other = piece
		}
	case piece[0] == '"':
		var text string
		_ = json.Unmarshal(piece, &text) // it was read as a part of something already
		if v.text == nil {
			*v = mergedValue{text: &strings.Builder{}}
		}
		v.text.WriteString(text)
	case piece[0] == '{':
		var members map[string]json.RawMessage
		_ = json.Unmarshal(piece, &members) // as above
		if v.object == nil {
			*v = mergedValue{object: &merged{}}
		}
		v.object.add(members)
	case piece[0] == '[':
		var values []json.RawMessage
		_ = json.Unmarshal(piece, &values) // as above
		if v.list == nil {
			*v = mergedValue{list: []*mergedValue{}}
		}
		for _, one := range values {
			v.at(one).add(one)
		}
	default:
		*v = mergedValue{other: piece}
	}
}

// at is the member of a list that a piece belongs to: the one with its index, or a
// new one.
func (v *mergedValue) at(piece json.RawMessage) *mergedValue {
	var part struct {
		Index json.Number `json:"index"`
	}
	if json.Unmarshal(piece, &part) == nil && part.Index != "" {
		for _, one := range v.list {
			if one.object != nil && one.object.values["index"] != nil && string(one.object.values["index"].other) == part.Index.String() {
				return one
			}
		}
	}
	one := &mergedValue{}
	v.list = append(v.list, one)
	return one
}

func (v *mergedValue) raw() json.RawMessage {
	switch {
	case v.text != nil:
		text, _ := encode(v.text.String()) // texts always marshal
		return text
	case v.object != nil:
		return v.object.raw()
	case v.list != nil:
		values := make([]json.RawMessage, len(v.list))
		for i, one := range v.list {
			values[i] = one.raw()
		}
		return list(values)
	case len(v.other) == 0:
		return []byte("null")
	}
	return v.other
}
